"""The plan of a candidate as data."""

from __future__ import annotations

from dataclasses import dataclass

from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.steps import Step, TensorMap, Workspace
from kforge_mcp.records.project import Target

Scalar = int | float | bool | str
Config = dict[str, Scalar]


@dataclass(frozen=True)
class Plan:
    """What a candidate declares. Lines count from 1 in `source`."""

    target: Target
    source: str
    entry: str
    """The exported C function of a CPU candidate; empty for CUDA."""
    args: tuple[Expression, ...]
    """Arguments of `entry`, in order; empty for CUDA, where each step has its own."""
    where: Expression | None
    options: tuple[str, ...]
    inplace: bool
    steps: tuple[Step, ...]
    workspace: tuple[Workspace, ...]
    tunables: dict[str, tuple[Scalar, ...]]
    tensor_maps: tuple[TensorMap, ...]
    metadata_lines: tuple[int, int]
    """First and last line of the metadata block, markers included."""
    nondeterministic: bool = False
    """Declared: equal inputs may give different bits, such as sums by atomic operations in any order."""
