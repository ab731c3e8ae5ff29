"""The parameters of one launch as the driver wants them: an array of addresses of their values."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

from .tensor_maps import TensorMaps

SCALARS = {
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
}
Addresses = Mapping[str, Sequence[int]]
"""Addresses of `tensor`, `output`, `workspace` and `intermediate` by index."""


class Parameters:
    """Values of one launch's arguments; those that are pointers are filled in for each call."""

    def __init__(self, arguments: Sequence[dict[str, Any]]) -> None:
        self._values: list[Any] = []
        self._pointers: list[tuple[Any, str, int]] = []
        self._maps: list[tuple[int, int]] = []
        self.array = (ctypes.c_void_p * max(len(arguments), 1))()
        for position, argument in enumerate(arguments):
            kind = argument["kind"]
            if kind == "tensor_map":
                self._maps.append((position, argument["index"]))
                continue
            value = scalar(argument) if kind == "scalar" else ctypes.c_uint64(0)
            if kind not in ("scalar", "null"):
                self._pointers.append((value, kind, argument["index"]))
            self._values.append(value)
            self.array[position] = ctypes.addressof(value)

    def fill(self, addresses: Addresses, maps: TensorMaps) -> Any:
        """The array for a call whose memory lies at `addresses`. Raises Misaligned, DriverError."""
        for value, kind, index in self._pointers:
            value.value = addresses[kind][index]
        for position, index in self._maps:
            kind, place = maps.memory(index)
            self.array[position] = maps.encoded(index, addresses[kind][place]).address
        return self.array


def scalar(argument: dict[str, Any]) -> Any:
    """A number by value. Floats travel as text, since framed JSON has no infinities."""
    kind, value = argument["scalar_type"], argument["value"]
    if kind in ("float", "double"):
        return SCALARS[kind](float(value))
    return SCALARS[kind](bool(value) if kind == "bool" else int(value))
