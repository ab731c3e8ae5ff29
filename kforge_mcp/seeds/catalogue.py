"""The starting kernels that fit a card."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from kforge_mcp.candidate.plan import Rejected, parse_plan
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.seeds.matching import Normalization, Rotary, match_normalization, match_rotary

_TEMPLATES = Environment(
    loader=PackageLoader("kforge_mcp.seeds"),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
    autoescape=False,  # C++ source, not markup
)


@dataclass(frozen=True)
class Seed:
    """A candidate to begin a search with."""

    name: str
    family: str
    """`rms_norm`, `layer_norm` or `rotary`."""
    source: str
    note: str
    """What it does and what its tunables change, in a sentence."""


def seeds_for(card: OperatorCard) -> list[Seed]:
    """Seeds for a card's CPU target, the plainest first; empty if no family is recognised."""
    if not card.variants:
        return []
    found: list[Seed] = []
    normalization = match_normalization(card)
    if normalization:
        found += _normalization(normalization)
    rotary = match_rotary(card)
    if rotary:
        found += _rotary(rotary)
    return [seed for seed in found if not isinstance(parse_plan(seed.source, card, "cpu"), Rejected)]


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
        yield Seed(f"{family}_{style}", family, _render(f"{family}_{style}", values), note)


def _rotary(match: Rotary) -> Iterator[Seed]:
    values = {**asdict(match), "H": match.heads, "P": match.positions}
    notes = {
        "simple": "one head's row at a time by strides, positions over threads",
        "fixed": "loops of fixed length for the usual head sizes; POSITIONS at a time, threads from PARALLEL_FROM on",
    }
    for style, note in notes.items():
        yield Seed(f"rotary_{style}", "rotary", _render(f"rotary_{style}", values), note)


def _render(name: str, values: dict[str, object]) -> str:
    return _TEMPLATES.get_template(f"{name}.cpp.j2").render(values)
