"""What a plan runs, in order: launches of own kernels and calls of allow-listed operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.records.tensor import DType

CALLS = frozenset(
    "aten::" + name
    for name in (
        "linear", "matmul", "bmm", "addmm", "convolution", "scaled_dot_product_attention", "topk", "sort", "embedding",
    )
)  # fmt: skip
"""Operators that a step may call between launches."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch. `kernel` is a name or template instance; `repeat` runs it with loop index `step`."""

    kernel: str
    grid: tuple[Expression, ...]
    block: tuple[Expression, ...]
    args: tuple[Expression, ...]
    shared_bytes: Expression | None = None
    cluster: tuple[Expression, ...] = ()
    cooperative: bool = False
    repeat: Expression | None = None


@dataclass(frozen=True)
class Call:
    """One call of an allow-listed operator; its result is the intermediate tensor `out`."""

    call: str
    args: tuple[Expression, ...]
    out: str


Step = Launch | Call


@dataclass(frozen=True)
class Workspace:
    """Scratch memory that kforge allocates for every call."""

    name: str
    dtype: DType
    shape: tuple[Expression, ...]
    init: Literal["none", "zero"] = "none"


@dataclass(frozen=True)
class TensorMap:
    """A TMA descriptor over a tensor argument, passed as `const __grid_constant__ CUtensorMap`."""

    name: str
    tensor: str
    box: tuple[Expression, ...]
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    interleave: Literal["none", "16B", "32B"] = "none"
    l2_promotion: Literal["none", "64B", "128B", "256B"] = "none"
    element_strides: tuple[Expression, ...] = ()
