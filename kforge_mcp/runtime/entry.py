"""The user's workload: a model and its sample calls, from what an entry names.

An entry is `path/file.py:function`, `path/script.py --its arguments`, `-m package.module --its arguments`,
`torchvision:name key=value` or `transformers:Class key=value`.
"""

from __future__ import annotations

import copy
import difflib
import importlib
import importlib.util
import inspect
import os
import re
import shlex
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from . import entry_library, entry_script
from .failures import Refusal

Call = tuple[tuple[Any, ...], dict[str, Any]]
ACCEPTED = "(model, args), (model, args, kwargs), or a list of such calls of one model"
_TRACE_CHARACTERS = 1500


@dataclass
class Workload:
    """A model with its sample calls, and the user's file behind it, if there is one."""

    model: torch.nn.Module
    calls: list[Call]
    file: Path | None = None
    module: ModuleType | None = None
    search_path: list[str] = field(default_factory=list)
    """Folders put first on `sys.path` for the user's imports."""
    imports: list[dict[str, Any]] = field(default_factory=list)
    """What another process imports to have the model's classes: see `reference.import_code`."""
    notes: list[str] = field(default_factory=list)

    def prepare(self) -> list[Call]:
        """Copies of the calls, so that a model that writes into its arguments starts every run alike."""
        try:
            return copy.deepcopy(self.calls)
        except (RuntimeError, TypeError):
            return self.calls

    def execute(self, calls: list[Call]) -> list[Any]:
        """Run prepared calls in order under `no_grad` and return their results.

        Raises `Refusal("user_error")` with the user's own traceback if the model does.
        """
        results = []
        with torch.no_grad():
            for number, (args, kwargs) in enumerate(calls):
                try:
                    results.append(self.model(*args, **kwargs))
                except (Exception, SystemExit) as error:
                    which = f"call {number + 1} of {len(calls)} of {type(self.model).__name__}"
                    raise user_error(f"the model raised in {which}", error) from error
        return results

    def run(self) -> list[Any]:
        """`execute` on fresh copies of the calls."""
        return self.execute(self.prepare())


def load_workload(entry: str, project_dir: str, device: str = "cpu") -> Workload:
    """Build the workload that `entry` describes; a library's model on `device` unless the entry names another.

    A relative path is looked up in `project_dir`, `CLAUDE_PROJECT_DIR` and the working directory, in this order.
    Raises `Refusal`: `contract` where the entry does not fit, `user_error` where the user's code raises.
    """
    words = _words(entry)
    first = words[0] if words else ""
    library, _, name = first.partition(":")
    if library in entry_library.LIBRARIES and name:
        model, calls = entry_library.load_model(library, name, words[1:], device)
        return Workload(model, calls)
    if first == "-m" and len(words) > 1:
        return _load_script(words[1], words[2:], project_dir, is_module=True)
    path_text, _, name = entry.rpartition(":")
    if path_text.endswith(".py") and name.isidentifier() and not (first.endswith(".py") and len(words) > 1):
        return _load_function(path_text, name, project_dir)
    if first.endswith(".py"):
        return _load_script(first, words[1:], project_dir)
    forms = "path/file.py:function, path/script.py --arguments, -m module, torchvision:name, transformers:Class"
    raise Refusal("contract", f"entry {entry!r} is none of {forms}")


def _words(entry: str) -> list[str]:
    """An entry split like a shell does; a path with spaces before `:function` is one word."""
    if re.fullmatch(r"[^'\"]*\.py:\w+", entry) and Path(entry.rpartition(":")[0]).is_file():
        return [entry]
    try:
        return shlex.split(entry)
    except ValueError as error:
        raise Refusal("contract", f"entry {entry!r} cannot be split into words: {error}") from error


def _load_script(name: str, arguments: list[str], project_dir: str, *, is_module: bool = False) -> Workload:
    if is_module:
        search_path = [project_dir or os.getcwd()]
        _put_first(search_path)
        path, package = entry_script.find_module(name)
    else:
        path, package = resolve(name, project_dir), ""
        search_path = [str(path.parent), *([project_dir] if project_dir else [])]
        _put_first(search_path)
        name = path.stem
    try:
        module, recorded = entry_script.run_script(name, path, arguments, package)
    except Refusal:
        raise
    except (Exception, SystemExit) as error:
        raise user_error(f"{path} raised when it was run", error) from error
    model, calls = entry_script.as_workload(recorded, path)
    notes = []
    if recorded.seen > len(calls):
        notes.append(f"the script called its models {recorded.seen} times; the first {len(calls)} calls are captured")
    imports = [{"name": name, "path": str(path), "definitions": True}]
    return Workload(model, calls, path, module, search_path, imports, notes)


