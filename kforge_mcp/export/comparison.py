"""Paired times inside the model as a verdict, by the judge's rule."""

from __future__ import annotations

import math
from statistics import median

from kforge_mcp.judge.statistics import Interval, Measured, joint_interval, verdict
from kforge_mcp.records.package import Comparison

Pairs = dict[str, list[tuple[float, float]]]
"""Pairs of times in microseconds, grouped so that only equal calls share a median."""


def compare(pairs: Pairs, *, null: Pairs, runs: int) -> Comparison:
    """Time without over time with, from `(without, with)` pairs, held against the noise of `null`, pairs of equal
    arrangements. `runs` is the number of runs behind the pairs; times in the answer are of one run.

    Neither may be empty.
    """
    interval = _joint(pairs)
    without = sum(len(group) * median(one for one, _ in group) for group in pairs.values()) / runs
    return Comparison(
        verdict=verdict(interval, _joint(null).reach),
        speedup=math.exp(interval.middle),
        ci_low=math.exp(interval.low),
        ci_high=math.exp(interval.high),
        eager_us=without,
        package_us=without / math.exp(interval.middle),
        pairs=sum(map(len, pairs.values())),
    )


def _joint(pairs: Pairs) -> Interval:
    return joint_interval(
        [
            Measured(
                calls=len(group),
                eager_s=median(one for one, _ in group) / 1e6,
                ratios=[math.log(one / two) for one, two in group],
            )
            for group in pairs.values()
        ]
    )
