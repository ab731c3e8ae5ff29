"""What NVRTC and its assembler print, as data about the author's own file."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.rejection import nearest
from kforge_mcp.candidate.signature import LaunchDeclaration
from kforge_mcp.compile.cuda.known_messages import exceeded_limit, hint_for
from kforge_mcp.compile.cuda.source import CANDIDATE_FILE, CLOSED_LINE, passed
from kforge_mcp.compile.diagnostics import Findings, ordered
from kforge_mcp.compile.source import CONTRACT_FILE, PREAMBLE_FILE
from kforge_mcp.records.result import Diagnostic, Reason

_MESSAGE = re.compile(
    r"^(?P<file>[^\s(][^(\n]*)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning|remark|note)"
    r"(?: #\d+(?:-D)?)?: (?P<text>.*)$"
)
_ASSEMBLER = re.compile(
    r"^ptxas (?:<macro util>|[\w.]+)?\s*(?:, line \d+)?;?\s*(?P<severity>error|fatal|warning)\s*:\s*(?P<text>.*)$"
)
_NAME = re.compile(r'Input name expression was: "(?P<name>.*)"')
_ORIGIN = re.compile(r'at line (?P<line>\d+)(?: of "?(?P<file>[^"\n]+?)"?)?\s*$')
_UNRESOLVED = "does not name one kernel of the source"
_CHECK = re.compile(r'"kforge (?P<launch>\d+) (?P<index>\d+)"')
_KERNEL = re.compile(r"__global__\s+(?:(?:void|__launch_bounds__\s*\([^)]*\)|\w+)\s+)*(?P<name>[A-Za-z_]\w*)\s*\(")


def read_nvrtc_log(text: str, source: str, launches: Sequence[LaunchDeclaration], *, ok: bool) -> Findings:
    """Diagnostics of one compilation. Those about the author's file are placed in it, headers' errors at their cause.

    With `ok` only warnings are looked for: the program compiled.
    """
    lines = source_lines(source)
    found: list[Diagnostic] = []
    reason: Reason = "syntax_error"
    unclosed = False
    printed = text.splitlines()
    for number, raw in enumerate(printed):
        one: Diagnostic | None = None
        match = _MESSAGE.match(raw)
        if match and match["severity"] == "note":
            if found and found[-1].severity == "error" and not found[-1].hint:
                found[-1] = found[-1].model_copy(update={"hint": match["text"].strip()[:300]})
        elif match:
            detail = _until_next(printed, number)
            one = _located(match, detail, lines, launches)
            if match["file"] == CONTRACT_FILE and int(match["line"]) > CLOSED_LINE:
                reason = "contract_error"
            elif match["file"] == CONTRACT_FILE:
                unclosed = True
        elif match := _ASSEMBLER.match(raw):
            one = _assembled(match["severity"], match["text"].strip())
        elif match := _NAME.search(raw):
            one = _no_such_kernel(match["name"], source, launches, lines)
            reason = "contract_error"
        if one is not None:
            found.append(one)
    # What NVRTC quotes of the source is indented.
    exceeded = "" if ok else exceeded_limit("\n".join(raw for raw in printed if raw[:1].strip()))
    if exceeded:
        first = next((one for one in found if one.severity == "error" and one.line), None)
        place = {"line": first.line, "column": first.column, "source_line": first.source_line} if first else {}
        return Findings("limit_exceeded", [Diagnostic(severity="error", message=exceeded, **place)])
    if unclosed:
        found = [one for one in found if _UNRESOLVED not in one.message]
        reason = "syntax_error"
    found = _without_echoes(found)
    errors = any(one.severity == "error" for one in found)
    return Findings(reason if errors and not ok else None, ordered(found))


def _until_next(printed: list[str], number: int) -> list[str]:
    """The lines that belong to a message: the quoted source, a caret, and how its template came about."""
    detail = []
    for line in printed[number + 1 :]:
        match = _MESSAGE.match(line)
        if (match and match["severity"] != "note") or line.startswith("ptxas"):
            break
        detail.append(line)
    return detail


def _located(
    match: re.Match[str], detail: list[str], lines: list[str], launches: Sequence[LaunchDeclaration]
) -> Diagnostic | None:
    severity = "error" if "error" in match["severity"] else "warning"
    message, file, line = match["text"].strip(), match["file"], int(match["line"])
    column = _column(detail) if file == CANDIDATE_FILE else 0
    hint = hint_for(message)
    check = _CHECK.search(message)
    if check:
        launch, index = launches[int(check["launch"])], int(check["index"])
        name = launch.parameters[index].name
        message = f"argument {index + 1} of `{launch.kernel}` (`{name}`) is {passed(launch, index)}, not what it takes"
        line, column, hint = launch.line, launch.column, f"write {launch}"
    elif file == CONTRACT_FILE and line <= CLOSED_LINE:
        line = len(lines) + 1
    elif file == CONTRACT_FILE:
        launch = next((one for one in launches if any(one.kernel in line for line in detail[:1])), launches[0])
        line, column = launch.line, launch.column
        message = f"`{launch.kernel}` {_UNRESOLVED}: {message}"
        hint = "a kernel is a __global__ function of one name; its template arguments are tunables or types"
    elif file == PREAMBLE_FILE:
        line, message = 0, f"{message} (in the declarations that kforge makes)"
    elif file != CANDIDATE_FILE:
        if severity == "warning":
            return None
        message = f"{message} (in {file.rpartition('/')[2]})"
        line = _origin(detail)
    if severity == "warning" and not 0 < line <= len(lines):
        return None
    if line > len(lines):
        line = max((at for at, one in enumerate(lines, 1) if one.strip()), default=1)
        column, hint = 1, "a brace, parenthesis or condition is still open where the file ends"
    text = lines[line - 1] if line else ""
    return Diagnostic(
        severity=severity,
        message=message[:600],
        line=line,
        column=column,
        source_line=text[:200],
        hint=hint[:300],
    )


def _column(detail: list[str]) -> int:
    """The column under which NVRTC set its caret, from 1; 0 if it set none. It indents what it quotes by two."""
    for line in detail[:4]:
        if line.strip() == "^":
            return max(line.index("^") - 1, 1)
    return 0


def _origin(detail: list[str]) -> int:
    """The author's line that led to an error in a header, from the trail of instantiations."""
    for line in reversed(detail):
        match = _ORIGIN.search(line)
        if match and match["file"] == CANDIDATE_FILE:
            return int(match["line"])
    return 0


