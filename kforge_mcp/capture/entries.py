"""Entries: where a workload comes from, in the words of whoever asks for its capture."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kforge_mcp.errors import UsageError

LIBRARIES = ("torchvision", "transformers")
FORMS = (
    "Give entry as path/file.py:function, where the function returns (model, args) or (model, args, kwargs); as a "
    "script with its arguments, 'infer.py --batch 4' or '-m package.module'; as torchvision:resnet50; or as "
    "transformers:LlamaForCausalLM num_hidden_layers=2"
)

Kind = Literal["function", "script", "module", "library"]


@dataclass(frozen=True)
class Entry:
    """An entry, its path resolved. `path` is None where there is no file of the user's, or none to be found here."""

    kind: Kind
    text: str
    """What the model interpreter is told."""
    name: str
    """What the project is called unless it is given a name."""
    path: Path | None = None
    function: str = ""


def resolve_entry(entry: str, bases: Iterable[str]) -> Entry:
    """Read `entry`; a relative path is looked up in `bases` in order, empty ones skipped.

    Raises `UsageError` naming every place looked at, or what is wrong with the entry's form.
    """
    folders = [base for base in bases if base]
    text = entry.strip()
    function = re.fullmatch(r"([^'\"]*\.py):(\w+)", text)
    if function and (" " not in text or _find(function[1], folders)):
        return _function(entry, function[1], function[2], folders)
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"entry {entry!r} cannot be split into words as a shell does: {error}. {FORMS}.") from error
    first = words[0] if words else ""
    library, colon, name = first.partition(":")
    if library in LIBRARIES and colon:
        if not name:
            raise UsageError(f"entry {entry!r} names no model of {library}. {FORMS}.")
        return Entry("library", shlex.join(words), name.rpartition("/")[2])
    if first == "-m":
        if len(words) < 2:
            raise UsageError(f"entry {entry!r} names no module. {FORMS}.")
        return Entry("module", shlex.join(words), words[1])
    if first.endswith(".py"):
        path = _existing(entry, first, folders)
        return Entry("script", shlex.join([str(path), *words[1:]]), path.stem, path)
    raise UsageError(_wrong_form(entry, text))


def placed(entry: Entry) -> str:
    """The text of an entry whose workload is on the GPU, so that every later process builds it there."""
    words = shlex.split(entry.text) if entry.kind == "library" else []
    if not words or any(word.startswith("device=") for word in words):
        return entry.text
    return shlex.join([*words, "device=cuda"])


def _function(entry: str, path_text: str, function: str, folders: list[str]) -> Entry:
    if not function.isidentifier():
        raise UsageError(f"entry {entry!r} ends in {function!r}, which is no function's name. {FORMS}.")
    path = _existing(entry, path_text, folders)
    return Entry("function", f"{path}:{function}", path.stem, path, function)


def _wrong_form(entry: str, text: str) -> str:
    path_text, colon, function = text.rpartition(":")
    if not colon or not path_text:
        return f"entry {entry!r} names neither a function, nor a script, nor a library's model. {FORMS}."
    if not path_text.endswith(".py"):
        return f"entry {entry!r} names no Python file ({path_text!r} does not end in .py). {FORMS}."
    return f"entry {entry!r} ends in {function!r}, which is no function's name. {FORMS}."


def _candidates(path_text: str, folders: list[str]) -> list[Path]:
    return list(dict.fromkeys(Path(folder, Path(path_text).expanduser()) for folder in folders))


def _find(path_text: str, folders: list[str]) -> Path | None:
    return next((path.resolve() for path in _candidates(path_text, folders) if path.is_file()), None)


def _existing(entry: str, path_text: str, folders: list[str]) -> Path:
    found = _find(path_text, folders)
    if found is None:
        looked = ", ".join(map(str, _candidates(path_text, folders))) or path_text
        raise UsageError(
            f"entry {entry!r}: there is no such file. Looked for {looked}. Give an absolute path, or one relative to "
            "the project directory (--project-dir)."
        )
    return found
