"""Where the values of a TOML text stand: `tomllib` gives values only, and an error has to name its place."""

from __future__ import annotations

import re

Path = tuple[str | int, ...]

_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ATOM = re.compile(r"[^,\]\}\s#]+(?: \d[^,\]\}\s#]*)?")
_STRING = re.compile(
    r'"""(?:\\.|.)*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'",
    re.DOTALL,
)


def positions(text: str) -> dict[Path, int]:
    """The offset of every value by its path; a string's offset is that of its first character inside the quotes.

    `("step", 0, "args", 2)` is the third element of `args` in the first `[[step]]`. A table's offset is that of its
    header. The text must be one that `tomllib` has accepted.
    """
    return _Walk(text).found


class _Walk:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, int] = {}
        self.counts: dict[Path, int] = {}
        table: Path = ()
        while self._skip(_BLANK) < len(text):
            before = self.at
            if text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            if self.at <= before:
                break

    def _skip(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.text, self.at)
        if match:
            self.at = match.end()
        return self.at

    def _header(self) -> Path:
        start = self.at
        array = self.text.startswith("[[", start)
        self.at += 2 if array else 1
        path = self._resolved(self._key())
        self.at += 2 if array else 1
        if array:
            number = self.counts.get(path, 0)
            self.counts[path] = number + 1
            path = (*path, number)
        self.found.setdefault(path, start)
        return path

    def _resolved(self, key: Path) -> Path:
        """A header's path with the current element of every array of tables above it."""
        path: Path = ()
        for part in key[:-1]:
            path = (*path, part)
            if path in self.counts:
                path = (*path, self.counts[path] - 1)
        return (*path, key[-1])

    def _key(self) -> Path:
        parts: list[str] = []
        while True:
            self._skip(_SPACE)
            match = _STRING.match(self.text, self.at) or _BARE.match(self.text, self.at)
            if not match:
                return tuple(parts)
            parts.append(match.group().strip("\"'"))
            self.at = match.end()
            self._skip(_SPACE)
            if not self.text.startswith(".", self.at):
                return tuple(parts)
            self.at += 1

    def _pair(self, table: Path) -> None:
        start = self.at
        key = self._key()
        path = (*table, *key)
        self.found.setdefault((*path, "="), start)
        self.at += 1
        self._skip(_SPACE)
        self._value(path)
        self._skip(_SPACE)

    def _value(self, path: Path) -> None:
        self.found[path] = self.at
        opening = self.text[self.at]
        if opening == "[":
            self._array(path)
        elif opening == "{":
            self._inline_table(path)
        elif opening in "\"'":
            quotes = 3 if self.text.startswith(opening * 3, self.at) else 1
            self.found[path] = self.at + quotes
            self._skip(_STRING)
        else:
            self._skip(_ATOM)

    def _array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while self._skip(_BLANK) < len(self.text) and self.text[self.at] != "]":
            self._value((*path, index))
            index += 1
            self._skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
        self.at += 1

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        while self._skip(_BLANK) < len(self.text) and self.text[self.at] != "}":
            self._pair(path)
            self._skip(_BLANK)
            if self.text.startswith(",", self.at):
                self.at += 1
        self.at += 1
