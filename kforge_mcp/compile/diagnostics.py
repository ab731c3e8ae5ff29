"""What compilers and linkers print, as data about the author's own file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.compile.known_messages import breaks_contract, exceeded_limit, hint_for
from kforge_mcp.compile.source import CANDIDATE_FILE, CONTRACT_FILE, PREAMBLE_FILE, REFERENCE
from kforge_mcp.records.result import Diagnostic, Reason

_PLACE = r"^(?P<file>[^:\n]+):(?P<line>\d+):(?:(?P<column>\d+):)?\s+"
_MESSAGE = re.compile(_PLACE + r"(?P<severity>fatal error|error|warning|note|sorry, unimplemented): (?P<text>.*)$")
_ORIGIN = re.compile(_PLACE + r"(?:(?:recursively )?required (?:from|by)|in 'constexpr')")
_UNDEFINED = re.compile(r"(?:undefined reference to|undefined symbol:) [`']?(?P<name>[^'\n]+?)'?\s*$", re.MULTILINE)
_LATER = ("GOMP_", "omp_", "__kmpc_", "kmpc_", "__asan_", "__ubsan_", "__sanitizer_")
"""Beginnings of names that are resolved when the library is loaded: OpenMP's and the sanitizers'."""

_PARALLEL = re.compile(r"^\s*#\s*pragma\s+omp\s+(?:parallel|for|sections|task|taskloop|teams)\b")


@dataclass
class Findings:
    """What a compilation said. `reason` is None when nothing in it is an error."""

    reason: Reason | None = None
    diagnostics: list[Diagnostic] = field(default_factory=list)


def read_compiler_output(text: str, source: str, entry: str, signature: str, limits: dict[str, float]) -> Findings:
    """Diagnostics of one compilation, those about the author's file located in it, headers' errors at their cause."""
    lines = source_lines(source)
    found: list[Diagnostic] = []
    origin: tuple[int, int] | None = None
    contract = False
    for raw in text.splitlines():
        cause = _ORIGIN.match(raw)
        if cause:
            if cause["file"] == CANDIDATE_FILE:
                origin = (int(cause["line"]), int(cause["column"] or 0))
            continue
        match = _MESSAGE.match(raw)
        if not match:
            continue
        severity, message, file = match["severity"], match["text"].strip(), match["file"]
        if severity == "note":
            _attach_note(found, file, (int(match["line"]), int(match["column"] or 0)), message, lines)
            continue
        severity = "warning" if severity == "warning" else "error"
        place = (int(match["line"]), int(match["column"] or 0)) if file == CANDIDATE_FILE else origin or (0, 0)
        origin = None
        if severity == "warning" and not place[0]:
            continue
        hint = hint_for(message)
        if file == CONTRACT_FILE:
            place = (_last_line(lines), 1)
            hint = "a brace, parenthesis or condition is still open where the file ends"
        elif file == PREAMBLE_FILE and REFERENCE not in message:
            message = f"{message} (in the declarations that kforge makes)"
        line_text = lines[place[0] - 1] if 0 < place[0] <= len(lines) else ""
        if severity == "error" and breaks_contract(message, entry, line_text):
            contract = True
            message, hint = f"`{entry}` is not defined as its `args` need it: {signature}", f"found: {message}"
        found.append(
            Diagnostic(
                severity=severity,
                message=message[:600],
                line=place[0],
                column=place[1],
                source_line=line_text[:200],
                hint=hint[:300],
            )
        )
    exceeded = exceeded_limit(text, limits)
    if exceeded:
        first = next((one for one in found if one.severity == "error" and one.line), None)
        place = {"line": first.line, "column": first.column, "source_line": first.source_line} if first else {}
        cause = Diagnostic(severity="error", message=exceeded, **place)
        return Findings("limit_exceeded", ordered([cause, *found]))
    errors = any(one.severity == "error" for one in found)
    return Findings(("contract_error" if contract else "syntax_error") if errors else None, ordered(found))


def read_linker_output(text: str, source: str, entry: str, signature: str) -> Findings:
    """Functions that nothing defines; those of OpenMP are resolved later from torch's own library."""
    lines = source_lines(source)
    names = dict.fromkeys(match["name"].strip() for match in _UNDEFINED.finditer(text))
    found: list[Diagnostic] = []
    for name in names:
        if name.startswith(_LATER):
            continue
        short = name.partition("(")[0].rpartition("::")[2]
        message = f"`{name}` is used but nothing defines it"
        hint = "a candidate is linked with the C and C++ libraries only"
        if name == entry:
            message, hint = f"the source does not define the function of `entry`: {signature}", ""
        pattern = re.compile(rf"\b{re.escape(short)}\s*\(")
        number = next((number for number, line in enumerate(lines, 1) if pattern.search(line) and "///" not in line), 0)
        column = 0
        if number and (place := pattern.search(lines[number - 1])):
            column = place.start() + 1
        text_line = lines[number - 1][:200] if number else ""
        found.append(
            Diagnostic(severity="error", message=message, line=number, column=column, source_line=text_line, hint=hint)
        )
    return Findings("contract_error" if found else None, found)


def serial_regions(source: str) -> list[Diagnostic]:
    """Warnings of OpenMP regions that run on one thread, as all do that clang compiles; see `Toolchain.openmp`."""
    message = "compiled by clang++ this runs on one thread: only g++'s OpenMP shares torch's threads"
    return [
        Diagnostic(severity="warning", message=message, line=number, source_line=line.strip()[:200])
        for number, line in enumerate(source_lines(source), 1)
        if _PARALLEL.match(line)
    ]


def _last_line(lines: list[str]) -> int:
    """The last line with something on it, from 1."""
    return max((number for number, line in enumerate(lines, 1) if line.strip()), default=1)


def relevant_linker_output(text: str) -> str:
    """A linker's output without the unresolved OpenMP functions, which are as intended."""
    kept = [
        line
        for line in text.splitlines()
        if not line.rstrip().endswith(":") and not any(name.startswith(_LATER) for name in _UNDEFINED.findall(line))
    ]
    return "\n".join(kept)


def _attach_note(found: list[Diagnostic], file: str, place: tuple[int, int], message: str, lines: list[str]) -> None:
    """The first note after an error explains it, or says where in the author's file a header's error comes from."""
    if not found or found[-1].severity != "error":
        return
    last = found[-1]
    if not last.line and file == CANDIDATE_FILE and 0 < place[0] <= len(lines):
        text = lines[place[0] - 1][:200]
        found[-1] = last.model_copy(update={"line": place[0], "column": place[1], "source_line": text})
    elif not last.hint and file in (CANDIDATE_FILE, PREAMBLE_FILE):
        found[-1] = last.model_copy(update={"hint": message[:300]})


def ordered(found: list[Diagnostic]) -> list[Diagnostic]:
    """Errors before warnings, each once, otherwise as the compiler found them."""
    unique = {(one.severity, one.line, one.column, one.message): one for one in reversed(found)}
    kept = list(reversed(unique.values()))
    return [one for one in kept if one.severity == "error"] + [one for one in kept if one.severity != "error"]
