"""Intervals, thresholds and tests, against exact values and small simulations (larger ones in benchmarks/)."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_mcp.judge.statistics import (
    LEAST_GAIN,
    Interval,
    Measured,
    holm,
    joint_interval,
    mean_interval,
    median_interval,
    p_value_above,
    ranks,
    threshold,
    verdict,
)


def test_sixty_pairs_use_ranks_20_and_41() -> None:
    assert ranks(60) == (20, 41)


def test_sixteen_pairs_use_ranks_3_and_14() -> None:
    assert ranks(16) == (3, 14)


@given(st.integers(1, 200), st.sampled_from([0.9, 0.99, 0.999]))
def test_ranks_have_the_confidence_they_claim_and_no_narrower_ones_do(count: int, confidence: float) -> None:
    def coverage(low: int) -> float:
        inside = sum(math.comb(count, below) for below in range(low, count - low + 1))
        return inside / 2**count

    found = ranks(count, confidence)
    if found is None:
        assert coverage(1) < confidence + 1e-12
        return
    low, high = found
    assert low + high == count + 1
    assert coverage(low) >= confidence - 1e-12
    if low + 1 <= count // 2:
        assert coverage(low + 1) < confidence


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=100))
def test_an_interval_holds_its_median(values: list[float]) -> None:
    interval = median_interval(values)
    assert interval.low <= interval.middle <= interval.high


def test_the_threshold_is_twice_the_noise_and_never_below_two_percent() -> None:
    assert threshold(0.05) == 0.1
    assert threshold(0.0) == LEAST_GAIN == pytest.approx(math.log(1.02))


@pytest.mark.parametrize(
    ("interval", "noise", "word"),
    [
        (Interval(0.05, 0.1, 0.2), 0.01, "faster"),
        (Interval(0.05, 0.1, 0.2), 0.03, "no_difference_shown"),
        (Interval(0.01, 0.1, 0.2), 0.0, "no_difference_shown"),
        (Interval(-0.2, -0.1, -0.05), 0.01, "slower"),
        (Interval(-0.2, -0.1, 0.05), 0.01, "no_difference_shown"),
    ],
)
def test_verdicts(interval: Interval, noise: float, word: str) -> None:
    assert verdict(interval, noise) == word


def test_the_joint_interval_of_one_variant_is_its_own() -> None:
    ratios = [0.01 * i for i in range(60)]
    joint, own = joint_interval([Measured(7, 1e-3, ratios)]), median_interval(ratios)
    assert joint.low == pytest.approx(own.low) and joint.high == pytest.approx(own.high)


def test_the_joint_figure_weighs_by_time() -> None:
    fast, same = [math.log(2)] * 60, [0.0] * 60
    joint = joint_interval([Measured(10, 3e-3, fast), Measured(10, 1e-3, same)])
    assert math.exp(joint.middle) == pytest.approx(4 / 2.5)


def test_the_joint_interval_covers_the_truth_at_its_nominal_rate() -> None:
    dice = random.Random(5)
    truths = (0.3, 0.1, 0.5)
    spent = sum(math.exp(-truth) for truth in truths)
    truth = math.log(3 / spent)
    missed = 0
    for _ in range(400):
        parts = [Measured(1, 1.0, [t + dice.gauss(0, 0.1) for _ in range(60)]) for t in truths]
        interval = joint_interval(parts)
        missed += not interval.low <= truth <= interval.high
    assert missed <= 4


def test_equal_candidates_are_rarely_called_faster() -> None:
    dice = random.Random(6)
    claimed = 0
    for _ in range(500):
        null = median_interval([dice.gauss(0, 0.02) for _ in range(60)])
        interval = median_interval([dice.gauss(0, 0.02) for _ in range(60)])
        claimed += verdict(interval, null.reach) != "no_difference_shown"
    assert claimed == 0


def test_the_t_test_of_the_holdout() -> None:
    values = [0.30, 0.32, 0.31, 0.29, 0.33, 0.30, 0.31, 0.30]
    assert p_value_above(values, 0.02) < 1e-8
    assert p_value_above(values, 0.3075) == pytest.approx(0.5, abs=1e-9)
    assert p_value_above(values, 0.5) > 0.999
    assert p_value_above([0.1, 0.1], 0.05) == 0.0 and p_value_above([0.1, 0.1], 0.2) == 1.0


def test_the_t_interval() -> None:
    interval = mean_interval([1.0, 2.0, 3.0])
    assert interval.middle == 2.0
    assert interval.high - 2.0 == pytest.approx(9.9248 / math.sqrt(3), rel=1e-4)


def test_holm_steps_down() -> None:
    assert holm([0.001, 0.004, 0.6], 0.01) == [True, True, False]
    assert holm([0.004, 0.004, 0.004], 0.01) == [False, False, False]
    assert holm([0.003, 0.0051], 0.01) == [True, True]
    assert holm([], 0.01) == []


@given(st.lists(st.floats(0, 1), max_size=20))
def test_holm_rejects_no_more_than_each_test_alone_and_no_less_than_bonferroni(p_values: list[float]) -> None:
    for p, rejected in zip(p_values, holm(p_values, 0.01), strict=True):
        if rejected:
            assert p <= 0.01
        if p <= 0.01 / len(p_values):
            assert rejected
