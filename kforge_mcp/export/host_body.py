"""How a CPU kernel is called in one variant, as C++: the types of its parameters and their values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kforge_mcp.candidate.binding import BoundArgument, bind, bind_workspaces
from kforge_mcp.candidate.c_types import scalar_type_name
from kforge_mcp.candidate.plan import Config, Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.export.literals import SpaceText, dtype_function, integer, number
from kforge_mcp.records.tensor import ITEMSIZE
from kforge_mcp.records.variant import Variant


@dataclass(frozen=True)
class HostBody:
    """A variant's call of its entry: C++ types and values in the order of the parameters."""

    spaces: list[SpaceText]
    parameters: list[str]
    arguments: list[str]
    slots: int


def host_body(plan: Plan, variant: Variant, config: Config, operands: Sequence[str]) -> HostBody | Rejected:
    """The call of a variant whose operator takes the tensors `operands`."""
    arguments, workspaces = bind(plan, variant, config), bind_workspaces(plan, variant, config)
    if isinstance(arguments, Rejected):
        return arguments
    if isinstance(workspaces, Rejected):
        return workspaces
    outputs = len(operands)
    first = outputs + len(variant.outputs)

    def value(argument: BoundArgument) -> str:
        match argument.kind:
            case "tensor":
                return f"memory[{list(operands).index(argument.name)}]"
            case "output":
                return f"memory[{outputs + argument.index}]"
            case "workspace":
                return f"memory[{first + argument.index}]"
            case "null":
                return "nullptr"
        return number(argument.value, argument.scalar_type)

    spaces = [
        SpaceText(
            name="",
            short=space.dtype,
            dtype=dtype_function(space.dtype),
            itemsize=ITEMSIZE[space.dtype],
            shape=[integer(size) for size in space.shape],
            zero=space.init == "zero",
        )
        for space in workspaces
    ]
    types = [scalar_type_name(a.scalar_type, "cpu") if a.kind == "scalar" else "void*" for a in arguments]
    return HostBody(spaces, types, [value(argument) for argument in arguments], first + len(spaces))
