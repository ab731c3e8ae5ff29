"""Paired times inside the model as a verdict, by the judge's rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from kforge_mcp.judge.statistics import median_interval, noise_floor, verdict_of
from kforge_mcp.records.package import Comparison


def compare(
    without_us: Sequence[float], with_us: Sequence[float], *, null: Sequence[tuple[float, float]]
) -> Comparison:
    """Median of ln(without / with) with its order-statistic interval, held against the noise of `null`, pairs of
    equal arrangements from the same rounds. Times in microseconds."""
    ratios = [math.log(one / two) for one, two in zip(without_us, with_us, strict=True)]
    low, high = median_interval(ratios)
    floor = noise_floor([math.log(one / two) for one, two in null])
    return Comparison(
        verdict=verdict_of(low, high, floor),
        speedup=math.exp(median(ratios)),
        ci_low=math.exp(low),
        ci_high=math.exp(high),
        eager_us=median(without_us),
        package_us=median(with_us),
        pairs=len(ratios),
    )
