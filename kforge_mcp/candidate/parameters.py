"""The parameters of a candidate's functions, by the groups of variants that share them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kforge_mcp.candidate.binding import bind, floating_scalar
from kforge_mcp.candidate.bound import BoundArgument, BoundLaunch, BoundProgram, ScalarType
from kforge_mcp.candidate.c_types import (
    CPP_WORDS,
    POINTER_BYTES,
    SCALAR_BYTES,
    TENSOR_MAP_BYTES,
    TENSOR_MAP_TYPE,
    scalar_type_name,
    tensor_type,
)
from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.kernel_names import base_name
from kforge_mcp.candidate.plan import claims
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.scope import output_names
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.candidate.steps import Launch
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import FLOATING
from kforge_mcp.records.variant import Argument, Variant


@dataclass(frozen=True)
class Parameter:
    """One parameter of a function that kforge calls or launches."""

    type: str
    name: str
    size_bytes: int = POINTER_BYTES

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(frozen=True)
class LaunchDeclaration:
    """What one launch of a plan passes: the parameters that its kernel must have, with their sizes."""

    step: int
    """Index into `Plan.steps`."""
    kernel: str
    """As `kernel_instances` gives it."""
    parameters: tuple[Parameter, ...]
    line: int
    column: int
    """Where the launch's first argument stands in the candidate's file; 0 if it has none."""

    def __str__(self) -> str:
        return f"__global__ void {base_name(self.kernel)}({', '.join(str(one) for one in self.parameters)})"


@dataclass(frozen=True)
class Group:
    """Variants that one binary serves: the same type behind every name and parameter."""

    variants: tuple[Variant, ...]
    dtypes: dict[str, str]
    """Dtype behind every tensor's name, intermediate tensors included."""
    scalars: dict[str, ScalarType]
    """Type behind every constant's name that can be passed."""
    parameters: tuple[Parameter, ...]
    """Of a CPU candidate's `entry`; empty for CUDA."""
    launches: tuple[LaunchDeclaration, ...] = ()
    """Of a CUDA candidate, one for each launch in `Plan.steps`; empty for the CPU."""


def groups(plan: Plan, card: OperatorCard, config: Config) -> list[Group]:
    """The claimed variants by their types, in the card's order. The plan must have been parsed for this card."""
    found: dict[object, Group] = {}
    for variant in card.variants:
        if not claims(plan, variant, config):
            continue
        group = _group(plan, card, variant, config)
        parameters = (group.parameters, *(launch.parameters for launch in group.launches))
        types = tuple(tuple(one.type for one in some) for some in parameters)
        key = (tuple(group.dtypes.items()), tuple(group.scalars.items()), types)
        if key in found:
            first = found[key]
            group = Group(
                (*first.variants, variant), first.dtypes, first.scalars, first.parameters, launches=first.launches
            )
        found[key] = group
    return list(found.values())


def _group(plan: Plan, card: OperatorCard, variant: Variant, config: Config) -> Group:
    dtypes, scalars = tensor_dtypes(card, variant), scalar_types(variant)
    if plan.target == "cpu":
        bound = bind(plan, variant, config)
        assert not isinstance(bound, Rejected), bound.message
        return Group((variant,), dtypes, scalars, _parameters(plan, card, variant, plan.args, bound, dtypes))
    program = bind_steps(plan, variant, config, ends_only=True)
    assert not isinstance(program, Rejected), program.message
    dtypes |= {one.name: one.dtype for one in program.intermediates}
    return Group((variant,), dtypes, scalars, (), launches=_launches(plan, card, variant, program, dtypes))


def launch_declarations(plan: Plan, card: OperatorCard, group: Group, config: Config) -> list[LaunchDeclaration]:
    """The parameters that each launch of a CUDA plan passes for a group of variants, in the order of the steps.

    A launch that runs in no variant of the group (an empty grid, no repeats) has no declaration.
    """
    found: dict[int, LaunchDeclaration] = {}
    for variant in group.variants:
        for one in _group(plan, card, variant, config).launches:
            found.setdefault(one.step, one)
    return [found[step] for step in sorted(found)]