def _assembled(severity: str, message: str) -> Diagnostic | None:
    if severity == "warning":
        return None
    return Diagnostic(severity="error", message=f"assembler: {message}"[:600], hint=hint_for(message))


def _no_such_kernel(name: str, source: str, launches: Sequence[LaunchDeclaration], lines: list[str]) -> Diagnostic:
    known = [match["name"] for match in _KERNEL.finditer(source)]
    launch = next((one for one in launches if one.kernel == name), None)
    base = re.match(r"[\w:]*", name)
    close = nearest(base[0] if base else name, known)
    same = base is not None and close == base[0]
    hint = f"did you mean `{close}`?" if close and not same else f"kernels here: {', '.join(known[:8]) or 'none'}"
    if same:
        hint = "its template arguments do not fit: they are constants (tunables) or types"
    line = next((at for at, text in enumerate(lines, 1) if name in text), launch.line if launch else 0)
    text = lines[line - 1] if line else ""
    return Diagnostic(
        severity="error",
        message=f"the source has no kernel `{name}`",
        line=line,
        column=text.find(name) + 1 if line else 0,
        source_line=text[:200],
        hint=hint,
    )


def _without_echoes(found: list[Diagnostic]) -> list[Diagnostic]:
    """Without errors that have no place of their own while others have one: they are their consequences."""
    placed = any(one.severity == "error" and one.line for one in found)
    kept = [one for one in found if one.line or not placed or one.severity != "error"]
    nameless = [one for one in kept if _UNRESOLVED in one.message]
    others = [one for one in kept if one not in nameless]
    return others if any(one.severity == "error" for one in others) else [*nameless[:1], *others]
