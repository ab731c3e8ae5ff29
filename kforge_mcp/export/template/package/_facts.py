"""The static facts of a call: what must be equal to the captured call for a kernel to serve it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import torch

DTYPES = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
}

_Tensor = torch.Tensor
_Parameter = torch.nn.Parameter
_EXACT = frozenset({int, str, bool, type(None), torch.dtype, torch.device, torch.memory_format, torch.layout})
_SEQUENCES = frozenset({list, tuple, torch.Size})
_MISSING = object()


class Unserved(Exception):
    """A value that no kernel serves, whatever was captured; the argument is the counted reason."""


def facts(value: Any) -> tuple[Any, ...]:
    """What identifies a value in a lookup. Types count: 1, 1.0 and True differ. Raises `Unserved`."""
    kind = type(value)
    if kind is _Tensor or kind is _Parameter:
        return (value.dtype, value.shape, value.stride(), value.device, value.layout)
    if kind in _EXACT:
        return (kind, value)
    if kind is float:
        return (kind, value) if value else (kind, value.hex())  # 0.0 and -0.0 are equal and differ
    if kind in _SEQUENCES:
        return (kind, *[facts(item) for item in value])
    return _rare(kind, value)


def _rare(kind: type, value: Any) -> tuple[Any, ...]:
    if isinstance(value, _Tensor):
        raise Unserved("subclass")
    if kind is dict:
        return (kind, *[(facts(key), facts(item)) for key, item in value.items()])
    if kind is slice:
        return (kind, facts(value.start), facts(value.stop), facts(value.step))
    if value is Ellipsis:
        return (kind,)
    names = getattr(value, "_fields", None) if isinstance(value, tuple) else None
    if names is None and dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    if names is None:
        raise Unserved("argument type")
    owner = f"{kind.__module__}:{kind.__qualname__}"
    return (owner, *[(name, facts(getattr(value, name))) for name in names])


def tensor_facts(spec: dict[str, Any]) -> tuple[Any, ...]:
    """The facts of a tensor that the manifest describes, on the device that was added to it."""
    shape, stride = tuple(spec["shape"]), tuple(spec["stride"])
    return (DTYPES[spec["dtype"]], shape, stride, spec["device"], torch.strided)


def tree_facts(tree: dict[str, Any], tensors: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The facts of a value that the manifest describes as a tree around a list of tensors."""
    ((kind, body),) = ((key, item) for key, item in tree.items() if key != "fields")
    if kind == "t":
        return tensor_facts(tensors[body])
    if kind in ("list", "tuple", "size"):
        sequence = {"list": list, "tuple": tuple, "size": torch.Size}[kind]
        return (sequence, *[tree_facts(item, tensors) for item in body])
    if kind == "dict":
        return (dict, *[(tree_facts(key, tensors), tree_facts(item, tensors)) for key, item in body])
    if kind == "slice":
        return (slice, *[tree_facts(part, tensors) for part in body])
    if kind == "object":
        return (body, *[(name, tree_facts(item, tensors)) for name, item in tree["fields"].items()])
    return facts(_leaf(kind, body))


def _leaf(kind: str, body: Any) -> Any:
    if kind == "v":
        return body
    if kind == "f":
        return float(body)
    if kind == "dtype":
        return DTYPES[body]
    if kind == "device":
        return torch.device(body)
    if kind == "torch":
        return getattr(torch, body)
    if kind == "ellipsis":
        return Ellipsis
    raise ValueError(f"the manifest has a value of unknown kind {kind!r}")


@dataclasses.dataclass(frozen=True)
class Tree:
    """A value of the manifest in the place of an argument."""

    body: dict[str, Any]

    def facts(self, tensors: list[dict[str, Any]]) -> tuple[Any, ...]:
        return tree_facts(self.body, tensors)


def captured_facts(value: Any, tensors: list[dict[str, Any]]) -> tuple[Any, ...]:
    """The facts of a bound argument that is a `Tree`, a default, or a `*args` or `**kwargs` of these."""
    if isinstance(value, Tree):
        return value.facts(tensors)
    if type(value) is tuple:
        return (tuple, *[captured_facts(item, tensors) for item in value])
    if type(value) is dict:
        return (dict, *[(facts(key), captured_facts(item, tensors)) for key, item in value.items()])
    return facts(value)


def captured_steps(value: Any, index: int) -> tuple[Any, ...] | None:
    """The subscripts from a bound argument to the captured tensor `index`, or None."""
    if isinstance(value, Tree):
        return tree_steps(value.body, index)
    items = enumerate(value) if type(value) is tuple else value.items() if type(value) is dict else ()
    for key, item in items:
        rest = captured_steps(item, index)
        if rest is not None:
            return (key, *rest)
    return None


def tree_steps(tree: dict[str, Any], index: int) -> tuple[Any, ...] | None:
    """The subscripts that lead from a value to its tensor `index`, or None if it is not within reach of them."""
    if tree.get("t") == index and "t" in tree:
        return ()
    for kind in ("list", "tuple"):
        for position, item in enumerate(tree.get(kind, ())):
            rest = tree_steps(item, index)
            if rest is not None:
                return (position, *rest)
    for key, item in tree.get("dict", ()):
        rest = tree_steps(item, index)
        if rest is not None and "v" in key:
            return (key["v"], *rest)
    return None


def build_result(tree: dict[str, Any]) -> Callable[[tuple[Any, ...]], Any]:
    """How the operator's tensors become what the original returns."""
    ((kind, body),) = tree.items()
    if kind == "t":
        return lambda tensors: tensors[body]
    if kind in ("tuple", "list"):
        parts = [build_result(item) for item in body]
        if kind == "tuple":
            return lambda tensors: tuple([part(tensors) for part in parts])
        return lambda tensors: [part(tensors) for part in parts]
    if kind == "dict":
        pairs = [(key["v"], build_result(item)) for key, item in body]
        return lambda tensors: {key: part(tensors) for key, part in pairs}
    value = _leaf(kind, body)
    return lambda tensors: value


class Binder:
    """Arguments in the order of a signature, with defaults filled in, however they were passed."""

    def __init__(self, function: Callable[..., Any], *, skip_self: bool) -> None:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[1 if skip_self else 0 :]
        self._signature = signature.replace(parameters=parameters)
        self._plain = all(item.kind is item.POSITIONAL_OR_KEYWORD for item in parameters)
        self._positions = {item.name: position for position, item in enumerate(parameters)}
        self._defaults = tuple(_MISSING if item.default is item.empty else item.default for item in parameters)
        self._required = self._defaults.count(_MISSING)

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The values in order. Raises `Unserved` where the call does not fit; the original then says how."""
        given = len(args)
        if not self._plain:
            return self._bind_rarely(args, kwargs)
        if not kwargs:
            if not self._required <= given <= len(self._defaults):
                raise Unserved("form")
            return args + self._defaults[given:]
        values = [*args, *self._defaults[given:]]
        for name, value in kwargs.items():
            position = self._positions.get(name, -1)
            if position < given:
                raise Unserved("form")
            values[position] = value
        if any(value is _MISSING for value in values):
            raise Unserved("form")
        return tuple(values)

    def _bind_rarely(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise Unserved("form") from error
        bound.apply_defaults()
        return tuple(bound.arguments.values())
