"""The user's workload: a model and its sample calls, from the file and function that an entry names."""

from __future__ import annotations

import copy
import difflib
import importlib
import importlib.util
import inspect
import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .failures import Refusal

Call = tuple[tuple[Any, ...], dict[str, Any]]
ACCEPTED = "(model, args), (model, args, kwargs), or a list of such calls of one model"
_TRACE_CHARACTERS = 1500


@dataclass
class Workload:
    """A model with its sample calls, and the user file behind it, imported as `module`."""

    model: torch.nn.Module
    calls: list[Call]
    file: Path
    module: ModuleType
    search_path: list[str]
    """Folders put first on `sys.path` for the user's imports."""

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


def load_workload(entry: str, project_dir: str) -> Workload:
    """Build the workload that `entry` (`path/file.py:function`) describes.

    A relative path is looked up in `project_dir`, `CLAUDE_PROJECT_DIR` and the working directory, in this order.
    Raises `Refusal`: `contract` where the entry does not fit, `user_error` where the user's code raises.
    """
    path_text, _, name = entry.rpartition(":")
    if not path_text or not name:
        raise Refusal("contract", f"entry {entry!r} is not of the form path/file.py:function")
    path = resolve(path_text, project_dir)
    search_path = [str(path.parent), *([project_dir] if project_dir else [])]
    module = import_file(path.stem, str(path), search_path)
    function = _function(module, name, path)
    try:
        result = function()
    except (Exception, SystemExit) as error:
        raise user_error(f"{name}() in {path} raised", error) from error
    model, calls = _read_result(result, name)
    return Workload(model, calls, path, module, search_path)


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


def import_file(name: str, path: str, search_path: list[str]) -> ModuleType:
    """Import a user's file under `name`, with `search_path` first on `sys.path`.

    Raises `Refusal`: `contract` if another module has that name, `user_error` if the file cannot be imported.
    """
    known = sys.modules.get(name)
    if known is not None:
        if getattr(known, "__file__", None) == path:
            return known
        other = getattr(known, "__file__", "a built-in module")
        raise Refusal("contract", f"{path} cannot be imported as {name!r}: that is {other} already. Rename the file.")
    for folder in reversed(search_path):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    importlib.invalidate_caches()
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise Refusal("contract", f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
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