def _launches(
    plan: Plan, card: OperatorCard, variant: Variant, program: BoundProgram, dtypes: dict[str, str]
) -> tuple[LaunchDeclaration, ...]:
    found: dict[int, LaunchDeclaration] = {}
    for bound in program.steps:
        if not isinstance(bound, BoundLaunch) or bound.step in found:
            continue
        step = plan.steps[bound.step]
        assert isinstance(step, Launch)
        found[bound.step] = LaunchDeclaration(
            step=bound.step,
            kernel=bound.kernel_name_expression,
            parameters=_parameters(plan, card, variant, step.args, bound.arguments, dtypes),
            line=step.args[0].line if step.args else 0,
            column=step.args[0].column if step.args else 0,
        )
    return tuple(found.values())


def tensor_dtypes(card: OperatorCard, variant: Variant) -> dict[str, str]:
    """The dtype behind each tensor's name in a variant: what `name_t` is made from.

    A list has its elements' dtype if they agree, and no entry otherwise. An absent tensor has that of another
    variant of the card, or else of this variant's first floating-point tensor.
    """
    found: dict[str, str] = {}
    for argument in variant.arguments:
        dtype = _dtype(variant, argument)
        if argument.kind == "none":
            others = (other.argument(argument.name) for other in card.variants)
            present = [
                _dtype(owner, other)
                for owner, other in zip(card.variants, others, strict=True)
                if other and other.kind in ("tensor", "tensors")
            ]
            floating = [spec.dtype for spec in variant.tensors if spec.dtype in FLOATING]
            dtype = next((one for one in (*present, *floating) if one), "fp32")
        if dtype:
            found[argument.name] = dtype
    for name, spec in zip(output_names(variant), variant.outputs, strict=True):
        found[name] = spec.dtype
    return found


def _dtype(variant: Variant, argument: Argument) -> str:
    dtypes = {variant.tensors[index].dtype for index in argument.tensors}
    return dtypes.pop() if len(dtypes) == 1 else ""


def scalar_types(variant: Variant) -> dict[str, ScalarType]:
    """How each boolean, integer or floating-point constant of a variant is passed."""
    found: dict[str, ScalarType] = {}
    for argument in variant.arguments:
        value = argument.value if argument.kind == "constant" else None
        if isinstance(value, bool):
            found[argument.name] = "bool"
        elif isinstance(value, int):
            found[argument.name] = "int64"
        elif isinstance(value, float):
            found[argument.name] = floating_scalar(variant)
    return found


def _parameters(
    plan: Plan,
    card: OperatorCard,
    variant: Variant,
    expressions: Sequence[Expression],
    bound: Iterable[BoundArgument],
    dtypes: dict[str, str],
) -> tuple[Parameter, ...]:
    spaces = {space.name: space.dtype for space in plan.workspace}
    taken: set[str] = set()
    found: list[Parameter] = []
    for index, (expression, argument) in enumerate(zip(expressions, bound, strict=True)):
        name = _parameter_name(expression, index, taken)
        if argument.kind == "scalar":
            kind = scalar_type_name(argument.scalar_type, plan.target)
            found.append(Parameter(kind, name, SCALAR_BYTES[argument.scalar_type]))
        elif argument.kind == "tensor_map":
            found.append(Parameter(TENSOR_MAP_TYPE, name, TENSOR_MAP_BYTES))
        else:
            dtype = spaces[argument.name] if argument.kind == "workspace" else dtypes.get(argument.name, "")
            if argument.kind == "tensor":
                dtype = variant.tensors[argument.index].dtype
            element = tensor_type(dtype, plan.target)
            written = argument.kind in ("output", "workspace", "intermediate") or (
                plan.inplace and argument.name == card.mutates
            )
            found.append(Parameter(f"{'' if written else 'const '}{element or 'void'}*", name))
    return tuple(found)


def _parameter_name(expression: Expression, index: int, taken: set[str]) -> str:
    name = re.sub(r"\W+", "_", expression.text.strip().replace("[-1]", "_last")).strip("_")
    if not re.fullmatch(r"[A-Za-z_]\w{0,39}", name) or name in taken or name in CPP_WORDS:
        name = f"argument{index}"
    taken.add(name)
    return name


def declaration(entry: str, parameters: Iterable[Parameter]) -> str:
    """The declaration of an exported function, without a semicolon."""
    return f'extern "C" void {entry}({", ".join(str(parameter) for parameter in parameters)})'
