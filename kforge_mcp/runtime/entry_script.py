"""Scripts as workloads: run once with their arguments, and the calls that they make of models recorded.

A script's classes belong to `__main__`, which other processes do not have: after the run they belong to a module
named after the file. There it is imported without running it, see `definitions`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from .failures import Refusal

MOST_CALLS = 64
_MOST_BYTES = 1 << 29
_NAMES = "int float str bool len dict list tuple set frozenset range min max sum abs round sorted"
_HARMLESS = frozenset(_NAMES.split())
_HARMLESS_OF = {
    "torch": {"device", "Size", "finfo", "iinfo"},
    "os": {"get", "join", "getenv", "dirname", "abspath"},
    "logging": {"getLogger"},
    "math": None,
    "functools": {"partial"},
    "typing": None,
}


@dataclass
class Autocast:
    """Automatic mixed precision as it was around a call."""

    device: str
    dtype: torch.dtype


@dataclass
class Recorded:
    """The outermost module calls of a run, their arguments copied before; `seen` counts those beyond the limits too."""

    calls: list[tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any], Autocast | None]] = field(default_factory=list)
    seen: int = 0
    trains: bool = False


class Models(torch.nn.Module):
    """Several models as one: the first argument of a call says which of them, and under which autocast."""

    def __init__(self, models: list[torch.nn.Module]) -> None:
        super().__init__()
        self.models = torch.nn.ModuleList(models)

    def forward(self, which: int, autocast: Autocast | None, /, *args: Any, **kwargs: Any) -> Any:
        """The call of one of the models."""
        if autocast is None:
            return self.models[which](*args, **kwargs)
        with torch.autocast(autocast.device, autocast.dtype):
            return self.models[which](*args, **kwargs)


def run_script(name: str, path: Path, arguments: list[str], package: str = "") -> tuple[ModuleType, Recorded]:
    """Run a file as `__main__` and give it as the module `name`. Raises `Refusal`, or what the script raises."""
    if name in sys.modules:
        other = getattr(sys.modules[name], "__file__", "a built-in module")
        raise Refusal("contract", f"{path} cannot be imported as {name!r}: that is {other} already. Rename the file.")
    module = ModuleType("__main__")
    module.__file__ = str(path)
    module.__package__ = package or None
    module.__dict__["__builtins__"] = builtins
    code = compile(path.read_bytes(), str(path), "exec")
    before = sys.modules["__main__"], list(sys.argv)
    sys.modules["__main__"], sys.argv[:] = module, [str(path), *arguments]
    try:
        with _recording() as recorded:
            try:
                exec(code, module.__dict__)
            except SystemExit as leaving:
                if leaving.code not in (None, 0):
                    raise
    finally:
        sys.modules["__main__"], sys.argv[:] = before
    _rename(module, name)
    sys.modules[name] = module
    return module, recorded


def as_workload(recorded: Recorded, path: Path) -> tuple[torch.nn.Module, list[Any]]:
    """The model and calls of a run. Raises `Refusal` where it trained, or called no model."""
    if recorded.trains:
        raise Refusal(
            "contract",
            f"{path} trains: it computes gradients, and capture is for inference. Give a script without a backward "
            "pass, or a function of the file that returns (model, args).",
        )
    if not recorded.calls:
        raise Refusal(
            "contract",
            f"{path} ended without calling any torch.nn.Module, so there is nothing to capture. Give a script that "
            "runs its model, with its arguments, or name a function of the file that returns (model, args): "
            "'file.py:function'.",
        )
    models = list({id(model): model for model, *_ in recorded.calls}.values())
    if len(models) == 1 and not any(autocast for *_, autocast in recorded.calls):
        return models[0], [(args, kwargs) for _, args, kwargs, _ in recorded.calls]
    places = {id(model): index for index, model in enumerate(models)}
    calls = [((places[id(m)], autocast, *args), kwargs) for m, args, kwargs, autocast in recorded.calls]
    whole = Models(models)
    whole.training = False
    return whole, calls


@contextmanager
def _recording() -> Iterator[Recorded]:
    recorded = Recorded()
    # Not `backward` and `grad` themselves: the compiler, if it is imported meanwhile, keeps tables of these.
    original_call, engine = torch.nn.Module.__call__, torch.autograd._engine_run_backward
    depth, held_bytes = 0, 0

    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        nonlocal depth, held_bytes
        if depth or torch.compiler.is_compiling():
            return original_call(self, *args, **kwargs)
        recorded.seen += 1
        if len(recorded.calls) < MOST_CALLS and held_bytes < _MOST_BYTES:
            tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
            held_bytes += sum(tensor.nbytes for tensor in tensors)
            recorded.calls.append((self, *_copied(args, kwargs), _autocast()))
        depth += 1
        try:
            return original_call(self, *args, **kwargs)
        finally:
            depth -= 1

    def refuse(*args: Any, **kwargs: Any) -> Any:
        recorded.trains = True
        raise Refusal("contract", "the script computes gradients")

    torch.nn.Module.__call__ = __call__
    torch.autograd._engine_run_backward = refuse
    try:
        yield recorded
    except Exception:
        if not recorded.trains:
            raise
    finally:
        torch.nn.Module.__call__ = original_call
        torch.autograd._engine_run_backward = engine


def _copied(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    plain = tree_map_only(torch.Tensor, _without_gradient, (args, kwargs))
    try:
        return copy.deepcopy(plain)
    except (RuntimeError, TypeError):
        return plain


def _without_gradient(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach() if tensor.requires_grad else tensor


def _autocast() -> Autocast | None:
    for device in ("cpu", "cuda"):
        if torch.is_autocast_enabled(device):
            return Autocast(device, torch.get_autocast_dtype(device))
    return None


def _rename(module: ModuleType, name: str) -> None:
    """Let what the script defined belong to `name`, by which other processes can import it."""
    module.__name__ = name
    waiting = [value for value in vars(module).values() if isinstance(value, (type, FunctionType))]
    while waiting:
        value = waiting.pop()
        if value.__module__ != "__main__":
            continue
        value.__module__ = name
        if isinstance(value, type):
            waiting += [item for item in vars(value).values() if isinstance(item, (type, FunctionType))]


def definitions(path: str) -> ast.Module:
    """A script without what it does: imports, functions, classes, and assignments that compute next to nothing."""
    tree = ast.parse(Path(path).read_bytes(), path)
    return ast.Module([statement for statement in tree.body if _defines(statement)], [])


def defined_names(path: str) -> set[str]:
    """The names that `definitions` binds."""
    found: set[str] = set()
    for node in _outside_functions(definitions(path)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.alias):
            found.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            yield from _outside_functions(child)


def _defines(statement: ast.stmt) -> bool:
    if isinstance(
        statement, (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass)
    ):
        return True
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        return statement.value is None or _is_harmless(statement.value)
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.If):
        return _is_harmless(statement.test) and all(map(_defines, [*statement.body, *statement.orelse]))
    if isinstance(statement, ast.Try):
        handlers = [part for handler in statement.handlers for part in handler.body]
        return all(map(_defines, [*statement.body, *handlers, *statement.orelse, *statement.finalbody]))
    return False


def _is_harmless(expression: ast.expr) -> bool:
    for node in _outside_functions(ast.Expr(expression)):
        if isinstance(node, (ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)):
            return False
        if isinstance(node, ast.Call) and not _is_harmless_call(node.func):
            return False
    return True


def _is_harmless_call(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in _HARMLESS
    last = function.attr if isinstance(function, ast.Attribute) else ""
    while isinstance(function, ast.Attribute):
        function = function.value
    if not isinstance(function, ast.Name) or function.id not in _HARMLESS_OF:
        return False
    allowed = _HARMLESS_OF[function.id]
    return allowed is None or last in allowed


def find_module(name: str) -> tuple[Path, str]:
    """The file and package of `-m name`. Raises `Refusal`."""
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{name}.__main__")
    except (ImportError, ValueError):
        spec = None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise Refusal("contract", f"there is no Python module {name!r} to run with -m")
    return Path(spec.origin), spec.parent or ""
