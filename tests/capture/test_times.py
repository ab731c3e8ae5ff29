"""Shares, medians and ceilings against arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_mcp.capture.times import gain_ceiling, merge_times, saved_share, savings


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


def _ceiling(parts: list[tuple[float, float, float]]) -> float:
    return gain_ceiling(sum(saved_share(*part) for part in parts))


def test_gain_ceiling_is_amdahls_law():
    assert _ceiling([(0.5, 0.0, 10.0)]) == pytest.approx(2.0)
    assert _ceiling([(0.5, 5.0, 10.0)]) == pytest.approx(1 / 0.75)
    assert _ceiling([(0.2, 1.0, 10.0), (0.3, 20.0, 10.0)]) == pytest.approx(1 / (1 - 0.18))
    assert _ceiling([]) == 1.0


@given(st.lists(st.tuples(st.floats(0, 0.3), st.floats(0, 1e6), st.floats(0.001, 1e6)), max_size=3))
def test_gain_ceiling_is_finite_and_no_loss(parts):
    assert 1.0 <= _ceiling(parts) <= 1000.0


def test_what_contains_a_card_saves_no_less_than_that_card():
    calls = [
        ("a", 0.3, -1),
        ("b", 0.1, 0),
        ("c", 0.2, 1),
        ("c", 0.2, 0),
        ("d", 0.05, -1),
        ("e", None, -1),
        ("b", 0.2, 5),
    ]
    assert savings(calls) == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.4, "d": 0.05})


def test_calls_of_a_card_inside_each_other_save_once():
    assert savings([("a", 0.3, -1), ("b", 0.2, 0), ("a", 0.1, 1)]) == pytest.approx({"a": 0.3, "b": 0.2})
    assert savings([("a", None, -1), ("a", 0.1, 0)]) == pytest.approx({"a": 0.1})


def test_operators_that_seem_longer_than_what_contains_them_are_fitted_into_it():
    labels = ["module m:A", "torch torch:mul", "torch torch:add", "module m:B"]
    calls = [[0, -1], [1, 0], [2, 0], [3, -1]]
    merged = merge_times(_timing(labels, calls, [[40.0, 45.0, 15.0, 50.0]], [100.0]), _calls(labels, calls))
    shares = {label: card.share for label, card in merged.cards.items()}
    assert shares == pytest.approx(
        {"module m:A": 0.4, "torch torch:mul": 0.3, "torch torch:add": 0.1, "module m:B": 0.5}
    )
    assert merged.call_us == pytest.approx([40, 30, 10, 50])
    assert [card.eager_us for card in merged.cards.values()] == pytest.approx([40, 30, 10, 50])


@st.composite
def _timed_trees(draw):
    count = draw(st.integers(1, 12))
    parents = [draw(st.integers(-1, index - 1)) for index in range(count)]
    kinds = st.sampled_from(["torch t:a", "torch t:b", "function f:a", "module m:a", "module m:b"])
    labels = [draw(kinds) for _ in range(count)]
    times = st.floats(0.1, 1000.0)
    runs = draw(st.lists(st.lists(times, min_size=count, max_size=count), min_size=1, max_size=4))
    walls = [draw(times) for _ in runs]
    return labels, parents, runs, walls


@given(_timed_trees())
def test_shares_fit_into_one_another_whatever_was_timed(tree):
    labels, parents, runs, walls = tree
    names = list(dict.fromkeys(labels))
    calls = [[names.index(label), parent] for label, parent in zip(labels, parents, strict=True)]
    merged = merge_times(_timing(names, calls, runs, walls), _calls(names, calls))
    for index in range(-1, len(labels)):
        inside = sum(us for us, parent in zip(merged.call_us, parents, strict=True) if parent == index)
        assert inside <= (merged.call_us[index] if index >= 0 else merged.observed_us) * (1 + 1e-9)
    for level in ("torch", "function", "module"):
        assert sum(card.own_share for label, card in merged.cards.items() if label.startswith(level)) <= 1 + 1e-9
    for card in merged.cards.values():
        assert card.own_share <= card.share + 1e-9 <= 1 + 2e-9
        assert sum(card.variant_share.values()) == pytest.approx(card.share)


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
