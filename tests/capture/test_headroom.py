"""What own kernels could save, on constructed workloads whose sums can be done by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_mcp.capture.headroom import TimedCall, headrooms

Tree = tuple[TimedCall, Sequence[Any]]
WORKLOAD_US = 1000.0
CHEAPEST_US = 2.0
"""The time of the cheapest operator below; no kernel's call is taken to cost less."""


def operator(name: str, us: float, light_us: float | None = 0.0, *, product: bool = False) -> Tree:
    return TimedCall(f"torch torch:{name}", us, -1, light_us, is_product=product), ()


def module(name: str, us: float, light_us: float | None, *inside: Tree, level: str = "module") -> Tree:
    return TimedCall(f"{level} m:{name}", us, -1, light_us), inside


def flat(trees: Sequence[Tree]) -> list[TimedCall]:
    """The calls of the trees in the order of a run, each with the index of what encloses it."""
    calls: list[TimedCall] = []

    def add(tree: Tree, parent: int) -> None:
        call, inside = tree
        place = len(calls)
        calls.append(replace(call, parent=parent))
        for part in inside:
            add(part, place)

    for tree in trees:
        add(tree, -1)
    return calls


def saved_us(*trees: Tree) -> dict[str, float]:
    """Microseconds by name, of a run of 1000 us in which the cheapest operator takes 2 us."""
    rooms = headrooms(flat([*trees, operator("tiny", CHEAPEST_US)]), WORKLOAD_US)
    return {label.partition(":")[2]: room * WORKLOAD_US for label, room in rooms.items()}


def norm(us: float = 110.0, light_us: float | None = 20.0) -> Tree:
    return module("Norm", us, light_us, operator("pow", 40.0, 15.0), operator("mul", 60.0, 20.0))


def test_an_operator_saves_what_lies_between_eager_and_the_speed_of_light_and_a_call():
    assert saved_us(operator("mul", 60.0, 20.0))["mul"] == pytest.approx(60 - 20 - CHEAPEST_US)
    assert saved_us(operator("mul", 60.0, None))["mul"] == 0.0
    assert saved_us(operator("mul", 60.0, 61.0))["mul"] == 0.0


def test_a_product_near_the_peak_rate_stays_with_the_vendor_and_one_far_from_it_does_not():
    assert saved_us(operator("linear", 500.0, 200.0, product=True))["linear"] == 0.0
    # At a quarter of the peak rate 500 us become 4 x 25.
    assert saved_us(operator("linear", 500.0, 25.0, product=True))["linear"] == pytest.approx(500 - 100 - CHEAPEST_US)


def test_a_product_that_was_near_the_peak_rate_once_stays_with_the_vendor():
    disturbed = TimedCall("torch torch:linear", 500.0, -1, 25.0, fastest_us=90.0, is_product=True)
    assert saved_us((disturbed, ()))["linear"] == 0.0
    slow = replace(disturbed, fastest_us=110.0)
    assert saved_us((slow, ()))["linear"] == pytest.approx(500 - 100 - CHEAPEST_US)


def test_what_one_kernel_can_do_whole_claims_the_operators_inside():
    saved = saved_us(norm(), operator("mul", 50.0, 10.0))
    assert saved["Norm"] == pytest.approx(110 - 20 - CHEAPEST_US)
    assert saved["pow"] == 0.0
    assert saved["mul"] == pytest.approx(50 - 10 - CHEAPEST_US)


def test_operators_inside_what_stays_eager_count_themselves():
    saved = saved_us(norm(light_us=None))
    assert saved["Norm"] == 0.0
    assert saved["pow"] == pytest.approx(40 - 15 - CHEAPEST_US)
    assert saved["mul"] == pytest.approx(60 - 20 - CHEAPEST_US)


def test_a_whole_within_a_whole_is_claimed_by_the_outer():
    inner = module("half", 30.0, 5.0, operator("neg", 12.0, 4.0), operator("cat", 15.0, 5.0), level="function")
    saved = saved_us(module("rotary", 60.0, 10.0, inner, operator("mul", 25.0, 8.0), level="function"))
    assert saved["rotary"] == pytest.approx(60 - 10 - CHEAPEST_US)
    assert saved["half"] == saved["cat"] == saved["mul"] == 0.0


def test_a_module_that_is_one_operator_saves_what_the_operator_does():
    layer_norm = operator("layer_norm", 50.0, 10.0)
    saved = saved_us(module("LayerNorm", 58.0, 10.0, layer_norm))
    assert saved["LayerNorm"] == saved["layer_norm"] == pytest.approx(50 - 10 - CHEAPEST_US)
    linear = module("Linear", 530.0, 200.0, operator("linear", 500.0, 200.0, product=True))
    assert saved_us(linear)["Linear"] == 0.0


def test_an_operator_takes_no_longer_than_what_calls_it():
    saved = saved_us(module("Embedding", 40.0, 10.0, operator("embedding", 200.0, 10.0)))
    assert saved["Embedding"] == saved["embedding"] == pytest.approx(40 - 10 - CHEAPEST_US)


