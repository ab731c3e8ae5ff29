"""The C side of a candidate: types by name, parameters, the exact signature, and a minimal candidate that compiles."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from kforge_mcp.candidate.binding import BoundArgument, ScalarType, bind, floating_scalar
from kforge_mcp.candidate.c_types import CPP_WORDS, scalar_type_name, tensor_type
from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.plan import claims, configurations
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.scope import output_names
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import FLOATING
from kforge_mcp.records.variant import Argument, Variant

HALF_TYPES = frozenset({"fp16", "bf16"})


@dataclass(frozen=True)
class Parameter:
    """One parameter of the exported function."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


@dataclass(frozen=True)
class Group:
    """Variants that one binary serves: the same type behind every name and parameter."""

    variants: tuple[Variant, ...]
    dtypes: dict[str, str]
    """Dtype behind every tensor's name."""
    scalars: dict[str, ScalarType]
    """Type behind every constant's name that can be passed."""
    parameters: tuple[Parameter, ...]


def groups(plan: Plan, card: OperatorCard, config: Config) -> list[Group]:
    """The claimed variants by their types, in the card's order. The plan must have been parsed for this card."""
    found: dict[object, Group] = {}
    for variant in card.variants:
        if not claims(plan, variant, config):
            continue
        bound = bind(plan, variant, config)
        assert not isinstance(bound, Rejected), bound.message
        dtypes = tensor_dtypes(card, variant)
        scalars = scalar_types(variant)
        group = Group((variant,), dtypes, scalars, tuple(_parameters(plan, bound, dtypes)))
        key = (tuple(dtypes.items()), tuple(scalars.items()), tuple(one.type for one in group.parameters))
        if key in found:
            group = Group((*found[key].variants, variant), dtypes, scalars, found[key].parameters)
        found[key] = group
    return list(found.values())


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


def _parameters(plan: Plan, bound: Iterable[BoundArgument], dtypes: dict[str, str]) -> Iterable[Parameter]:
    spaces = {space.name: space.dtype for space in plan.workspace}
    taken: set[str] = set()
    for index, (expression, argument) in enumerate(zip(plan.args, bound, strict=True)):
        name = _parameter_name(expression, index, taken)
        if argument.kind == "scalar":
            yield Parameter(scalar_type_name(argument.scalar_type), name)
            continue
        base = argument.name.partition("[")[0]
        element = tensor_type(spaces[base] if argument.kind == "workspace" else dtypes.get(base, ""))
        const = "" if argument.kind in ("output", "workspace") else "const "
        yield Parameter(f"{const}{element or 'void'}*", name)


def _parameter_name(expression: Expression, index: int, taken: set[str]) -> str:
    name = re.sub(r"\W+", "_", expression.text.strip().replace("[-1]", "_last")).strip("_")
    if not re.fullmatch(r"[A-Za-z_]\w{0,39}", name) or name in taken or name in CPP_WORDS:
        name = f"argument{index}"
    taken.add(name)
    return name


def declaration(entry: str, parameters: Iterable[Parameter]) -> str:
    """The declaration of an exported function, without a semicolon."""
    return f'extern "C" void {entry}({", ".join(str(parameter) for parameter in parameters)})'


@dataclass(frozen=True)
class _Whole:
    """The arguments that a candidate for any variant of a card may take."""

    args: list[str]
    parameters: list[Parameter]


def _whole(card: OperatorCard) -> _Whole:
    args: list[str] = []
    parameters: list[Parameter] = []
    first = card.variants[0]
    for argument in first.arguments:
        everywhere = [other for variant in card.variants if (other := variant.argument(argument.name))]
        if len(everywhere) < len(card.variants):
            continue
        kinds = {other.kind for other in everywhere}
        if kinds <= {"tensor", "none"} and "tensor" in kinds:
            args.append(argument.name)
            parameters.append(Parameter(f"const {argument.name}_t*", argument.name))
        elif kinds == {"tensors"} and all(argument.name in tensor_dtypes(card, variant) for variant in card.variants):
            for index in range(min(len(other.tensors) for other in everywhere)):
                args.append(f"{argument.name}[{index}]")
                parameters.append(Parameter(f"const {argument.name}_t*", f"{argument.name}{index}"))
        elif all(argument.name in scalar_types(variant) for variant in card.variants):
            args.append(argument.name)
            parameters.append(Parameter(f"{argument.name}_t", argument.name))
    for name in min((output_names(variant) for variant in card.variants), key=len):
        args += [name, f"{name}.numel"]
        parameters += [Parameter(f"{name}_t*", name), Parameter("int64_t", f"{name}_numel")]
    return _Whole(args, parameters)


