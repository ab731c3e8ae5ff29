"""What a plan comes to in one variant and configuration: arguments, memory, launches and calls, as data."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field

from kforge_mcp.records.base import Record
from kforge_mcp.records.tensor import ITEMSIZE, DType

ScalarType = Literal["", "int64", "int32", "float", "double", "bool"]


class BoundArgument(Record):
    """One argument of a compiled function, in the order of its parameters.

    `tensor`: `index` into `Variant.tensors`; `output`: into `Variant.outputs`; `workspace`: into the workspaces;
    `intermediate`: into `BoundProgram.intermediates`; all four are passed as a pointer. `tensor_map`: `index` into
    `BoundProgram.tensor_maps`, a descriptor passed by value. `null` is a null pointer. `scalar` is `value` passed by
    value as `scalar_type`.
    """

    kind: Literal["tensor", "output", "workspace", "intermediate", "tensor_map", "null", "scalar"]
    index: int = 0
    name: str = ""
    """The canonical name behind a pointer, `tensors[0]` for an element of a list; empty for a size."""
    scalar_type: ScalarType = ""
    value: int | float | bool | None = None


class BoundWorkspace(Record):
    """Scratch memory of one variant, contiguous; `init` says whether it is zeroed before every call."""

    name: str
    dtype: DType
    shape: list[int]
    init: Literal["none", "zero"]

    @property
    def size_bytes(self) -> int:
        """Bytes to allocate."""
        return math.prod(self.shape) * ITEMSIZE[self.dtype]


class BoundIntermediate(Record):
    """The result of an operator call, row-major: whoever runs the call copies a result that is laid out otherwise."""

    name: str
    dtype: DType
    shape: list[int]

    @property
    def size_bytes(self) -> int:
        """Bytes to allocate."""
        return math.prod(self.shape) * ITEMSIZE[self.dtype]


class BoundTensorMap(Record):
    """Arguments of `cuTensorMapEncodeTiled`, innermost dimension first as it wants them."""

    name: str
    tensor: BoundArgument
    """The memory: a tensor, output, workspace or intermediate."""
    data_type: Literal[
        "UINT8", "UINT16", "INT32", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16",
    ]  # fmt: skip
    """Suffix of `CU_TENSOR_MAP_DATA_TYPE_`."""
    size: list[int]
    """Elements in each dimension."""
    stride_bytes: list[int]
    """Of every dimension but the innermost, whose stride is one element."""
    box: list[int]
    element_strides: list[int]
    interleave: Literal["none", "16B", "32B"] = "none"
    swizzle: Literal["none", "32B", "64B", "128B"] = "none"
    l2_promotion: Literal["none", "64B", "128B", "256B"] = "none"
    out_of_bounds: Literal["zero", "nan"] = "zero"
    alignment: int = 16
    """Bytes that the tensor's address must be a multiple of."""


class BoundLaunch(Record):
    """One launch. Grid, block and cluster have three dimensions each; no cluster is (1, 1, 1)."""

    step: int
    """Index into `Plan.steps`; the runs of a repeated step share it."""
    kernel_name_expression: str
    """As `kernel_instances` gives it, for NVRTC's lowered names."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    """Dynamic shared memory; above 48 KiB the function has to be opted in."""
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    arguments: list[BoundArgument]


class CallArgument(Record):
    """One argument of an operator call: a tensor, nothing, a number or a list of integers."""

    parameter: str
    """Its name in the operator's schema."""
    keyword: bool = False
    """Whether the schema takes it by keyword only."""
    kind: Literal["tensor", "output", "workspace", "intermediate", "none", "value"]
    index: int = 0
    name: str = ""
    value: int | float | bool | list[int] | None = None


class BoundCall(Record):
    """One call of an operator between launches; its results go to `outputs`, in the operator's order."""

    step: int
    operator: str
    """As the candidate says it: `aten::linear`."""
    overload: str
    """The overload to take from `torch.ops.aten.<name>`: `default`."""
    arguments: list[CallArgument]
    """In the schema's order, those left to their defaults missing at the end."""
    outputs: list[BoundArgument]
    """An `intermediate`, or an `output` of the card, for each result."""


BoundStep = BoundLaunch | BoundCall


class BoundProgram(Record):
    """Everything that one call of a candidate does in one variant and configuration."""

    workspaces: list[BoundWorkspace] = Field(default_factory=list)
    intermediates: list[BoundIntermediate] = Field(default_factory=list)
    tensor_maps: list[BoundTensorMap] = Field(default_factory=list)
    steps: list[BoundStep]
    """In order, repeated steps unrolled; a launch with an empty grid is left out."""

    def as_json(self) -> dict[str, Any]:
        """The program for framed JSON, which has no numbers for infinities and NaN: floats travel as text."""
        return _plain(self.model_dump())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) else value
