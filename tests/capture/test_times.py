"""Shares, medians and ceilings against arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_mcp.capture.times import gain_ceiling, merge_times


def _timing(labels: list[str], calls: list[list[int]], durations: list[list[float]], walls: list[float]) -> dict:
    return {"labels": labels, "calls": calls, "durations": durations, "observed_us": walls, "plain_us": walls}


def test_variants_get_the_median_of_their_own_calls():
    timing = _timing(["a"], [[0, -1]] * 3, [[10, 20, 40], [12, 22, 42], [11, 90, 41]], [100, 100, 200])
    times = merge_times(timing, [["a", "x", -1], ["a", "x", -1], ["a", "y", -1]])
    card = times.cards["a"]
    assert times.aligned
    assert times.workload_us == 100
    assert card.calls == 3
    assert card.variant_calls == {"x": 2, "y": 1}
    assert card.variant_us == {"x": (11 + 22) / 2, "y": 41}
    assert card.variant_fastest_us == {"x": 10, "y": 40}
    assert card.eager_us == 76
    assert card.share == 0.71
    assert sum(card.variant_share.values()) == pytest.approx(card.share)
    assert card.variant_share["x"] / card.variant_share["y"] == pytest.approx(33 / 41)


def test_a_disturbed_run_does_not_raise_a_variant_above_its_card():
    timing = _timing(["a"], [[0, -1]], [[50], [90], [50]], [100, 300, 50])
    card = merge_times(timing, [["a", "x", -1]]).cards["a"]
    assert card.share == 0.5
    assert card.variant_share == {"x": 0.5}


def test_a_call_inside_another_of_its_card_counts_once():
    timing = _timing(["a", "b"], [[0, -1], [1, 0], [0, 1]], [[60, 50, 40]], [100])
    times = merge_times(timing, [["a", "x", -1], ["b", "", 0], ["a", "x", 1]])
    assert times.cards["a"].eager_us == 60
    assert times.cards["a"].share == 0.6
    assert times.cards["a"].variant_share == {"x": 0.6}
    assert times.cards["a"].calls == 2
    assert times.cards["b"].share == 0.5


def test_passes_with_other_calls_fall_back_to_the_cards_mean():
    timing = _timing(["a"], [[0, -1], [0, -1]], [[10, 30]], [100])
    times = merge_times(timing, [["a", "x", -1], ["a", "y", -1], ["b", "z", -1]])
    assert not times.aligned
    assert times.cards["a"].variant_us == {"x": 20, "y": 20}
    assert times.cards["b"].calls == 0
    assert times.cards["b"].share == 0


def test_a_gpu_is_idle_where_no_kernel_of_any_call_runs():
    timing = _timing(["torch a"], [[0, -1]], [[30], [30]], [40, 40])
    timing |= {"plain_us": [200, 100, 300], "busy_us": [50, 50]}
    times = merge_times(timing, [["torch a", "x", -1]])
    assert times.workload_us == 200
    assert times.idle_share == pytest.approx(0.75)
    assert times.cards["torch a"].share == pytest.approx(0.75)


def test_gain_ceiling_is_amdahls_law():
    assert gain_ceiling([(0.5, 0.0, 10.0)]) == pytest.approx(2.0)
    assert gain_ceiling([(0.5, 5.0, 10.0)]) == pytest.approx(1 / 0.75)
    assert gain_ceiling([(0.2, 1.0, 10.0), (0.3, 20.0, 10.0)]) == pytest.approx(1 / (1 - 0.18))
    assert gain_ceiling([]) == 1.0


@given(st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 1e6), st.floats(0.001, 1e6)), max_size=3))
def test_gain_ceiling_is_finite_and_no_loss(parts):
    assert 1.0 <= gain_ceiling(parts) <= 1000.0


def test_own_shares_leave_out_what_cards_of_the_same_level_inside_take():
    labels = ["module m:Outer", "function m:f", "module m:Inner", "torch torch:mul"]
    calls = [[0, -1], [1, 0], [2, 1], [3, 2], [2, 0]]
    merged = merge_times(_timing(labels, calls, [[80.0, 50.0, 40.0, 30.0, 10.0]], [100.0]), _calls(labels, calls))
    shares = {label: (card.share, card.own_share) for label, card in merged.cards.items()}
    assert shares["module m:Outer"] == pytest.approx((0.8, 0.3))
    assert shares["module m:Inner"] == pytest.approx((0.5, 0.5))
    assert shares["function m:f"] == pytest.approx((0.5, 0.5))
    assert shares["torch torch:mul"] == pytest.approx((0.3, 0.3))
    assert merged.idle_share == pytest.approx(0.7)


def test_a_level_that_seems_longer_than_the_run_is_scaled_to_it():
    labels = ["torch torch:mul", "torch torch:add"]
    calls = [[0, -1], [1, -1]]
    merged = merge_times(_timing(labels, calls, [[90.0, 60.0]], [100.0]), _calls(labels, calls))
    assert [card.own_share for card in merged.cards.values()] == pytest.approx([0.6, 0.4])
    assert merged.cards["torch torch:mul"].variant_share["k"] == pytest.approx(0.6)
    assert merged.idle_share == pytest.approx(0.0)


def _calls(labels: list[str], calls: list[list[int]]) -> list[list[object]]:
    return [[labels[label], "k", parent] for label, parent in calls]
