"""Python values of a call as JSON trees around a flat list of tensors, and back.

A tree is one of `{"v": scalar}`, `{"f": "inf"}`, `{"t": index}`, `{"list" | "tuple" | "size": [tree]}`,
`{"dict": [[tree, tree]]}`, `{"dtype" | "device" | "torch": name}`, `{"slice": [tree]}`, `{"ellipsis": true}`,
`{"object": "module:Class", "fields": {name: tree}}` for dataclasses and named tuples.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch

from .tensors import DTYPES, NAMES

Tree = dict[str, Any]
_LEAVES = (bool, int, float, complex, str, bytes, torch.dtype, torch.device)


class Unencodable(Exception):
    """A value that has no place in a tree; the message names its type."""


def encode(value: Any, tensors: list[torch.Tensor]) -> Tree:
    """The tree of a value; its tensors are appended to `tensors`, the same object once. Raises `Unencodable`."""
    # Subclasses such as enumerations are other values to the code that gets them.
    if value is None or type(value) in (bool, int, str):
        return {"v": value}
    if isinstance(value, float):
        return {"v": float(value)} if math.isfinite(value) else {"f": str(float(value))}
    if isinstance(value, torch.Tensor):
        return _encode_tensor(value, tensors)
    if isinstance(value, torch.Size):
        return {"size": [encode(item, tensors) for item in value]}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return _encode_object(value, {name: getattr(value, name) for name in value._fields}, tensors)
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(item, tensors) for item in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _encode_object(value, _fields(value), tensors)
    if type(value) is dict:
        return {"dict": [[encode(key, tensors), encode(item, tensors)] for key, item in value.items()]}
    if isinstance(value, torch.dtype) and value in NAMES:
        return {"dtype": NAMES[value]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, (torch.memory_format, torch.layout)):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, slice):
        return {"slice": [encode(part, tensors) for part in (value.start, value.stop, value.step)]}
    if value is Ellipsis:
        return {"ellipsis": True}
    raise Unencodable(f"a value of type {type(value).__module__}.{type(value).__qualname__}")


def _encode_tensor(value: torch.Tensor, tensors: list[torch.Tensor]) -> Tree:
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        raise Unencodable(f"a tensor subclass {type(value).__module__}.{type(value).__qualname__}")
    if torch._C._functorch.is_functorch_wrapped_tensor(value):
        raise Unencodable("a tensor inside a torch.func transform")
    if value.is_meta:
        raise Unencodable("a tensor without values (on the meta device)")
    if value.layout is not torch.strided or value.dtype not in NAMES:
        raise Unencodable(f"a tensor of layout {value.layout} and dtype {value.dtype}")
    for index, known in enumerate(tensors):
        if known is value:
            return {"t": index}
    tensors.append(value)
    return {"t": len(tensors) - 1}


def _fields(value: Any) -> dict[str, Any]:
    try:
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    except Exception as error:
        # Reading a field may run the class's own code, which may refuse: transformers' configs do.
        kind = type(value)
        what = f"a value of type {kind.__module__}.{kind.__qualname__} whose fields cannot be read"
        raise Unencodable(what) from error


def _encode_object(value: Any, fields: dict[str, Any], tensors: list[torch.Tensor]) -> Tree:
    kind = type(value)
    trees = {name: encode(item, tensors) for name, item in fields.items()}
    return {"object": f"{kind.__module__}:{kind.__qualname__}", "fields": trees}


def decode(tree: Tree, tensors: list[torch.Tensor]) -> Any:
    """The value of a tree, its tensors taken from `tensors`."""
    ((kind, body),) = ((key, item) for key, item in tree.items() if key != "fields")
    if kind == "t":
        return tensors[body]
    if kind == "v":
        return body
    if kind == "f":
        return float(body)
    if kind == "list":
        return [decode(item, tensors) for item in body]
    if kind == "tuple":
        return tuple(decode(item, tensors) for item in body)
    if kind == "size":
        return torch.Size([decode(item, tensors) for item in body])
    if kind == "dict":
        return {decode(key, tensors): decode(item, tensors) for key, item in body}
    if kind == "dtype":
        return DTYPES[body]
    if kind == "device":
        return torch.device(body)
    if kind == "torch":
        return getattr(torch, body)
    if kind == "slice":
        return slice(*(decode(part, tensors) for part in body))
    if kind == "ellipsis":
        return Ellipsis
    module, name = body.split(":")
    target: Any = importlib.import_module(module)
    for part in name.split("."):
        target = getattr(target, part)
    return target(**{name: decode(item, tensors) for name, item in tree["fields"].items()})


def flatten(value: Any) -> list[torch.Tensor]:
    """The tensors of a result in the order of `encode`, the same object once, of whatever dtype.

    Raises `Unencodable`.
    """
    tensors: list[torch.Tensor] = []
    _collect(value, tensors)
    return tensors


def every_tensor(value: Any, most: int = 10_000) -> Iterator[torch.Tensor]:
    """The tensors of a value, each object once: in containers, dataclasses and attributes of objects, but not in
    modules. Nothing is refused, and at most `most` objects are looked at."""
    seen: set[int] = set()
    # What is being looked at is kept, or else its id could be another's by the time.
    kept: list[Any] = []
    waiting = [value]
    while waiting and len(kept) < most:
        item = waiting.pop()
        if item is None or type(item) in _LEAVES or id(item) in seen:
            continue
        seen.add(id(item))
        kept.append(item)
        if isinstance(item, torch.Tensor):
            yield item
        else:
            waiting += reversed(list(_parts(item)))


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, (type, FunctionType, ModuleType, torch.nn.Module)):
        return
    if isinstance(value, dict):
        yield from dict.values(value)
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    yield from (getattr(value, "__dict__", None) or {}).values()
    for name in {name for cls in type(value).__mro__ for name in _slots(cls)}:
        item = getattr(value, name, None)
        if item is not None:
            yield item


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _collect(value: Any, tensors: list[torch.Tensor]) -> None:
    if isinstance(value, torch.Tensor):
        if not any(known is value for known in tensors):
            if value.dtype in NAMES:
                encode(value, tensors)
            else:
                tensors.append(value)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name in value._fields:
            _collect(getattr(value, name), tensors)
    elif type(value) in (list, tuple):
        for item in value:
            _collect(item, tensors)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for each in dataclasses.fields(value):
            _collect(getattr(value, each.name), tensors)
    elif type(value) is dict:
        for item in value.values():
            _collect(item, tensors)
    else:
        encode(value, tensors)
