"""What capture watches, and how it puts itself around it: every module call, and the model's own functions."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any

import torch


@dataclass
class Site:
    """A place that holds a function: a namespace and the key in it."""

    namespace: dict[str, Any]
    key: str
    label: str


@dataclass
class Target:
    """A function or module class; `label` is unique within a workload."""

    level: str
    name: str
    qualified_name: str
    subject: Any
    sites: list[Site] = field(default_factory=list)

    @property
    def label(self) -> str:
        """Level and qualified name, as both passes say it."""
        return f"{self.level} {self.qualified_name}"


def class_target(cls: type) -> Target:
    """The target of a module class."""
    return Target("module", cls.__name__, f"{cls.__module__}:{cls.__qualname__}", cls)


def model_functions(model: torch.nn.Module) -> list[Target]:
    """The plain Python functions of the modules that define the model's classes, and those its modules hold."""
    found: dict[int, Target] = {}
    for module_name in sorted(_defining_modules(model)):
        namespace = vars(sys.modules[module_name]) if module_name in sys.modules else {}
        for key, value in list(namespace.items()):
            if _is_plain(value) and value.__module__ == module_name:
                _add(found, value, module_name, key)
    for module in model.modules():
        for value in vars(module).values():
            if _is_plain(value) and not _is_torch(value.__module__):
                _add(found, value, value.__module__, value.__qualname__)
    for site, function in _references(set(found), model):
        found[id(function)].sites.append(site)
    return list(found.values())


def _add(found: dict[int, Target], function: FunctionType, module_name: str, key: str) -> None:
    known = found.get(id(function))
    if known is None or key == function.__name__ != known.name:
        found[id(function)] = Target("function", key.rpartition(".")[2], f"{module_name}:{key}", function)


def _defining_modules(model: torch.nn.Module) -> set[str]:
    classes = {cls for module in model.modules() for cls in type(module).__mro__ if "forward" in vars(cls)}
    return {cls.__module__ for cls in classes if not _is_torch(cls.__module__)}


def _is_torch(module_name: str | None) -> bool:
    return (module_name or "").split(".")[0] == "torch"


def _is_plain(value: Any) -> bool:
    return isinstance(value, FunctionType) and not (
        inspect.isgeneratorfunction(value) or inspect.iscoroutinefunction(value) or inspect.isasyncgenfunction(value)
    )


def _references(ids: set[int], model: torch.nn.Module) -> Iterator[tuple[Site, Any]]:
    """Every global of a Python module, and every attribute of the model's modules, that is one of the objects."""
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType):
            for key, value in list(vars(module).items()):
                if id(value) in ids:
                    yield Site(vars(module), key, f"{name}:{key}"), value
    for module in model.modules():
        for key, value in list(vars(module).items()):
            if id(value) in ids:
                yield Site(vars(module), key, ""), value


@contextmanager
def observing(
    model: torch.nn.Module,
    functions: list[Target],
    around_call: Callable[[Callable[..., Any]], Callable[..., Any]],
    around_function: Callable[[Target], Callable[..., Any]],
) -> Iterator[None]:
    """Replace `nn.Module.__call__` and every reference to the functions; put all back at the end.

    References that the workload itself took to a wrapper meanwhile are put back too.
    """
    original_call = torch.nn.Module.__call__
    wrappers: dict[int, tuple[Any, Target]] = {}
    try:
        torch.nn.Module.__call__ = around_call(original_call)
        for target in functions:
            wrapper = functools.wraps(target.subject)(around_function(target))
            wrappers[id(wrapper)] = (wrapper, target)
            for site in target.sites:
                site.namespace[site.key] = wrapper
        yield
    finally:
        torch.nn.Module.__call__ = original_call
        for site, wrapper in list(_references(set(wrappers), model)):
            site.namespace[site.key] = wrappers[id(wrapper)][1].subject
