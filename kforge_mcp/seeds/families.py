"""Recognises cards of the families that have seeds for CUDA only; the others are in `matching`.

Every matcher says which variants fit it, and a condition that claims these and no others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kforge_mcp.candidate.expressions import ExpressionError, evaluate, parse_expression
from kforge_mcp.candidate.scope import variant_scope
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Constant, Variant
from kforge_mcp.seeds.activations import ACTIVATIONS, Activation, activation_of
from kforge_mcp.seeds.matching import dense, dense_clause, match_normalization_of, tensor_of

SMALL_FLOATING = frozenset({"fp32", "fp16", "bf16"})
"""What is computed in fp32."""


@dataclass(frozen=True)
class Match:
    """A card as one family. `names` has the card's names by their role, empty for an argument that it lacks."""

    names: dict[str, str]
    where: str


@dataclass(frozen=True)
class GatedMatch:
    """`act(gate) * up`. With `projections` the card is a whole gated MLP: input, then three weights."""

    activation: Activation
    gate: str
    up: str
    where: str
    halves: bool = False
    """Both lie in one tensor, `gate`, side by side in its last axis."""
    gate_first: bool = True
    projections: tuple[str, ...] = ()


Fits = Callable[[Variant], bool]


def plain_name(card: OperatorCard) -> str:
    """The card's last name, lower case letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", card.name.rpartition(".")[2].lower())


def tensor_names(card: OperatorCard) -> list[str]:
    """The arguments that are one tensor in the card's first variant."""
    return [argument.name for argument in card.variants[0].arguments if argument.kind == "tensor"]


def constant_of(variant: Variant, name: str) -> Constant:
    """The value of a constant; None if it is absent."""
    argument = variant.argument(name)
    return argument.value if argument and argument.kind == "constant" else None


def claim(card: OperatorCard, fits: Fits, tensors: Sequence[str], *more: str) -> str | None:
    """The condition that holds for the variants that fit: empty if all do, None if none does or it cannot be said."""
    fitting = [variant for variant in card.variants if fits(variant)]
    if not fitting:
        return None
    if len(fitting) == len(card.variants):
        return ""
    ranks = sorted({len(spec.shape) for variant in fitting if (spec := tensor_of(variant, tensors[0]))})
    clauses = [f"({dense_clause(list(tensors), ranks)})", *more]
    for name in tensors:
        wanted = {spec.dtype for variant in fitting if (spec := tensor_of(variant, name))}
        others = {spec.dtype for variant in card.variants if (spec := tensor_of(variant, name))} - wanted
        clauses += [f'{name}.dtype != "{dtype}"' for dtype in sorted(others)]
    where = " and ".join(clauses)
    return where if all(_holds(where, variant) == fits(variant) for variant in card.variants) else None


def _holds(where: str, variant: Variant) -> bool | None:
    try:
        return evaluate(parse_expression(where), variant_scope(variant)) is True
    except ExpressionError:
        return None


def match_softmax(card: OperatorCard) -> Match | None:
    """A softmax over the last axis."""
    names = tensor_names(card)
    if plain_name(card) not in ("softmax", "softmax1") or len(names) != 1:
        return None
    (x,) = names

    def fits(variant: Variant) -> bool:
        source = tensor_of(variant, x)
        if not source or not _same_layout(variant, x) or source.dtype not in SMALL_FLOATING:
            return False
        return constant_of(variant, "dim") in (-1, len(source.shape) - 1)

    where = claim(card, fits, [x, "out"], f"(dim == -1 or dim == {x}.ndim - 1)")
    return None if where is None else Match({"x": x}, where)


