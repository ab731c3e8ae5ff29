"""Pure statistics of the judge. Ratios are natural logs of eager's time over the candidate's: positive is faster."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from kforge_mcp.records.result import VerdictWord

CONFIDENCE = 0.99
LEAST_GAIN = math.log(1.02)
"""No claim is made on less than two percent, however small the noise."""


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval of a log ratio."""

    low: float
    middle: float
    high: float

    @property
    def reach(self) -> float:
        """The largest absolute value inside: e, where eager is measured against itself."""
        return max(abs(self.low), abs(self.high))


@dataclass(frozen=True)
class Measured:
    """One variant's part in a card's figure: calls per run of the workload, eager's time in seconds, log ratios."""

    calls: int
    eager_s: float
    ratios: Sequence[float]


@functools.cache
def ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Ranks (from 1) of the order statistics that enclose the median with at least this confidence; None if too few.

    Distribution-free: the number of values below the median is binomial with p = 1/2 (David and Nagaraja, Order
    Statistics, section 7.1). 60 values and 99 % give ranks 20 and 41.
    """
    allowed = (1 - confidence) / 2
    tail, best = 0.0, 0
    for below in range(count // 2):
        tail += math.comb(count, below) / 2**count
        if tail > allowed:
            break
        best = below + 1
    return (best, count + 1 - best) if best else None


def median_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The median with its order-statistic interval; the whole range where there are too few values for one."""
    ordered = sorted(values)
    low, high = ranks(len(ordered), confidence) or (1, len(ordered))
    return Interval(ordered[low - 1], statistics.median(ordered), ordered[high - 1])


def threshold(noise: float) -> float:
    """What a log ratio must exceed to be called a difference; `noise` is e of the A/A run."""
    return max(2 * noise, LEAST_GAIN)


def verdict(interval: Interval, noise: float) -> VerdictWord:
    """`faster` if the lower end exceeds the threshold, `slower` if the upper end is below its negative."""
    bound = threshold(noise)
    if interval.low > bound:
        return "faster"
    return "slower" if interval.high < -bound else "no_difference_shown"


def joint_interval(parts: Sequence[Measured], confidence: float = CONFIDENCE) -> Interval:
    """The card's log speed-up, `ln(sum(calls t_eager) / sum(calls t_candidate))`, over its measured variants.

    Conservative: each variant's interval is widened so that all hold at once (Bonferroni), and their ends are
    combined; eager's medians are the weights. One variant gives its own interval.
    """
    each = 1 - (1 - confidence) / len(parts)
    intervals = [median_interval(part.ratios, each) for part in parts]
    total = sum(part.calls * part.eager_s for part in parts)

    def combined(ratios: Sequence[float]) -> float:
        spent = sum(p.calls * p.eager_s * math.exp(-r) for p, r in zip(parts, ratios, strict=True))
        return math.log(total / spent)

    return Interval(
        combined([interval.low for interval in intervals]),
        combined([interval.middle for interval in intervals]),
        combined([interval.high for interval in intervals]),
    )


def mean_interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval:
    """The mean with its t interval; needs two values or more."""
    from scipy import stats

    mean = statistics.fmean(values)
    half = float(stats.t.ppf((1 + confidence) / 2, len(values) - 1)) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean - half, mean, mean + half)


def p_value_above(values: Sequence[float], bound: float) -> float:
    """One-sided t test of H0: the mean is at most `bound`."""
    from scipy import stats

    mean, spread = statistics.fmean(values), statistics.stdev(values)
    if spread == 0:
        return 0.0 if mean > bound else 1.0
    t = (mean - bound) / (spread / math.sqrt(len(values)))
    return float(stats.t.sf(t, len(values) - 1))


def holm(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Which hypotheses are rejected so that the chance of any false rejection is at most `alpha` (Holm, 1979)."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    rejected = [False] * len(p_values)
    for step, index in enumerate(order):
        if p_values[index] > alpha / (len(p_values) - step):
            break
        rejected[index] = True
    return rejected
