"""What a plan runs, in order: launches of own kernels and calls of allow-listed operators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.records.tensor import DType


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
    """One call of an allow-listed operator. An argument in brackets is a list of integers."""

    call: str
    args: tuple[Expression | tuple[Expression, ...], ...]
    outs: tuple[str, ...]
    """A name for each result: a new intermediate tensor, or an output of the card."""


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
    """A TMA descriptor, passed as `const __grid_constant__ CUtensorMap`. Sizes outermost first, as in `x.shape`."""

    name: str
    tensor: Expression
    """The name of a tensor, or an element of a list."""
    box: tuple[Expression, ...]
    shape: tuple[Expression, ...] = ()
    """The tensor seen in another shape; empty for its own."""
    stride: tuple[Expression, ...] = ()
    """Elements; empty for the tensor's own, or row-major where `shape` is given."""
    element_strides: tuple[Expression, ...] = ()
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    interleave: Literal["none", "16B", "32B"] = "none"
    l2_promotion: Literal["none", "64B", "128B", "256B"] = "none"
    out_of_bounds: Literal["zero", "nan"] = "zero"