def match_group_norm(card: OperatorCard) -> Match | None:
    """A group normalisation of contiguous (N, C, ...)."""
    names = tensor_names(card)
    eps = _floating_constant(card, "eps")
    if plain_name(card) != "groupnorm" or not names or not eps:
        return None
    x, weight, bias = names[0], *(next((one for one in names[1:] if word in one), "") for word in ("weight", "bias"))
    if {weight, bias} - {""} != set(names[1:]):
        return None

    def fits(variant: Variant) -> bool:
        source, groups = tensor_of(variant, x), constant_of(variant, "num_groups")
        if not source or len(source.shape) < 2 or not _same_layout(variant, x) or source.dtype not in SMALL_FLOATING:
            return False
        batch, channels = source.shape[:2]
        if not isinstance(groups, int) or groups < 1 or channels % groups or batch * groups > 65535:
            return False
        # Places within a group are 32-bit numbers.
        return source.numel // (batch * groups) < 2**31 and _vectors(variant, [weight, bias], channels)

    size = f"{x}.numel // ({x}.shape[0] * num_groups)"
    where = claim(card, fits, [x, "out"], f"{x}.shape[0] * num_groups <= 65535", f"{size} < 2**31")
    names_by_role = {"x": x, "weight": weight, "bias": bias, "eps": eps, "groups": "num_groups"}
    return None if where is None else Match(names_by_role, where)


def match_batch_norm(card: OperatorCard) -> Match | None:
    """A batch normalisation with running statistics, as in evaluation."""
    names = tensor_names(card)
    eps = _floating_constant(card, "eps")
    if not re.fullmatch(r"batchnorm(?:[123]d)?", plain_name(card)) or not names or not eps:
        return None
    x, rest = names[0], [one for one in names[1:] if "num_batches" not in one]
    roles = {"mean": "mean", "variance": "var", "weight": "weight", "bias": "bias"}
    found = {role: next((one for one in rest if word in one), "") for role, word in roles.items()}
    if not found["mean"] or not found["variance"] or {one for one in found.values() if one} != set(rest):
        return None

    def fits(variant: Variant) -> bool:
        source = tensor_of(variant, x)
        if not source or len(source.shape) < 2 or not _same_layout(variant, x) or source.dtype not in SMALL_FLOATING:
            return False
        return constant_of(variant, "training") is not True and _vectors(variant, found.values(), source.shape[1])

    has_mode = all(isinstance(constant_of(variant, "training"), bool) for variant in card.variants)
    where = claim(card, fits, [x, "out"], *(["not training"] if has_mode else []))
    return None if where is None else Match({"x": x, "eps": eps, **found}, where)


def match_activation(card: OperatorCard) -> tuple[Activation, Match] | None:
    """A pointwise function of one tensor."""
    names = tensor_names(card)
    activation = activation_of(card.name.removesuffix("_"), constant_of(card.variants[0], "approximate"))
    if not activation or len(names) != 1:
        return None
    (x,) = names
    if card.mutates not in ("", x):
        return None
    approximate = constant_of(card.variants[0], "approximate")

    def fits(variant: Variant) -> bool:
        source = tensor_of(variant, x)
        held = all(isinstance(constant_of(variant, name), float) for name in activation.constants)
        if constant_of(variant, "approximate") != approximate or not held:
            return False
        return bool(source and _same_layout(variant, x) and source.dtype in SMALL_FLOATING)

    more = [f'approximate == "{approximate}"'] if isinstance(approximate, str) else []
    where = claim(card, fits, [x] if card.mutates else [x, "out"], *more)
    return None if where is None else (activation, Match({"x": x}, where))


def match_gated(card: OperatorCard) -> GatedMatch | None:
    """`act(gate) * up` of two tensors, of the halves of one, or a gated MLP around it."""
    names = tensor_names(card)
    if len(names) == 4:
        return _match_mlp(card, names)
    activation = _gate_activation(card)
    if not activation or len(names) not in (1, 2):
        return None
    if len(names) == 2:
        gate = next((name for name in names if "gate" in name), names[0])
        up = next(name for name in names if name != gate)

        def pairs(variant: Variant) -> bool:
            specs = [tensor_of(variant, name) for name in (gate, up)]
            return all(spec and spec.dtype in SMALL_FLOATING and _like(spec, variant.outputs[0]) for spec in specs)

        where = claim(card, pairs, [gate, up, "out"])
        return None if where is None else GatedMatch(activation, gate, up, where)
    (x,) = names

    def halved(variant: Variant) -> bool:
        source, out = tensor_of(variant, x), variant.outputs[0]
        if len(variant.outputs) != 1 or not source or not source.shape or source.dtype not in SMALL_FLOATING:
            return False
        half = [*out.shape[:-1], 2 * out.shape[-1]] if out.shape else []
        return half == source.shape and dense(source) and dense(out) and out.dtype == source.dtype and out.numel > 0

    where = claim(card, halved, [x, "out"])
    chunked = re.search(r"(\w+)\s*,\s*(\w+)\s*=[^\n]*chunk\(\s*2", card.reference_source)
    activated = re.search(r"(?:silu|gelu|relu|sigmoid|swish|act\w*)\(\s*(\w+)\s*[,)]", card.reference_source)
    second = bool(chunked and activated and activated[1] == chunked[2])
    return None if where is None else GatedMatch(activation, x, x, where, halves=True, gate_first=not second)


