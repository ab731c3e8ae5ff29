"""Signatures of callables that Python cannot inspect, read from torch's own schemas, and arguments fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

MISSING: Any = object()
_NUMBER = (bool, int, float)
_ENUMS = (torch.dtype, torch.layout, torch.memory_format)


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter; `kind` is the schema's type, empty where anything goes."""

    name: str
    kind: str = ""
    default: Any = MISSING
    keyword_only: bool = False
    is_variadic: bool = False

    def __str__(self) -> str:
        kind = f": {self.kind}" if self.kind else ""
        return f"{'*' if self.is_variadic else ''}{self.name}{kind}" + (
            "" if self.default is MISSING else f" = {self.default!r}"
        )


@dataclass(frozen=True, eq=False)
class Schema:
    """One overload."""

    parameters: tuple[Parameter, ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its parameters."""
        return frozenset(parameter.name for parameter in self.parameters)

    def __str__(self) -> str:
        return "(" + ", ".join(map(str, self.parameters)) + ")"


def schemas_of(native: Sequence[Any]) -> list[Schema]:
    """Torch's schemas, `self` called `input` as Python does; those that write into an `out` argument come last."""
    read = [(_writes_out(schema), Schema(tuple(_parameter(item) for item in schema.arguments))) for schema in native]
    return [schema for _, schema in sorted(read, key=lambda item: item[0])]


def _writes_out(schema: Any) -> bool:
    return any(item.is_out for item in schema.arguments)


def _parameter(item: Any) -> Parameter:
    default = item.default_value if item.has_default_value() else MISSING
    name = "input" if item.name == "self" else item.name
    return Parameter(name, str(item.type), default, item.kwarg_only)


def fit(schema: Schema, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, str, Any]] | None:
    """`(name, path, value)` of every parameter, defaults filled in, or None where the arguments do not fit.

    A lone integer for a list of them is a list of one, and `view(2, 3)` is `view([2, 3])`.
    """
    left = {("input" if name == "self" else name): (name, value) for name, value in kwargs.items()}
    bound: list[tuple[str, str, Any]] = []
    position = 0
    for parameter in schema.parameters:
        if parameter.is_variadic:
            bound.append((parameter.name, f"args[{position}:]", list(args[position:])))
            position = len(args)
            continue
        if position < len(args) and not parameter.keyword_only:
            value, path = args[position], f"args[{position}]"
            if parameter.kind == "List[int]" and len(args) > position + 1 and _all_integers(args[position:]):
                value, path, position = list(args[position:]), f"args[{position}:]", len(args)
            position += 1
        elif parameter.name in left:
            written, value = left.pop(parameter.name)
            path = f"kwargs.{written}"
        elif parameter.default is not MISSING:
            value, path = parameter.default, f"default.{parameter.name}"
        else:
            return None
        if parameter.kind and not path.startswith("default.") and not _takes(parameter.kind, value):
            return None
        if parameter.kind.removeprefix("Optional[").startswith("List[int]") and _is_integer(value):
            value = [value]
        bound.append((parameter.name, path, value))
    return None if left or position < len(args) else bound


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _all_integers(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and all(_is_integer(value) for value in values)


_CHECKS: dict[str, Callable[[Any], bool]] = {
    "Tensor": lambda value: isinstance(value, torch.Tensor),
    "number": lambda value: isinstance(value, (*_NUMBER, complex)),
    "int": lambda value: _is_integer(value) or isinstance(value, _ENUMS),
    "float": lambda value: isinstance(value, _NUMBER),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "Device": lambda value: isinstance(value, (torch.device, str)),
    "List[int]": lambda value: _is_integer(value) or _all_integers(value),
    "List[float]": lambda value: isinstance(value, (list, tuple)) and all(isinstance(v, _NUMBER) for v in value),
    "List[bool]": lambda value: isinstance(value, (list, tuple)) and all(isinstance(v, bool) for v in value),
}


def _takes(kind: str, value: Any) -> bool:
    if kind.startswith("Optional["):
        return value is None or _takes(kind[len("Optional[") : -1], value)
    if kind.startswith("List[") and kind not in _CHECKS:
        return isinstance(value, (list, tuple)) and all(_takes(kind[len("List[") : -1], item) for item in value)
    check = _CHECKS.get(kind)
    return check is None or check(value)