def test_a_container_counts_what_it_adds_to_its_parts():
    """A gated MLP of 700 us: products of 600, an activation of 50 that needs 20, a product of two tensors of 40 that
    needs 25. As a whole all of the 90 could go but one call; alone the parts save 28 and 13."""
    saved = saved_us(
        module(
            "MLP", 690.0, 200.0,
            operator("linear", 600.0, 190.0, product=True), operator("silu", 50.0, 20.0), operator("mul", 40.0, 25.0),
        )
    )  # fmt: skip
    assert saved["silu"] == pytest.approx(28)
    assert saved["mul"] == pytest.approx(13)
    assert saved["linear"] == 0.0
    assert saved["MLP"] == pytest.approx(690 - 600 - CHEAPEST_US - 28 - 13)


def test_a_layer_adds_nothing_where_its_parts_are_the_gain():
    attention = module("Attention", 300.0, 100.0, operator("linear", 280.0, 100.0, product=True), norm(20.0, 2.0))
    saved = saved_us(module("Layer", 410.0, 120.0, norm(), attention))
    assert saved["Norm"] == pytest.approx(110 - 20 - CHEAPEST_US + 20 - 2 - CHEAPEST_US)
    assert saved["Layer"] < saved["Norm"] / 2


def test_a_part_that_stays_eager_does_not_hand_its_gain_to_what_contains_it():
    inside = [operator("linear", 500.0, 200.0, product=True), operator("mul", 100.0, 40.0)]
    refused = module("Block", 600.0, None, *inside)
    saved = saved_us(module("Stack", 606.0, 240.0, refused))
    assert saved["Block"] == 0.0
    # Its own glue of 6 us, within the cost of the three calls inside.
    assert saved["Stack"] == pytest.approx(6.0)


def test_noise_between_two_large_times_is_no_gain():
    products = [operator(f"linear{number}", 150.0, 60.0, product=True) for number in range(3)]
    saved = saved_us(module("MLP", 520.0, 180.0, *products))
    assert saved["MLP"] <= 3 * CHEAPEST_US


def test_a_function_whose_time_is_not_the_vendors_is_a_whole_in_spite_of_its_products():
    def scan(rate: float) -> Tree:
        product = operator("matmul", 100.0, 100.0 * rate, product=True)
        return module("scan", 400.0, 10.0, product, operator("mul", 150.0, 5.0), level="function")

    slow = saved_us(scan(0.05))
    assert slow["scan"] == pytest.approx(400 - 20 - CHEAPEST_US)
    assert slow["mul"] == slow["matmul"] == 0.0
    # At the vendor's rate it is still less than half of the function's time.
    assert saved_us(scan(0.5))["scan"] == pytest.approx(400 - 100 - CHEAPEST_US)


def test_a_function_of_mostly_products_is_a_container():
    product = operator("matmul", 300.0, 200.0, product=True)
    saved = saved_us(module("attend", 400.0, 200.0, product, operator("softmax", 90.0, 30.0), level="function"))
    assert saved["softmax"] == pytest.approx(90 - 30 - CHEAPEST_US)
    assert saved["attend"] == pytest.approx(90 + 2 * CHEAPEST_US - CHEAPEST_US - 58)


def test_a_workload_without_small_operators_has_calls_of_ten_microseconds():
    rooms = headrooms(flat([operator("mul", 400.0, 100.0)]), WORKLOAD_US)
    assert rooms["torch torch:mul"] == pytest.approx(0.29)


def test_nothing_was_called():
    assert headrooms([], WORKLOAD_US) == {}
    assert headrooms([TimedCall("torch torch:mul", 1.0, -1, 0.0)], 0.0) == {"torch torch:mul": 0.0}


def _trees(depth: int = 3) -> st.SearchStrategy[Tree]:
    def leaf(us: float, rate: float | None, is_product: bool) -> Tree:
        return operator("op", us, None if rate is None else us * rate, product=is_product)

    def outer(level: str, is_eligible: bool, inside: list[Tree]) -> Tree:
        us = sum(part[0].us for part in inside)
        return module("outer", us, 0.0 if is_eligible else None, *inside, level=level)

    rate = st.one_of(st.none(), st.floats(0.0, 1.0))
    leaves = st.builds(leaf, st.floats(1.0, 300.0), rate, st.booleans())
    if depth == 0:
        return leaves
    inside = st.lists(_trees(depth - 1), min_size=1, max_size=4)
    return st.one_of(leaves, st.builds(outer, st.sampled_from(["module", "function"]), st.booleans(), inside))


@given(st.lists(_trees(), min_size=1, max_size=3))
def test_no_card_saves_more_than_its_calls_take(trees):
    calls = flat(trees)
    total = sum(call.us for call in calls if call.parent < 0)
    rooms = headrooms(calls, total)
    for label, room in rooms.items():
        spent = sum(call.us for call in calls if call.label == label)
        assert 0.0 <= room * total <= spent + 1e-6
