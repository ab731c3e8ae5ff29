"""The starting kernels that fit a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict

from kforge_mcp.candidate.plan import Rejected, parse_plan
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target
from kforge_mcp.seeds.cuda import cuda_seeds
from kforge_mcp.seeds.matching import Normalization, Rotary, match_normalization, match_rotary
from kforge_mcp.seeds.seed import Seed, render

__all__ = ["Seed", "seeds_for"]


def seeds_for(card: OperatorCard, target: Target = "cpu") -> list[Seed]:
    """Seeds for a card on a target, the plainest first; empty if no family is recognised."""
    if not card.variants:
        return []
    found = cuda_seeds(card) if target == "cuda" else _cpu_seeds(card)
    return [seed for seed in found if not isinstance(parse_plan(seed.source, card, target), Rejected)]


def _cpu_seeds(card: OperatorCard) -> Iterator[Seed]:
    normalization = match_normalization(card)
    if normalization:
        yield from _normalization(normalization)
    rotary = match_rotary(card)
    if rotary:
        yield from _rotary(rotary)


def _normalization(match: Normalization) -> Iterator[Seed]:
    family = "layer_norm" if match.centred else "rms_norm"

    def factor(index: str) -> str:
        weight = f"{match.weight}_load(weight[{index}])"
        return f"({match.weight}_acc({match.weight_offset:g}) + {weight})" if match.weight_offset else weight

    values = {
        **asdict(match),
        "factor": factor("i"),
        "factor_j": factor("j"),
        "times_weight": f" * {factor('i')}" if match.weight else "",
        "plus_bias": f" + {match.bias}_load(bias[i])" if match.bias else "",
    }
    notes = {
        "simple": "one simd reduction a pass, rows over threads",
        "lanes": "LANES partial sums hide the latency of additions; PARALLEL_FROM elements on use threads",
    }
    for style, note in notes.items():
        yield Seed(f"{family}_{style}", family, render(f"{family}_{style}.cpp.j2", values), note)


def _rotary(match: Rotary) -> Iterator[Seed]:
    values = {**asdict(match), "H": match.heads, "P": match.positions}
    notes = {
        "simple": "one head's row at a time by strides, positions over threads",
        "fixed": "loops of fixed length for the usual head sizes; POSITIONS at a time, threads from PARALLEL_FROM on",
    }
    for style, note in notes.items():
        yield Seed(f"rotary_{style}", "rotary", render(f"rotary_{style}.cpp.j2", values), note)
