"""One concrete call signature of an operator card."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kforge_mcp.records.base import Record
from kforge_mcp.records.tensor import TensorSpec

Constant = bool | int | float | str | list[bool | int | float | str] | None


class Argument(Record):
    """A name that a candidate may use, and what stands behind it in this variant.

    `kind="tensor"`: `tensors` has one index into `Variant.tensors`; `"tensors"`: several, written `name[0]`;
    `"constant"`: `value`; `"none"`: an absent optional tensor, a null pointer in the candidate.
    """

    name: str
    kind: Literal["tensor", "tensors", "constant", "none"]
    role: Literal["input", "parameter", "buffer", "constant"]
    tensors: list[int] = Field(default_factory=list)
    value: Constant = None
    path: str = ""
    """Where the value comes from, for people and the dispatcher: `args[0]`, `kwargs.x`, `self.weight`, `self.eps`."""


class Variant(Record):
    """Tensors, arguments and timing of one call signature. Times in microseconds, sizes in bytes."""

    variant_id: str
    tensors: list[TensorSpec]
    arguments: list[Argument]
    outputs: list[TensorSpec]
    call: dict[str, Any]
    """How eager is called: trees of values in the encoding of `runtime/values.py`; read by the runtime only."""
    output_tree: dict[str, Any] = Field(default_factory=dict)
    """The structure of the result, in the same encoding; tensor `i` is `outputs[i]`."""
    overwritten: list[int] = Field(default_factory=list)
    """Of an operator that works in place: for each output the index of the input that eager overwrites and returns as
    it, -1 for a fresh tensor. Empty if eager writes into no input."""
    calls: int
    """Calls in one run of the workload."""
    eager_us: float
    """Median time of one eager call."""
    flops: int = 0
    unique_bytes: int = 0
    """Bytes of all distinct inputs and outputs."""
    speed_of_light_us: float = 0.0
    """Least possible time by this device's measured bandwidth and matrix rate; 0 if unknown."""

    def argument(self, name: str) -> Argument | None:
        """The argument called `name`, or None."""
        return next((argument for argument in self.arguments if argument.name == name), None)