def _match_mlp(card: OperatorCard, names: list[str]) -> GatedMatch | None:
    weights = [next((name for name in names if name.startswith(part)), "") for part in ("gate", "up", "down")]
    source = card.reference_source
    formula = re.search(r"down_proj\(\s*self\.\w+\(\s*self\.gate_proj\(\w+\)\s*\)\s*\*\s*self\.up_proj\(\w+\)", source)
    words = [value for a in card.variants[0].arguments if isinstance(value := a.value, str)]
    known = (activation_of(word) for word in (*words, *card.children))
    activation = next((one for one in known if one and not one.constants), None)
    if not formula or not activation or not all(weights) or names[0] in weights:
        return None
    x = names[0]

    def fits(variant: Variant) -> bool:
        specs = [tensor_of(variant, name) for name in (x, *weights)]
        if not all(spec and dense(spec) and spec.dtype == variant.outputs[0].dtype for spec in specs):
            return False
        return variant.outputs[0].dtype in SMALL_FLOATING and len(variant.outputs) == 1 and dense(variant.outputs[0])

    where = claim(card, fits, [x, "out"])
    if where is None:
        return None
    return GatedMatch(activation, "gate", "up", where, projections=(x, *weights))


def _gate_activation(card: OperatorCard) -> Activation | None:
    name = plain_name(card)
    for word, kind in (("swiglu", "silu"), ("geglu", "gelu"), ("reglu", "relu")):
        if name == word:
            return ACTIVATIONS["gelu_tanh" if kind == "gelu" and "tanh" in card.reference_source else kind]
    match = re.fullmatch(r"(?:fused)?(\w+?)(?:and)?mul", name)
    return activation_of(match[1]) if match else None


def match_embedding(card: OperatorCard) -> Match | None:
    """Rows of a table by index."""
    names = tensor_names(card)
    if plain_name(card) != "embedding" or len(names) != 2 or "weight" not in names:
        return None
    weight = "weight"
    index = next(name for name in names if name != weight)

    def fits(variant: Variant) -> bool:
        table, rows, out = tensor_of(variant, weight), tensor_of(variant, index), variant.outputs[0]
        if not table or not rows or constant_of(variant, "max_norm") is not None or len(table.shape) != 2:
            return False
        whole = dense(table) and dense(rows) and dense(out) and out.shape == [*rows.shape, table.shape[1]]
        floating = table.dtype == out.dtype and table.dtype in SMALL_FLOATING | {"fp64"}
        return whole and floating and rows.dtype in ("int64", "int32") and out.numel > 0

    where = claim(card, fits, [index, "out"]) if all(tensor_of(v, weight) for v in card.variants) else None
    return None if where is None else Match({"index": index, "weight": weight}, where)


def match_pooling(card: OperatorCard) -> tuple[str, Match, list[str]] | None:
    """`adaptive_avg_pool2d` or `max_pool2d`, with the expressions of the window: kernel, stride, padding, dilation."""
    family = {"adaptiveavgpool2d": "adaptive_avg_pool2d", "maxpool2d": "max_pool2d"}.get(plain_name(card), "")
    names = tensor_names(card)
    if not family or len(names) != 1:
        return None
    (x,) = names
    window = _window(card.variants[0]) if family == "max_pool2d" else []

    def fits(variant: Variant) -> bool:
        source = tensor_of(variant, x)
        if len(variant.outputs) != 1 or not source or len(source.shape) not in (3, 4):
            return False
        if family == "max_pool2d" and _window(variant) != window:
            return False
        out = variant.outputs[0]
        whole = dense(source) and dense(out) and source.numel > 0 and out.numel > 0
        return whole and out.dtype == source.dtype and source.dtype in SMALL_FLOATING

    where = claim(card, fits, [x, "out"]) if window or family != "max_pool2d" else None
    return None if where is None else (family, Match({"x": x}, where), window)


