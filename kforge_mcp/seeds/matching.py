"""Recognises the operator family of a card from its structure, its name and its reference source."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from kforge_mcp.candidate.scope import output_names
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import FLOATING, TensorSpec
from kforge_mcp.records.variant import Variant

CPU_FLOATING = FLOATING - {"fp8_e4m3", "fp8_e5m2"}


@dataclass(frozen=True)
class Normalization:
    """A normalisation of the last axis. Names are the card's; empty where the card has no such argument."""

    x: str
    weight: str
    bias: str
    eps: str
    weight_offset: float
    """Added to the weight before use: 1 in Gemma's RMSNorm."""
    centred: bool
    """True for LayerNorm, False for RMSNorm."""
    where: str


@dataclass(frozen=True)
class Rotary:
    """A rotary embedding of queries and keys of four axes; `heads` and `positions` say which axes these are."""

    q: str
    k: str
    cos: str
    sin: str
    heads: int
    positions: int
    where: str


def match_normalization(card: OperatorCard) -> Normalization | None:
    """The card as RMSNorm or LayerNorm over the last axis, or None."""
    tensors = [argument.name for argument in card.variants[0].arguments if argument.kind == "tensor"]
    if not tensors or len(card.variants[0].outputs) != 1:
        return None
    x, rest = tensors[0], tensors[1:]
    found = match_normalization_of(card, x, rest)
    if found is None:
        return None
    ranks = _ranks(card, lambda variant: _normalizes(variant, x, rest))
    if not ranks:
        return None
    where = "" if all(_normalizes(v, x, rest) for v in card.variants) else dense_clause([x, "out"], ranks)
    return replace(found, where=where)


def match_normalization_of(card: OperatorCard, x: str, rest: list[str]) -> Normalization | None:
    """The names of a normalisation of `x` whose other tensors are `rest`, whatever their shapes, or None."""
    kind = _normalization_kind(card)
    if not kind:
        return None
    bias = next((name for name in rest if re.search(r"bias|beta|shift", name)), "")
    weight = next((name for name in rest if name != bias), "")
    constants = (a for a in card.variants[0].arguments if a.kind == "constant")
    eps = next((argument.name for argument in constants if isinstance(argument.value, float)), "")
    centred = kind == "layer"
    if not eps or {weight, bias} - {""} != set(rest) or (not centred and (bias or not weight)):
        return None
    offset = (
        1.0
        if re.search(r"\b1(?:\.0)?\s*\+\s*self\.weight|self\.weight(?:\.\w+\(\))?\s*\+\s*1", card.reference_source)
        else 0.0
    )
    return Normalization(x, weight, bias, eps, offset, centred, "")


def _normalization_kind(card: OperatorCard) -> str:
    name = re.sub(r"[^a-z]", "", card.name.rpartition(".")[2].lower())
    source = card.reference_source
    if "rmsnorm" in name or (
        re.search(r"pow\(2\)\s*\.mean\(", source) and not re.search(r"layer_norm|- *mean", source)
    ):
        return "rms"
    return "layer" if "layernorm" in name else ""


def _normalizes(variant: Variant, x: str, vectors: list[str]) -> bool:
    source = tensor_of(variant, x)
    if source is None or not source.shape or not source.numel or not dense(source) or not dense(variant.outputs[0]):
        return False
    specs = [tensor_of(variant, name) for name in vectors]
    columns = source.shape[-1]
    sized = all(spec and spec.shape == [columns] and (dense(spec)) for spec in specs)
    dtypes = {spec.dtype for spec in (source, *specs, variant.outputs[0]) if spec}
    lists = [a.value for a in variant.arguments if a.kind == "constant" and isinstance(a.value, list)]
    wide = "fp64" in dtypes and len(dtypes) > 1
    return sized and dtypes <= CPU_FLOATING and not wide and all(one == [columns] for one in lists)


