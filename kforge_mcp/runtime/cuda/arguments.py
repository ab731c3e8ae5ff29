"""The parameters of launches as the driver wants them: arrays of addresses of their values."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ..scalars import SCALARS
from .tensor_maps import TensorMaps


class Pointers:
    """Where a program's tensors lie in the current call: one value each, which all launches share."""

    def __init__(self) -> None:
        self._kinds: dict[str, dict[int, Any]] = {}

    def place(self, kind: str, index: int) -> Any:
        """The value that holds the address of a `tensor`, `output`, `workspace` or `intermediate`."""
        return self._kinds.setdefault(kind, {}).setdefault(index, ctypes.c_uint64(0))

    def point(self, kind: str, tensors: Sequence[Any]) -> None:
        """Take the addresses of the tensors of a kind that launches use; those of None are null."""
        for index, value in self._kinds.get(kind, {}).items():
            tensor = tensors[index]
            value.value = 0 if tensor is None else tensor.data_ptr()


class Parameters:
    """Values of one launch's arguments; pointers are shared, and filled in for each call."""

    def __init__(self, arguments: Sequence[dict[str, Any]], pointers: Pointers, maps: TensorMaps) -> None:
        self._maps: list[tuple[int, int, Any]] = []
        self._values: list[Any] = []
        self._encoder = maps
        self._array = (ctypes.c_void_p * max(len(arguments), 1))()
        for position, argument in enumerate(arguments):
            kind = argument["kind"]
            if kind == "tensor_map":
                behind = pointers.place(*maps.memory(argument["index"]))
                self._maps.append((position, argument["index"], behind))
                continue
            if kind == "scalar":
                value = scalar(argument)
            else:
                value = ctypes.c_uint64(0) if kind == "null" else pointers.place(kind, argument["index"])
            self._values.append(value)
            self._array[position] = ctypes.addressof(value)

    def array(self) -> Any:
        """The array for the current call. Raises Misaligned, DriverError where a tensor cannot be mapped."""
        for position, index, behind in self._maps:
            self._array[position] = self._encoder.encoded(index, behind.value).address
        return self._array


def scalar(argument: dict[str, Any]) -> Any:
    """A number by value. Floats travel as text, since framed JSON has no infinities."""
    kind, value = argument["scalar_type"], argument["value"]
    if kind in ("float", "double"):
        return SCALARS[kind](float(value))
    return SCALARS[kind](bool(value) if kind == "bool" else int(value))
