"""The preprocessor's directives in C++ source as a compiler sees them, and those that would read files by path."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.records.result import Diagnostic

_SPLICE = re.compile(r"\\[ \t\r]*\n")
_RAW = re.compile(r'(?<!\w)(?:u8|[uUL])?R"')
_FENCE = re.compile(r"([^()\\\s]{0,16})\(")
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<text>"(?:\\.|[^"\\\n])*"?|(?<!\w)(?:u8|[uUL])?'(?:\\.|[^'\\\n])*'?)"""
    r"""|(?P<number>(?<!\w)\.?\d(?:[eEpP][+-]|'(?=\w)|[\w.])*)""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[^\S\n]*(?:\#|%:)[^\S\n]*(?P<name>\w+)[^\S\n]*(?P<operand>[^\n]*)", re.MULTILINE)
_TRIGRAPH = re.compile(r"\?\?[=/]")
_PROBE = re.compile(r"\b__has_(?:include|include_next|embed)\b[ \t]*\(?[ \t]*(?P<operand>[<\"][^>\"\n]*)?")
_LITERAL = re.compile(r'<(?P<angled>[^>\n]+)>|"(?P<quoted>[^"\n]+)"')
_READING = ("include", "include_next", "import", "embed")
_OUTSIDE = re.compile(r"\s*(?:[/~]|\w:)|(?:.*[/\\])?\.\.(?:[/\\]|$)")
HINT = 'a candidate is one file: write #include <header> or #include "header" with a header\'s own name'


@dataclass(frozen=True)
class Directive:
    """One directive. `operand` is the rest of its line without comments; `line` is where it starts, from 1."""

    line: int
    name: str
    operand: str

    @property
    def header(self) -> str:
        """The header that an include names; empty where it is no literal."""
        match = _LITERAL.match(self.operand)
        return (match["angled"] or match["quoted"]).strip() if match else ""

    @property
    def angled(self) -> bool:
        """Whether the operand stands in angle brackets."""
        return self.operand.startswith("<")


def directives(source: str) -> list[Directive]:
    """The directives of a source in order: lines joined, comments and literals of several lines understood."""
    text, lines = _logical(source)
    return [
        Directive(lines[match.start("name")], match["name"], match["operand"].strip())
        for match in _DIRECTIVE.finditer(text)
    ]


def reads_files(source: str, *, headers_only: bool) -> list[Diagnostic]:
    """What could read a file of this machine and show it in a message.

    That is an include by path or by macro, the same spelt with a trigraph, and a question whether a file is there.
    With `headers_only`, for sources that have a list of headers, every such question is one too many.
    """
    found: list[tuple[int, str]] = []
    for directive in directives(source):
        if directive.name not in _READING:
            continue
        if directive.name != "include":
            found.append((directive.line, f"`#{directive.name}` is not for a candidate"))
        elif not directive.header:
            found.append((directive.line, "the header of an `#include` stands there literally, not as a macro"))
        elif _OUTSIDE.match(directive.header) and not headers_only:
            found.append((directive.line, f"`{directive.header[:80]}` is a path, not the name of a header"))
    text, lines = _logical(source)
    for match in _PROBE.finditer(text):
        operand = match["operand"] or ""
        if headers_only or not operand or _OUTSIDE.match(operand[1:]):
            found.append((lines[match.start()], "a candidate may not ask whether a file is there"))
    for number, line in enumerate(source_lines(source), 1):
        if _TRIGRAPH.search(line):
            found.append((number, "trigraphs (`??=`, `??/`) are not for a candidate"))
    shown = source_lines(source)
    return [
        Diagnostic(
            severity="error",
            message=message,
            line=line,
            column=len(shown[line - 1]) - len(shown[line - 1].lstrip()) + 1,
            source_line=shown[line - 1][:200],
            hint=HINT,
        )
        for line, message in sorted(found)
    ]


def _logical(source: str) -> tuple[str, list[int]]:
    """A source with lines joined and comments as spaces, and the line in the source of each of its characters."""
    joined, origins = _joined(source)
    text: list[str] = []
    kept: list[int] = []
    for start, end, plain in _pieces(source, joined, origins):
        piece = joined[start:end] if plain else " "
        text.append(piece)
        kept += origins[start : start + len(piece)]
    ends = [index for index, character in enumerate(source) if character == "\n"]
    return "".join(text), [bisect_left(ends, origin) + 1 for origin in kept]


def _joined(source: str) -> tuple[str, list[int]]:
    text: list[str] = []
    origins: list[int] = []
    at = 0
    for match in (*_SPLICE.finditer(source), None):
        end = match.start() if match else len(source)
        text.append(source[at:end])
        origins += range(at, end)
        at = match.end() if match else end
    return "".join(text), origins


def _pieces(source: str, joined: str, origins: list[int]) -> Iterator[tuple[int, int, bool]]:
    """Stretches of the joined text, and whether they stay: comments and raw strings, which span lines, do not."""
    at = 0
    while at < len(joined):
        token, raw = _TOKEN.search(joined, at), _RAW.search(joined, at)
        if raw and (token is None or raw.start() < token.start() or raw.end() - 1 == token.start()):
            # The lines of a raw string are not joined: its end is looked for in the source itself.
            opening = origins[raw.end() - 1] + 1
            fence = _FENCE.match(source, opening)
            closing = source.find(f'){fence[1]}"', fence.end()) if fence else opening
            end = closing + len(fence[1]) + 2 if fence and closing >= 0 else len(source) if fence else opening
            yield at, raw.start(), True
            yield raw.start(), raw.end(), False
            at = bisect_left(origins, end)
        elif token:
            yield at, token.start(), True
            yield token.start(), token.end(), token["comment"] is None
            at = token.end()
        else:
            yield at, len(joined), True
            return
