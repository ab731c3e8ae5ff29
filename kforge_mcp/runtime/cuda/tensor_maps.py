"""TMA descriptors of a bound program, encoded for the addresses that a call has."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import c_ubyte, c_uint32, c_uint64
from typing import Any

from .library import DriverError, Library

DATA_TYPES = {
    "UINT8": 0, "UINT16": 1, "UINT32": 2, "INT32": 3, "UINT64": 4, "INT64": 5,
    "FLOAT16": 6, "FLOAT32": 7, "FLOAT64": 8, "BFLOAT16": 9,
}  # fmt: skip
"""`CU_TENSOR_MAP_DATA_TYPE_*`."""
INTERLEAVES = {"none": 0, "16B": 1, "32B": 2}
SWIZZLES = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
PROMOTIONS = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS = {"zero": 0, "nan": 1}

MAP_BYTES = 128
_MAP_ALIGNMENT = 64
_KEPT = 256
"""Descriptors that are remembered: as many addresses as one measurement goes through."""


class Misaligned(Exception):
    """The tensor's address cannot be mapped; the message says why."""


class TensorMaps:
    """Encodes the `tensor_maps` of a bound program; remembers what it encoded by address."""

    def __init__(self, library: Library, maps: Sequence[dict[str, Any]]) -> None:
        self._library = library
        self._maps = [_Fixed(one) for one in maps]
        self._known: dict[tuple[int, int], Descriptor] = {}

    def encoded(self, index: int, address: int) -> Descriptor:
        """The descriptor of one map for a tensor at `address`. Raises Misaligned, DriverError."""
        found = self._known.get((index, address))
        if found is None:
            if len(self._known) >= _KEPT:
                self._known.clear()
            found = self._known[index, address] = self._maps[index].encode(self._library, address)
        return found

    def memory(self, index: int) -> tuple[str, int]:
        """Kind and index of the memory behind a map."""
        tensor = self._maps[index].entry["tensor"]
        return tensor["kind"], tensor["index"]


class Descriptor:
    """A `CUtensorMap` at an address that the driver accepts."""

    def __init__(self) -> None:
        self._raw = (c_ubyte * (MAP_BYTES + _MAP_ALIGNMENT))()
        start = ctypes.addressof(self._raw)
        self.address = start + -start % _MAP_ALIGNMENT
        """Where its 128 bytes lie; valid as long as this object lives."""


class _Fixed:
    """What does not depend on the address."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry
        rank = len(entry["size"])
        self._rank = rank
        self._size = (c_uint64 * rank)(*entry["size"])
        self._strides = (c_uint64 * max(rank - 1, 1))(*entry["stride_bytes"])
        self._box = (c_uint32 * rank)(*entry["box"])
        self._steps = (c_uint32 * rank)(*entry["element_strides"])

    def encode(self, library: Library, address: int) -> Descriptor:
        entry = self.entry
        alignment = entry["alignment"]
        if address % alignment:
            raise Misaligned(
                f"the tensor map `{entry['name']}` needs `{entry['tensor']['name']}` at a multiple of {alignment} "
                f"bytes; in this call it begins {address % alignment} bytes behind one"
            )
        descriptor = Descriptor()
        try:
            library.call(
                "cuTensorMapEncodeTiled", descriptor.address, DATA_TYPES[entry["data_type"]], self._rank, address,
                self._size, self._strides, self._box, self._steps, INTERLEAVES[entry["interleave"]],
                SWIZZLES[entry["swizzle"]], PROMOTIONS[entry["l2_promotion"]], FILLS[entry["out_of_bounds"]],
            )  # fmt: skip
        except DriverError as error:
            error.text = f"{error.text} (tensor map `{entry['name']}`)"
            raise
        return descriptor
