"""Tensors of a captured call: their layout, and where values for them come from."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import Field

from kforge_mcp.records.base import Record

DType = Literal[
    "fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2",
    "int64", "int32", "int16", "int8", "uint8", "bool", "complex64",
]  # fmt: skip

ITEMSIZE: dict[str, int] = {
    "fp64": 8, "fp32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1,
    "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1, "complex64": 8,
}  # fmt: skip
"""Bytes of one element."""

FLOATING = frozenset({"fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2"})


class InputRecipe(Record):
    """How to draw fresh values that look like a captured tensor's.

    Floating tensors are drawn by the inverse of the captured distribution: `quantiles` holds its values at
    equally spaced probabilities from 0 to 1, `zeros_share` the part that is exactly zero. Integers are uniform
    over `low..high`, sorted along the last axis if `sorted_last`, each value at most once along it if `distinct_last`
    (permutations, positions). `constant` keeps the captured bits (masks,
    positions and whatever an operator needs unchanged).
    """

    kind: Literal["quantiles", "integers", "bool", "constant"]
    quantiles: list[float] = Field(default_factory=list)
    zeros_share: float = 0.0
    low: int = 0
    high: int = 0
    sorted_last: bool = False
    distinct_last: bool = False
    true_share: float = 0.0


class TensorSpec(Record):
    """One tensor of a call. `shape`, `stride` in elements; `alignment` is the address modulo 64, in bytes."""

    dtype: DType
    shape: list[int]
    stride: list[int]
    storage_offset: int = 0
    device: str = "cpu"
    alignment: int = 0
    storage_id: int = 0
    """Equal for tensors of one call that share a storage."""
    sample: str = ""
    """Digest of the blob with the bytes from the first to the last element, gaps included; empty if not kept."""
    recipe: InputRecipe | None = None

    @property
    def numel(self) -> int:
        """Elements, repeated ones counted each time."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return ITEMSIZE[self.dtype]

    @property
    def extent_bytes(self) -> int:
        """Bytes from the first to one past the last element, gaps included; 0 for an empty tensor."""
        if self.numel == 0:
            return 0
        last = sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))
        return (last + 1) * self.itemsize

    @property
    def unique_bytes(self) -> int:
        """Bytes of distinct elements: a stride of 0 repeats, it does not add."""
        sizes = zip(self.shape, self.stride, strict=True)
        return math.prod(size for size, step in sizes if step != 0 or size == 0) * self.itemsize
