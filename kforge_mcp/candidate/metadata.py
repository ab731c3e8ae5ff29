"""The metadata block: TOML in line comments between `// /// kforge` and `// ///`, in the style of PEP 723."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any

from kforge_mcp.candidate.positions import Path, positions
from kforge_mcp.candidate.rejection import Rejected, located
from kforge_mcp.records.result import Diagnostic

OPENING = "// /// kforge"
CLOSING = "// ///"
EXAMPLE = f'{OPENING}\n// entry = "my_kernel"\n// args = ["x", "out", "x.numel"]\n{CLOSING}'

_OPENING = re.compile(r"^[ \t]*//[ \t]*///[ \t]*kforge[ \t]*$")
_CLOSING = re.compile(r"^[ \t]*//[ \t]*///[ \t]*$")
_NEAR_OPENING = re.compile(r"^[ \t]*//[ \t/]*/?k-?forge\b", re.IGNORECASE)
_CONTENT = re.compile(r"^([ \t]*// ?)(.*)$")
_SINGLE_STEP = re.compile(r"[ \t]*\[[ \t]*step[ \t]*\]")
_TOML_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Metadata:
    """A parsed block. `first_line` and `last_line` are the markers' lines in the source, from 1."""

    values: dict[str, Any]
    first_line: int
    last_line: int
    places: dict[Path, tuple[int, int]]
    """Line and column in the source of every key and array element."""

    def place(self, path: Path) -> tuple[int, int]:
        """Where a value stands in the source; the nearest enclosing value if it has no place of its own."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, (self.first_line, 1))


def source_lines(source: str) -> list[str]:
    """The lines of a source as a compiler counts them."""
    return [line.removesuffix("\r") for line in source.removeprefix("\ufeff").split("\n")]


def read_metadata(source: str) -> Metadata | Rejected:
    """Find and parse the block of a candidate's source."""
    lines = source_lines(source)
    openings = [number for number, line in enumerate(lines, 1) if _OPENING.match(line)]
    if not openings:
        return _no_block(lines)
    if len(openings) > 1:
        return _reject("contract_error", lines, openings[1], 1, "a second metadata block; one file has one block")
    first = openings[0]
    content: list[tuple[int, str]] = []
    for number in range(first + 1, len(lines) + 1):
        line = lines[number - 1]
        if _CLOSING.match(line):
            return _parse(lines, first, number, content)
        match = _CONTENT.match(line)
        if not match:
            return _interrupted(lines, first, number)
        content.append((len(match[1]), match[2]))
    return _reject("contract_error", lines, first, 1, f"the metadata block is never closed: end it with `{CLOSING}`")


def _interrupted(lines: list[str], first: int, number: int) -> Rejected:
    """What to say of a line in the block that is no comment: mostly the closing marker is missing before it."""
    if not any(line.strip() for line in lines[number - 1 :]):
        return _reject(
            "contract_error", lines, first, 1, f"the metadata block is never closed: end it with `{CLOSING}`"
        )
    message = f"a line that is no comment inside the metadata block: close the block with `{CLOSING}` before it"
    return _reject("contract_error", lines, number, 1, message)


def _no_block(lines: list[str]) -> Rejected:
    near = next((number for number, line in enumerate(lines, 1) if _NEAR_OPENING.match(line)), 0)
    message = f"no metadata block: a candidate starts with a block opened by `{OPENING}` and closed by `{CLOSING}`"
    if near:
        message = f"this line does not open the metadata block: write `{OPENING}`"
    return _reject("contract_error", lines, near, 1 if near else 0, message, hint=f"for example:\n{EXAMPLE}")


def _parse(lines: list[str], first: int, last: int, content: list[tuple[int, str]]) -> Metadata | Rejected:
    text = "\n".join(line for _, line in content) + "\n"
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        match = _TOML_PLACE.search(str(error))
        message = str(error)[: match.start()] if match else str(error)
        if match and match[1]:
            index, column = int(match[1]) - 1, int(match[2])
            shift = content[index][0] if index < len(content) else 0
            place = (first + 1 + index, column + shift)
        else:
            place = _unbalanced(first, content) or (last, 1)
        single = next((number for number, (_, line) in enumerate(content) if _SINGLE_STEP.match(line)), None)
        if single is not None:
            message = "steps are written as [[step]] tables, with double brackets"
            return _reject("contract_error", lines, first + 1 + single, content[single][0] + 1, message)
        message = f"the metadata is not TOML: {message}"
        return _reject("syntax_error", lines, *place, message, hint=_toml_hint(lines, place))
    except RecursionError:
        return _reject("syntax_error", lines, first, 1, "the metadata is nested too deeply")
    starts = [0]
    for _, line in content:
        starts.append(starts[-1] + len(line) + 1)
    places: dict[Path, tuple[int, int]] = {}
    index = 0
    for path, offset in sorted(positions(text).items(), key=lambda item: item[1]):
        while starts[index + 1] <= offset:
            index += 1
        places[path] = (first + 1 + index, content[index][0] + offset - starts[index] + 1)
    return Metadata(values, first, last, places)


def _unbalanced(first: int, content: list[tuple[int, str]]) -> tuple[int, int] | None:
    """The first line with an odd number of one kind of quote: where a string that never ends began."""
    for number, (shift, line) in enumerate(content, first + 1):
        for quote in "\"'":
            if line.count(quote) % 2:
                return number, shift + line.rindex(quote) + 1
    return None


def _toml_hint(lines: list[str], place: tuple[int, int]) -> str:
    line = lines[place[0] - 1] if place[0] <= len(lines) else ""
    bare = re.match(r"^[ \t]*// ?[\w.-]+[ \t]*=[ \t]*([A-Za-z_][^\"'\[{]*)$", line)
    if bare and bare[1].strip() not in ("true", "false", "inf", "nan"):
        return f'text stands in quotes: "{bare[1].strip()}"'
    return ""


def _reject(reason: Any, lines: list[str], line: int, column: int, message: str, *, hint: str = "") -> Rejected:
    text = lines[line - 1] if 0 < line <= len(lines) else ""
    diagnostic = Diagnostic(
        severity="error", message=message, line=line, column=column, source_line=text[:200], hint=hint
    )
    return located(reason, [diagnostic])
