"""Seeds for CUDA: which templates a card's family has, and the values that fill them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.seeds.activations import Activation
from kforge_mcp.seeds.families import (
    GatedMatch,
    Match,
    match_activation,
    match_batch_norm,
    match_embedding,
    match_gated,
    match_group_norm,
    match_pooling,
    match_residual_norm,
    match_softmax,
)
from kforge_mcp.seeds.matching import Rotary, match_normalization, match_rotary
from kforge_mcp.seeds.seed import Seed, render

_SHORT = "rows of one block share its warps; THREADS threads a row, KEEP 16-byte packs of it in registers"
_LONG = "one block for each row, KEEP 16-byte packs a thread in registers, the rest read again from the cache"
_STYLES = {
    "rows": {"threads": "[8, 32]", "keep": "[1, 4]", "rows": "256 / THREADS", "note": _SHORT},
    "block": {"threads": "[128, 256, 512]", "keep": "[1, 4]", "rows": "1", "note": _LONG},
}
"""The two ways to spread rows over threads. `rows` is read as C++ and as a size expression: it divides exactly."""


def cuda_seeds(card: OperatorCard) -> Iterator[Seed]:
    """Seeds for a card, not yet checked against it; the card has variants."""
    residual = match_residual_norm(card)
    normalization = None if residual else match_normalization(card)
    if residual:
        match, centred, offset = residual
        yield from _row_norm("residual_", match.names, match.where, centred, offset)
    if normalization:
        names = {**asdict(normalization), "residual": "", "total": "", "out": "out"}
        yield from _row_norm("", names, normalization.where, normalization.centred, normalization.weight_offset)
    if softmax := match_softmax(card):
        for style, values in _STYLES.items():
            yield _seed(f"softmax_{style}", "softmax", "softmax", softmax, {**values, "residual": ""})
    if group := match_group_norm(card):
        yield from _group_norm(group)
    if batch := match_batch_norm(card):
        x = batch.names["x"]
        plane = f"{x}.numel // ({x}.shape[0] * {x}.shape[1])"
        note = "one factor and one offset for each channel; THREADS threads a block walk over a plane"
        yield _seed("batch_norm_planes", "batch_norm", "batch_norm", batch, {"plane": plane, "note": note})
    if (rotary := match_rotary(card)) is not None:
        yield _rotary(rotary)
    if pointwise := match_activation(card):
        yield _activation(*pointwise, inplace=bool(card.mutates))
    if gated := match_gated(card):
        yield _gated(gated)
    if embedding := match_embedding(card):
        note = "rows copied in 16-byte pieces by THREADS threads each"
        yield _seed("embedding_rows", "embedding", "embedding", embedding, {"note": note})
    if pooling := match_pooling(card):
        family, match, window = pooling
        style = "lanes" if family == "adaptive_avg_pool2d" else "windows"
        note = (
            "THREADS threads add up a window" if style == "lanes" else "EACH results a thread, THREADS threads a block"
        )
        yield _seed(f"{family}_{style}", family, family, match, {"window": window, "note": note})


def _seed(name: str, family: str, template: str, match: Match, values: dict[str, object] | dict[str, str]) -> Seed:
    filled = {**match.names, "where": match.where, "name": name, **values}
    return Seed(name, family, render(f"cuda/{template}.cu.j2", filled), str(values["note"]))


def _row_norm(prefix: str, names: dict[str, object] | dict[str, str], where: str, centred: bool, offset: float):
    family = f"{prefix}{'layer' if centred else 'rms'}_norm"
    for style, values in _STYLES.items():
        filled = {**names, **values, "where": where, "centred": centred, "weight_offset": offset}
        source = render("cuda/row_norm.cu.j2", {**filled, "name": f"{family}_{style}"})
        yield Seed(f"{family}_{style}", family, source, values["note"])


def _group_norm(match: Match) -> Iterator[Seed]:
    note = "one block of THREADS for each group; for groups that fit the cache"
    yield _seed("group_norm_block", "group_norm", "group_norm_block", match, {"note": note})
    x, groups = match.names["x"], match.names["groups"]
    size = f"{x}.numel // ({x}.shape[0] * {groups})"
    values: dict[str, object] = {
        "note": "two kernels: up to SPLIT blocks a group add up and leave their sums in a workspace, then apply",
        "size": size,
        "split": f"max(1, min(SPLIT, {size} // 4096))",
    }
    yield _seed("group_norm_split", "group_norm", "group_norm_split", match, values)


def _rotary(match: Rotary) -> Seed:
    values: dict[str, object] = {**asdict(match), "H": match.heads, "P": match.positions}
    note = "a block for each position turns all heads of queries and keys, 16 bytes at a time"
    return Seed("rotary_positions", "rotary", render("cuda/rotary.cu.j2", values), note)


def _activation(activation: Activation, match: Match, *, inplace: bool) -> Seed:
    x = match.names["x"]
    values: dict[str, object] = {
        "note": "UNROLL packs of 16 bytes a thread, all asked for before the first is used",
        "grid": f"max(1, ceil_div({x}.numel, THREADS * UNROLL * (16 // {x}.itemsize)))",
        "formula": activation.formula,
        "constants": activation.constants,
        "inplace": inplace,
        "out": x if inplace else "out",
    }
    return _seed(f"{activation.name}_packs", "activation", "activation", match, values)


def _gated(match: GatedMatch) -> Seed:
    values: dict[str, object] = {
        **asdict(match),
        "act": match.activation.name,
        "formula": match.activation.formula,
        "note": "EACH packs of 16 bytes a thread: act(gate) * up in one pass",
        "before": [],
        "after": [],
        "out": "out",
        "count": "out.numel",
    }
    name = f"gated_{match.activation.name}_{'halves' if match.halves else 'pair'}"
    if match.projections:
        x, gate, up, down = match.projections
        name = f"gated_{match.activation.name}_mlp"
        values |= {
            "note": "the vendor's matrix products with act(gate) * up in one pass between them, over the gate's memory",
            "gate": "gated",
            "up": "raised",
            "out": "gated",
            "count": "gated.numel",
            "before": [(x, gate, "gated"), (x, up, "raised")],
            "after": [("gated", down, "out")],
        }
    return Seed(name, "gated_activation", render("cuda/gated.cu.j2", values), str(values["note"]))