def _window(variant: Variant) -> list[str]:
    found: list[str] = []
    for name in ("kernel_size", "stride", "padding", "dilation"):
        value = constant_of(variant, name)
        if name == "stride" and value in (None, []):
            found += found[:2]
        elif isinstance(value, list) and len(value) in (1, 2):
            found += [f"{name}[0]", f"{name}[{len(value) - 1}]"]
        elif isinstance(value, int):
            found += [name, name]
        else:
            return []
    return found


def match_residual_norm(card: OperatorCard) -> tuple[Match, bool, float] | None:
    """A row normalisation of the sum of two tensors; whether it is centred, and what is added to the weight.

    Names: `x`, `residual`, `weight`, `bias`, `eps`, `out` (the normalised sum) and `total` (the sum, if returned).
    """
    names = tensor_names(card)
    added = re.search(r"\+=?\s*(?:self\.)?residual|residual\s*\+", card.reference_source)
    named = re.search(r"add|residual|skip", plain_name(card))
    if not (added or named) or "norm" not in plain_name(card) or len(names) < 3:
        return None
    x = names[0]
    residual = next((name for name in names[1:] if re.search(r"residual|skip", name)), "")
    outputs = len(card.variants[0].outputs)
    if not residual or outputs not in (1, 2):
        return None
    inner = match_normalization_of(card, x, [name for name in names[1:] if name != residual])
    if inner is None:
        return None
    returned = re.search(r"return\s+([^\n,]+),\s*([^\n]+)", card.reference_source)
    sum_first = bool(returned and _is_sum(returned[1]) and not _is_sum(returned[2]))
    out, total = ("out", "") if outputs == 1 else (("out1", "out0") if sum_first else ("out0", "out1"))

    def fits(variant: Variant) -> bool:
        specs = [tensor_of(variant, name) for name in (x, residual)]
        if len(variant.outputs) != outputs or not all(_vectors(variant, [inner.weight, inner.bias], s) for s in (
            variant.outputs[0].shape[-1:] or [0]
        )):  # fmt: skip
            return False
        first = variant.outputs[0]
        same = [spec for spec in (*specs, *variant.outputs) if spec and _like(spec, first)]
        return len(same) == 2 + outputs and first.dtype in SMALL_FLOATING

    where = claim(card, fits, [x, residual, out])
    roles = {"x": x, "residual": residual, "weight": inner.weight, "bias": inner.bias, "eps": inner.eps}
    match = None if where is None else Match({**roles, "out": out, "total": total}, where)
    return match and (match, inner.centred, inner.weight_offset)


def _is_sum(returned: str) -> bool:
    """Whether what a function returns is the sum itself, by its name, rather than something made of it."""
    return re.fullmatch(r"\(?\w*(?:residual|sum|added|skip)\w*\)?", returned.strip()) is not None


def _floating_constant(card: OperatorCard, word: str) -> str:
    constants = (a for a in card.variants[0].arguments if a.kind == "constant" and isinstance(a.value, float))
    return next((argument.name for argument in constants if word in argument.name), "")


def _same_layout(variant: Variant, x: str) -> bool:
    """One output, as large as `x`, both contiguous and not empty."""
    source = tensor_of(variant, x)
    if source is None or len(variant.outputs) != 1:
        return False
    out = variant.outputs[0]
    whole = dense(source) and dense(out) and source.numel > 0
    return whole and source.shape == out.shape and out.dtype in SMALL_FLOATING


def _like(spec: TensorSpec, other: TensorSpec) -> bool:
    return spec.shape == other.shape and spec.dtype == other.dtype and spec.numel > 0 and dense(spec) and dense(other)


def _vectors(variant: Variant, names: Sequence[str] | object, length: int) -> bool:
    specs = [tensor_of(variant, name) for name in names if name]  # pyright: ignore
    return all(spec and spec.shape == [length] and dense(spec) and spec.dtype in SMALL_FLOATING for spec in specs)
