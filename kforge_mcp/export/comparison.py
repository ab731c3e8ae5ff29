"""Paired times inside the model as a verdict, by the judge's rule."""

from __future__ import annotations

import math
from statistics import median

from kforge_mcp.judge.statistics import median_interval, verdict_of
from kforge_mcp.records.package import Comparison

Pairs = dict[str, list[tuple[float, float]]]
"""Pairs of times in microseconds, grouped so that only equal calls share a median."""

CONFIDENCE = 0.99


def compare(pairs: Pairs, *, null: Pairs, runs: int) -> Comparison:
    """Time without over time with, from `(without, with)` pairs, held against the noise e of `null`, pairs of equal
    arrangements. `runs` is the number of runs behind the pairs; times in the answer are of one run.

    Raises `ValueError` if there are no pairs.
    """
    ratio, low, high = joint(pairs)
    _, null_low, null_high = joint(null)
    without = sum(_weight(group) for group in pairs.values()) / runs
    return Comparison(
        verdict=verdict_of(low, high, max(abs(null_low), abs(null_high))),
        speedup=math.exp(ratio),
        ci_low=math.exp(low),
        ci_high=math.exp(high),
        eager_us=without,
        package_us=without / math.exp(ratio),
        pairs=sum(map(len, pairs.values())),
    )


def joint(pairs: Pairs) -> tuple[float, float, float]:
    """ln(time without / time with) over all groups, with the ends of its 99 % interval.

    A group's ratio is the median over its pairs, with order-statistic ends; groups are weighted by their time without.
    The ends are taken together, each group's at 1 - 0.01 / groups (Bonferroni), so the joint confidence is at least 99 %.
    """
    confidence = 1 - (1 - CONFIDENCE) / max(len(pairs), 1)
    weights = [_weight(group) for group in pairs.values()]
    ratios = [[math.log(one / two) for one, two in group] for group in pairs.values()]
    ends = [median_interval(values, confidence) for values in ratios]
    points = [median(values) for values in ratios]
    return (
        _combined(weights, points),
        _combined(weights, [low for low, _ in ends]),
        _combined(weights, [high for _, high in ends]),
    )


def _combined(weights: list[float], ratios: list[float]) -> float:
    kept = sum(weight * math.exp(-ratio) for weight, ratio in zip(weights, ratios, strict=True))
    return math.log(sum(weights) / kept)


def _weight(group: list[tuple[float, float]]) -> float:
    return len(group) * median(one for one, _ in group)
