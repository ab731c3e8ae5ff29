"""Entries: which file and function a workload comes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from kforge_mcp.errors import UsageError

_FORM = "Give entry as path/file.py:function, where the function returns (model, args) or (model, args, kwargs)"


@dataclass(frozen=True)
class Entry:
    """A user's file, resolved, and the function in it that builds the workload."""

    path: Path
    function: str

    @property
    def text(self) -> str:
        """The entry with its path resolved."""
        return f"{self.path}:{self.function}"


def resolve_entry(entry: str, bases: Iterable[str]) -> Entry:
    """Find the file of `entry`; a relative path is looked up in `bases` in order, empty ones skipped.

    Raises `UsageError` naming every place looked at, or what is wrong with the entry's form.
    """
    path_text, colon, function = entry.strip().rpartition(":")
    if not colon or not path_text:
        raise UsageError(f"entry {entry!r} names no function. {_FORM}.")
    if not function.isidentifier():
        raise UsageError(f"entry {entry!r} ends in {function!r}, which is no function's name. {_FORM}.")
    if not path_text.endswith(".py"):
        raise UsageError(f"entry {entry!r} names no Python file ({path_text!r} does not end in .py). {_FORM}.")
    candidates = list(dict.fromkeys(Path(base, Path(path_text).expanduser()) for base in bases if base))
    for candidate in candidates:
        if candidate.is_file():
            return Entry(candidate.resolve(), function)
    looked = ", ".join(map(str, candidates)) or path_text
    raise UsageError(
        f"entry {entry!r}: there is no such file. Looked for {looked}. Give an absolute path, or one relative to the "
        "project directory (--project-dir)."
    )
