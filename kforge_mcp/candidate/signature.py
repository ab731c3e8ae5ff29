"""The C side of a card: the exact signature that a candidate must have, and a minimal candidate that compiles."""

from __future__ import annotations

from dataclasses import dataclass

from kforge_mcp.candidate.c_types import scalar_type_name, tensor_type
from kforge_mcp.candidate.declaration import Plan
from kforge_mcp.candidate.parameters import (
    Group,
    LaunchDeclaration,
    Parameter,
    declaration,
    groups,
    launch_declarations,
    scalar_types,
    tensor_dtypes,
)
from kforge_mcp.candidate.plan import configurations
from kforge_mcp.candidate.scope import output_names
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target

__all__ = [
    "Group",
    "LaunchDeclaration",
    "Parameter",
    "c_signature",
    "declaration",
    "groups",
    "launch_declarations",
    "minimal_candidate",
    "scalar_types",
    "tensor_dtypes",
]

HALF_TYPES = frozenset({"fp16", "bf16"})
_KERNEL = "kernel"


@dataclass(frozen=True)
class _Whole:
    """The arguments that a candidate for any variant of a card may take."""

    args: list[str]
    parameters: list[Parameter]
    outputs: list[str]


def _whole(card: OperatorCard, target: Target) -> _Whole:
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
    outputs = min((output_names(variant) for variant in card.variants), key=len)
    for name in outputs:
        args += [name, f"{name}.numel"]
        parameters += [Parameter(f"{name}_t*", name), Parameter(scalar_type_name("int64", target), f"{name}_numel")]
    return _Whole(args, parameters, outputs)


def _where(card: OperatorCard, target: Target) -> str:
    """The condition that leaves out variants with types that the target lacks; empty if there are none."""
    odd: dict[str, None] = {}
    for variant in card.variants:
        for name, dtype in tensor_dtypes(card, variant).items():
            if tensor_type(dtype, target) is None:
                odd[f'{name}.dtype != "{dtype}"'] = None
    return " and ".join(odd)


def _declared(whole: _Whole, target: Target) -> str:
    if target == "cpu":
        return declaration(_KERNEL, whole.parameters)
    return str(LaunchDeclaration(0, _KERNEL, tuple(whole.parameters), 0, 0))


def minimal_candidate(card: OperatorCard, target: Target = "cpu") -> str:
    """A candidate that takes every argument of the card, compiles, and writes zeros: a place to begin."""
    whole = _whole(card, target)
    quoted = ", ".join(f'"{text}"' for text in whole.args)
    args = f"args = [{quoted}]"
    where = _where(card, target)
    claim = [f"where = '{where}'"] if where else []
    if target == "cpu":
        plan = [f'entry = "{_KERNEL}"', args, *claim]
    else:
        most = "max(1, " + ", ".join(f"{name}.numel" for name in whole.outputs) + ")"
        grid = f"min(ceil_div({most}, BLOCK), 8 * sm_count)"
        launch = [f'kernel = "{_KERNEL}"', f'grid = ["{grid}"]', 'block = ["BLOCK"]', args]
        plan = [*claim, "[[step]]", *launch, "[tunables]", "BLOCK = [256]"]
    lines = ["// /// kforge", *(f"// {line}" for line in plan), "// ///", "", f"{_declared(whole, target)} {{"]
    for name in whole.outputs:
        lines += _zeros(name, target)
    return "\n".join([*lines, "}", ""])


def _zeros(name: str, target: Target) -> list[str]:
    if target == "cpu":
        return [
            "    #pragma omp parallel for",
            f"    for (int64_t i = 0; i < {name}_numel; ++i) {name}[i] = {name}_t(0);",
        ]
    return [
        "    for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x;"
        f" i < {name}_numel; i += gridDim.x * (long long)BLOCK)",
        f"        {name}[i] = {name}_t{{}};",
    ]


def c_signature(card: OperatorCard, plan: Plan | None = None, target: Target = "cpu") -> str:
    """The exact C signature of a candidate's function, with the types behind its names, as C++ text.

    With a plan, the signatures that its arguments call for, once per combination of types; without, one that takes
    every argument of the card.
    """
    if plan is None:
        whole = _whole(card, target)
        return "\n".join([f"{_declared(whole, target)};", *_types(card, target), *_helpers(card, target)])
    found: dict[str, list[str]] = {}
    for config in configurations(plan):
        for group in groups(plan, card, config):
            declared = "\n".join(f"{launch};" for launch in group.launches)
            ids = found.setdefault(declared or declaration(plan.entry, group.parameters) + ";", [])
            ids += [variant.variant_id for variant in group.variants if variant.variant_id not in ids]
    if len(found) == 1:
        return next(iter(found))
    return "\n".join(f"{text}  // {', '.join(ids)}" for text, ids in found.items())


def _types(card: OperatorCard, target: Target) -> list[str]:
    missing = "not available " + ("on the CPU" if target == "cpu" else "in CUDA")
    names: dict[str, dict[str, None]] = {}
    for variant in card.variants:
        for name, dtype in tensor_dtypes(card, variant).items():
            names.setdefault(name, {})[f"{tensor_type(dtype, target) or missing} ({dtype})"] = None
        for name, scalar in scalar_types(variant).items():
            names.setdefault(name, {})[scalar_type_name(scalar, target)] = None
    nullable = {argument.name for variant in card.variants for argument in variant.arguments if argument.kind == "none"}
    lines = []
    for name, kinds in names.items():
        note = "; null where absent" if name in nullable else ""
        if name == card.mutates:
            note += "; with `inplace = true` written, not const, and there is no `out`"
        lines.append(f"// {name}_t = {' or '.join(kinds)}{note}")
    return lines


def _helpers(card: OperatorCard, target: Target) -> list[str]:
    integer = scalar_type_name("int64", target)
    lines = [
        "// inputs are pointers to const, outputs are not; "
        f"size expressions are {integer}; each tunable is a constexpr",
        "// for each floating-point tensor x: x_acc is the type to compute in (float, or double for fp64),",
        "// x_load(x_t) gives an x_acc, x_store(x_acc) an x_t rounded to nearest",
    ]
    if target == "cuda":
        lines.insert(0, "// one such kernel for each [[step]]: its parameters follow the step's `args`")
        return lines
    dtypes = {dtype for variant in card.variants for dtype in tensor_dtypes(card, variant).values()}
    if dtypes & HALF_TYPES:
        lines.append("// fp16_to_float, float_to_fp16, bf16_to_float, float_to_bf16 convert uint16_t bits")
    return lines
