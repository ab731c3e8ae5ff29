"""The name of a tensor that a call reads without being given it: a global, a closure's, one that an object holds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch

_MOST_VISITED = 20_000
_TORCH = "torch"


def describe_hidden(tensor: torch.Tensor, subject: Any) -> str:
    """`the tensor NAME`, or its shape where no name leads from the function or module `subject` to its memory."""
    name = _find(tensor.untyped_storage().data_ptr(), subject)
    return f"the tensor {name}" if name else f"a tensor of shape {list(tensor.shape)}"


def _find(address: int, subject: Any) -> str:
    seen: set[int] = set()
    waiting: list[tuple[str, Any]] = [("", subject)]
    # Breadth first: the shortest name is the one that a reader knows.
    for name, value in waiting:
        if id(value) in seen or len(waiting) > _MOST_VISITED:
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            is_plain = value.layout is torch.strided and not value.is_meta
            if name and is_plain and value.untyped_storage().data_ptr() == address:
                return name
        else:
            waiting += _inside(name, value)
    return ""


def _inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, FunctionType):
        yield from _of_function(value)
    elif isinstance(value, MethodType):
        yield from (("", value.__func__), (name, value.__self__))
    elif isinstance(value, functools.partial):
        yield from (("", value.func), (f"{name}.args", value.args), (f"{name}.keywords", value.keywords))
    elif isinstance(value, torch.nn.Module):
        yield from _of_module(name, value)
    elif isinstance(value, dict):
        yield from ((f"{name}[{key!r}]", item) for key, item in list(value.items()))
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"{name}[{index}]", item) for index, item in enumerate(value))
    elif isinstance(value, type):
        yield from _of_class(value)
    elif not isinstance(value, ModuleType):
        wrapped = getattr(value, "__wrapped__", None)
        if isinstance(wrapped, FunctionType):
            yield "", wrapped
        yield from ((f"{name}.{key}", item) for key, item in list(getattr(value, "__dict__", {}).items()))


def _of_function(function: FunctionType) -> Iterator[tuple[str, Any]]:
    if (function.__module__ or "").split(".")[0] == _TORCH:
        return
    used = set(_names(function.__code__))
    for name in sorted(used):
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            # `tables.cosine`: of another file only what is named here.
            if value.__name__.split(".")[0] != _TORCH:
                yield from ((f"{name}.{key}", vars(value)[key]) for key in sorted(used & set(vars(value))))
        elif value is not None:
            yield name, value
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    yield from vars(function).items()


def _names(code: Any) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if inspect.iscode(constant):
            yield from _names(constant)


def _of_module(name: str, module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    owner = name or "self"
    held = {**vars(module), **module._parameters, **module._buffers, **module._modules}
    for key in ("_parameters", "_buffers", "_modules"):
        held.pop(key)
    yield from ((f"{owner}.{key}", value) for key, value in held.items())
    yield type(module).__name__, type(module)


def _of_class(cls: type) -> Iterator[tuple[str, Any]]:
    if cls.__module__.split(".")[0] == _TORCH:
        return
    for base in cls.__mro__:
        if base.__module__.split(".")[0] in (_TORCH, "builtins"):
            continue
        for key, value in list(vars(base).items()):
            plain = getattr(value, "__func__", value)
            yield (key if isinstance(plain, FunctionType) else f"{cls.__name__}.{key}"), plain
