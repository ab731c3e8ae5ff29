"""What capture looks for in a model: its module classes, its own Python functions, and the places that hold these."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch


@dataclass
class Site:
    """A place that holds a function: a namespace or class, and the key in it. `label` is its `module:path`, if any."""

    owner: Any
    key: Any
    label: str

    def put(self, value: Any) -> None:
        """Let the place hold `value`; in a class as a static method."""
        if isinstance(self.owner, type):
            setattr(self.owner, self.key, staticmethod(value))
        else:
            self.owner[self.key] = value


@dataclass
class Target:
    """A torch operator, function or module class; `label` is unique within a workload."""

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


def model_functions(model: torch.nn.Module, folders: Iterable[str] = ()) -> list[Target]:
    """The plain Python functions of the modules that define the model's classes, and those its modules hold.

    To a module's functions belong those it imports from its own package or from `folders`, those in dictionaries it
    holds (a registry by name), and the static methods of its classes.
    """
    found: dict[int, Target] = {}
    own = [str(Path(folder).resolve()) for folder in folders if folder]
    for module_name in sorted(_defining_modules(model)):
        module = sys.modules.get(module_name)
        if module is None:
            continue
        for key, value in list(vars(module).items()):
            if _is_plain(value) and _belongs(value, module_name, own):
                defined = value.__module__ if value.__module__ != module_name and _is_at_home(value) else ""
                _add(found, value, defined or module_name, value.__qualname__ if defined else key)
            elif isinstance(value, type) and value.__module__ == module_name:
                for name, function in _static_methods(value):
                    _add(found, function, module_name, f"{value.__qualname__}.{name}")
        for label, registry in _registries(module):
            for key, value in list(registry.items()):
                if _is_plain(value) and not _is_torch(value.__module__):
                    _add(found, value, value.__module__, value.__qualname__ if _is_at_home(value) else f"{label}.{key}")
    for module in model.modules():
        for value in vars(module).values():
            if _is_plain(value) and not _is_torch(value.__module__):
                _add(found, value, value.__module__, value.__qualname__)
    for site, function in references(set(found), model):
        found[id(function)].sites.append(site)
    return list(found.values())


def _add(found: dict[int, Target], function: Any, module_name: str, key: str) -> None:
    known = found.get(id(function))
    if known is None or (key == function.__name__ != known.name):
        found[id(function)] = Target("function", key.rpartition(".")[2], f"{module_name}:{key}", function)


def _belongs(function: Any, module_name: str, folders: list[str]) -> bool:
    """Whether a function that a module holds is the model's own, wherever a decorator was defined."""
    home = function.__module__ or ""
    if home == module_name:
        return True
    if _is_torch(home) or home not in sys.modules:
        return False
    if "<locals>" in function.__qualname__ or home.split(".")[0] == module_name.split(".")[0]:
        return True
    file = getattr(sys.modules[home], "__file__", None)
    if file is None or {"site-packages", "dist-packages"}.intersection(Path(file).parts):
        # An environment inside the project folder is not the project.
        return False
    return any(Path(file).is_relative_to(folder) for folder in folders)


def _is_at_home(function: Any) -> bool:
    """Whether the function can be imported by its own name."""
    value: Any = sys.modules.get(function.__module__ or "")
    for part in function.__qualname__.split("."):
        value = getattr(value, part, None)
    return value is function


def _defining_modules(model: torch.nn.Module) -> set[str]:
    classes = {cls for module in model.modules() for cls in type(module).__mro__ if "forward" in vars(cls)}
    return {cls.__module__ for cls in classes if not _is_torch(cls.__module__)}


def _is_torch(module_name: str | None) -> bool:
    return (module_name or "").split(".")[0] == "torch"


def _is_plain(value: Any) -> bool:
    """A Python function, or what a decorator that uses `functools.wraps` made of one."""
    plain = value
    if not isinstance(value, (FunctionType, type, torch.nn.Module)) and callable(value):
        plain = vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None
        if not all(isinstance(getattr(value, name, None), str) for name in ("__name__", "__qualname__", "__module__")):
            return False
    return isinstance(plain, FunctionType) and not (
        inspect.isgeneratorfunction(plain) or inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain)
    )


def _static_methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name, value in list(vars(cls).items()):
        if (
            isinstance(value, staticmethod)
            and _is_plain(value.__func__)
            and not issubclass(cls, torch.autograd.Function)
        ):
            yield name, value.__func__


def _registries(module: ModuleType) -> Iterator[tuple[str, dict[Any, Any]]]:
    """The dictionaries of a module, and those inside mapping objects that it holds, each with the path to it."""
    for key, value in list(vars(module).items()):
        if key.startswith("__"):
            continue
        if isinstance(value, dict):
            yield key, value
        elif isinstance(value, MutableMapping) and not isinstance(value, type):
            for name, inner in [*vars(type(value)).items(), *getattr(value, "__dict__", {}).items()]:
                if isinstance(inner, dict):
                    yield f"{key}.{name}", inner


def references(ids: set[int], model: torch.nn.Module) -> Iterator[tuple[Site, Any]]:
    """Every global of a Python module, entry of its registries, static method of its classes, and attribute of the
    model's modules that is one of the objects."""
    homes = _defining_modules(model)
    seen: set[int] = set()
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType):
            continue
        for key, value in list(vars(module).items()):
            if id(value) in ids:
                yield Site(vars(module), key, f"{name}:{key}"), value
            elif name in homes and isinstance(value, type) and value.__module__ == name and id(value) not in seen:
                seen.add(id(value))
                for method, function in _static_methods(value):
                    if id(function) in ids:
                        yield Site(value, method, f"{name}:{value.__qualname__}.{method}"), function
        if name in homes:
            for _, registry in _registries(module):
                if id(registry) not in seen:
                    seen.add(id(registry))
                    for key, value in list(registry.items()):
                        if id(value) in ids:
                            yield Site(registry, key, ""), value
    for module in model.modules():
        for key, value in list(vars(module).items()):
            if id(value) in ids:
                yield Site(vars(module), key, ""), value