def match_rotary(card: OperatorCard) -> Rotary | None:
    """The card as a rotary embedding of `q` and `k` by halves, or None."""
    if "rotary" not in card.name.lower() and "rotate_half" not in card.reference_source:
        return None
    first = card.variants[0]
    names = [argument.name for argument in first.arguments if argument.kind == "tensor"]
    cos = next((name for name in names if name.startswith("cos")), "")
    sin = next((name for name in names if name.startswith("sin")), "")
    others = [name for name in names if name not in (cos, sin)]
    if not cos or not sin or len(others) < 2 or len(first.outputs) != 2:
        return None
    axis = first.argument("unsqueeze_dim")
    heads = axis.value if axis and axis.value in (1, 2) else 1
    assert isinstance(heads, int)
    rotary = Rotary(others[0], others[1], cos, sin, heads, 3 - heads, "")
    if not any(_rotates(variant, rotary) for variant in card.variants):
        return None
    clauses = [f"{name}.ndim == 4 and {name}.stride[3] == 1" for name in (rotary.q, rotary.k, "out0", "out1")]
    clauses += [f"{name}.ndim == 3 and {name}.stride[2] == 1" for name in (cos, sin)]
    clauses.append(f"{rotary.q}.shape[3] % 2 == 0 and {cos}.shape[2] == {rotary.q}.shape[3]")
    if axis and axis.kind == "constant":
        clauses.append(f"unsqueeze_dim == {heads}")
    dtypes = {(tensor_of(v, rotary.q) or v.outputs[0]).dtype for v in card.variants if not _rotates(v, rotary)}
    clauses += [f'{rotary.q}.dtype != "{dtype}"' for dtype in sorted(dtypes - CPU_FLOATING)]
    return Rotary(rotary.q, rotary.k, cos, sin, heads, 3 - heads, " and ".join(clauses))


def _rotates(variant: Variant, rotary: Rotary) -> bool:
    q, k, cos, sin = (tensor_of(variant, name) for name in (rotary.q, rotary.k, rotary.cos, rotary.sin))
    if not (q and k and cos and sin) or len(output_names(variant)) != 2:
        return False
    rows = (q, k, cos, sin, *variant.outputs)
    return (
        len(q.shape) == len(k.shape) == 4
        and len(cos.shape) == len(sin.shape) == 3
        and all(spec.numel and spec.stride[-1] == 1 for spec in rows)
        and q.dtype in CPU_FLOATING
        and {k.dtype, *(output.dtype for output in variant.outputs)} == {q.dtype}
        and cos.dtype == sin.dtype
        and (cos.dtype == q.dtype or "fp64" not in (cos.dtype, q.dtype))
        and cos.shape[2] == q.shape[3] == k.shape[3]
        and cos.shape[1] == q.shape[rotary.positions]
        and q.shape[3] % 2 == 0
    )


def tensor_of(variant: Variant, name: str) -> TensorSpec | None:
    """The tensor behind an argument, or None if that is no tensor in this variant."""
    argument = variant.argument(name)
    return variant.tensors[argument.tensors[0]] if argument and argument.kind == "tensor" else None


def dense(spec: TensorSpec) -> bool:
    """Whether a tensor is contiguous, row by row."""
    expected = 1
    for size, step in zip(reversed(spec.shape), reversed(spec.stride), strict=True):
        if size != 1 and step != expected:
            return False
        expected *= size
    return True


def _ranks(card: OperatorCard, fits: Callable[[Variant], bool]) -> list[int]:
    return sorted({len(variant.outputs[0].shape) for variant in card.variants if fits(variant)})


def dense_clause(names: list[str], ranks: list[int]) -> str:
    """A condition that tensors of one of these ranks are contiguous and not empty."""
    choices: list[str] = []
    for rank in ranks:
        parts = [f"{names[0]}.ndim == {rank}", f"{names[0]}.numel > 0"]
        for name in names:
            for axis in range(rank):
                inner = " * ".join(f"{name}.shape[{other}]" for other in range(axis + 1, rank)) or "1"
                parts.append(f"({name}.shape[{axis}] == 1 or {name}.stride[{axis}] == {inner})")
        choices.append(" and ".join(parts))
    return choices[0] if len(choices) == 1 else " or ".join(f"({choice})" for choice in choices)