def _where(card: OperatorCard) -> str:
    """The condition that leaves out variants with types that the CPU target lacks; empty if there are none."""
    odd: dict[str, None] = {}
    for variant in card.variants:
        for name, dtype in tensor_dtypes(card, variant).items():
            if tensor_type(dtype) is None:
                odd[f'{name}.dtype != "{dtype}"'] = None
    return " and ".join(odd)


def minimal_candidate(card: OperatorCard) -> str:
    """A CPU candidate that takes every argument of the card, compiles, and writes zeros: a place to begin."""
    whole = _whole(card)
    args = ", ".join(f'"{text}"' for text in whole.args)
    where = _where(card)
    lines = ["// /// kforge", '// entry = "kernel"', f"// args = [{args}]"]
    if where:
        lines.append(f"// where = '{where}'")
    lines += ["// ///", "", f"{declaration('kernel', whole.parameters)} {{"]
    for name in (text for text in whole.args if text.startswith("out") and f"{text}.numel" in whole.args):
        lines += [
            "    #pragma omp parallel for",
            f"    for (int64_t i = 0; i < {name}_numel; ++i) {name}[i] = {name}_t(0);",
        ]
    return "\n".join([*lines, "}", ""])


def c_signature(card: OperatorCard, plan: Plan | None = None) -> str:
    """The exact C signature of a candidate's function, with the types behind its names, as C++ text.

    With a plan, the signature that its `args` call for, once per combination of types; without, one that takes
    every argument of the card.
    """
    if plan is None:
        whole = _whole(card)
        return "\n".join([f"{declaration('kernel', whole.parameters)};", *_types(card), *_helpers(card)])
    found: dict[str, list[str]] = {}
    for config in configurations(plan):
        for group in groups(plan, card, config):
            ids = found.setdefault(declaration(plan.entry, group.parameters) + ";", [])
            ids += [variant.variant_id for variant in group.variants if variant.variant_id not in ids]
    if len(found) == 1:
        return next(iter(found))
    return "\n".join(f"{text}  // {', '.join(ids)}" for text, ids in found.items())


def _types(card: OperatorCard) -> list[str]:
    names: dict[str, dict[str, None]] = {}
    for variant in card.variants:
        for name, dtype in tensor_dtypes(card, variant).items():
            names.setdefault(name, {})[f"{tensor_type(dtype) or 'not available on the CPU'} ({dtype})"] = None
        for name, scalar in scalar_types(variant).items():
            names.setdefault(name, {})[scalar_type_name(scalar)] = None
    nullable = {argument.name for variant in card.variants for argument in variant.arguments if argument.kind == "none"}
    lines = []
    for name, kinds in names.items():
        note = "; null where absent" if name in nullable else ""
        lines.append(f"// {name}_t = {' or '.join(kinds)}{note}")
    return lines


def _helpers(card: OperatorCard) -> list[str]:
    lines = [
        "// inputs are pointers to const, outputs are not; size expressions are int64_t; each tunable is a constexpr",
        "// for each floating-point tensor x: x_acc is the type to compute in (float, or double for fp64),",
        "// x_load(x_t) gives an x_acc, x_store(x_acc) an x_t rounded to nearest",
    ]
    dtypes = {dtype for variant in card.variants for dtype in tensor_dtypes(card, variant).values()}
    if dtypes & HALF_TYPES:
        lines.append("// fp16_to_float, float_to_fp16, bf16_to_float, float_to_bf16 convert uint16_t bits")
    return lines