def _load_function(path_text: str, name: str, project_dir: str) -> Workload:
    path = resolve(path_text, project_dir)
    search_path = [str(path.parent), *([project_dir] if project_dir else [])]
    module = import_file(path.stem, str(path), search_path)
    function = _function(module, name, path)
    try:
        result = function()
    except (Exception, SystemExit) as error:
        raise user_error(f"{name}() in {path} raised", error) from error
    model, calls = _read_result(result, name)
    imports = [{"name": path.stem, "path": str(path)}]
    return Workload(model, calls, path, module, search_path, imports)


def resolve(path_text: str, project_dir: str) -> Path:
    """The existing file that a path names. Raises `Refusal("contract")` naming every place looked at."""
    bases = [project_dir, os.environ.get("CLAUDE_PROJECT_DIR", ""), os.getcwd()]
    tried = []
    for base in bases:
        path = Path(base, path_text).expanduser()
        if base and path.is_file():
            return path.resolve()
        tried.append(str(path))
    raise Refusal("contract", f"no file {path_text}; looked for {', '.join(dict.fromkeys(tried))}")


def _put_first(search_path: list[str]) -> None:
    for folder in reversed(search_path):
        if folder not in sys.path:
            sys.path.insert(0, folder)


def import_file(name: str, path: str, search_path: list[str], *, definitions: bool = False) -> ModuleType:
    """Import a user's file under `name`, with `search_path` first on `sys.path`; of a script only its `definitions`.

    Raises `Refusal`: `contract` if another module has that name, `user_error` if the file cannot be imported.
    """
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == path:
            return known
        other = getattr(known, "__file__", "a built-in module")
        raise Refusal("contract", f"{path} cannot be imported as {name!r}: that is {other} already. Rename the file.")
    _put_first(search_path)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refusal("contract", f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if definitions:
            exec(compile(entry_script.definitions(path), path, "exec"), module.__dict__)
        else:
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise user_error(f"{path} cannot be imported", error) from error
    return module


def user_error(what: str, error: BaseException) -> Refusal:
    """A refusal that carries the part of the traceback that belongs to the user's code."""
    frames = error.__traceback__
    here = Path(__file__).resolve().parent
    while frames is not None and _is_machinery(frames.tb_frame.f_code.co_filename, here):
        frames = frames.tb_next
    text = "".join(traceback.format_exception(type(error), error, frames, chain=False)).rstrip()
    if len(text) > _TRACE_CHARACTERS:
        text = "...\n" + text[-_TRACE_CHARACTERS:]
    return Refusal("user_error", f"{what}: {type(error).__name__}: {error}\n{text}", traceback.format_exc())


def _is_machinery(filename: str, here: Path) -> bool:
    return filename.startswith("<frozen importlib") or Path(filename).resolve().parent == here


def _function(module: ModuleType, name: str, path: Path) -> Any:
    function = getattr(module, name, None)
    if callable(function):
        return function
    own = [
        key
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not key.startswith("_")
    ]
    near = difflib.get_close_matches(name, own, n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    what = f"has no function {name!r}" if function is None else f"has a {name!r} that cannot be called"
    exist = ", ".join(own) or "none"
    raise Refusal("contract", f"{path} {what}; functions that exist there: {exist}.{hint}")


def _read_result(result: Any, name: str) -> tuple[torch.nn.Module, list[Call]]:
    items = result if isinstance(result, list) else [result]
    if not items:
        raise Refusal("contract", f"{name}() returned an empty list; return {ACCEPTED}")
    read = [_read_call(item, name) for item in items]
    model = read[0][0]
    if any(other is not model for other, _ in read):
        raise Refusal("contract", f"{name}() returned calls of several models; wrap them in one nn.Module")
    return model, [call for _, call in read]


def _read_call(item: Any, name: str) -> tuple[torch.nn.Module, Call]:
    if not isinstance(item, tuple) or len(item) not in (2, 3) or not isinstance(item[0], torch.nn.Module):
        raise Refusal("contract", f"{name}() returned {_say(item)}; return {ACCEPTED}")
    model, args = item[0], item[1]
    kwargs = item[2] if len(item) == 3 else {}
    if not isinstance(kwargs, dict) or not all(isinstance(key, str) for key in kwargs):
        raise Refusal("contract", f"{name}() returned kwargs that are {_say(kwargs)}; return a dict with str keys")
    if isinstance(args, (tuple, list)):
        return model, (tuple(args), kwargs)
    if isinstance(args, dict) and len(item) == 2 and all(isinstance(key, str) for key in args):
        return model, ((), args)
    return model, ((args,), kwargs)


def _say(value: Any) -> str:
    """A type as a person says it, one level into tuples."""
    if isinstance(value, tuple):
        return "a tuple (" + ", ".join(type(item).__name__ for item in value) + ")"
    return f"a value of type {type(value).__module__}.{type(value).__qualname__}"
