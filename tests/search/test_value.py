"""The value of a candidate."""

from __future__ import annotations

import math

import pytest

from kforge_mcp.records.result import VariantVerdict
from kforge_mcp.search.value import candidate_value, card_us, floor_us
from tests.search.building import make_card, make_project, make_variant, measured


def test_value_is_the_log_of_the_lower_interval_end() -> None:
    card = make_card(make_project())
    assert candidate_value(card, measured(card, "c", 2.0, spread=0.1)) == pytest.approx(math.log(1.8))


def test_a_slower_candidate_is_worth_as_much_as_eager() -> None:
    card = make_card(make_project())
    assert candidate_value(card, measured(card, "c", 0.5)) == 0.0


def test_a_variant_that_is_slower_or_unclaimed_falls_back_to_eager() -> None:
    fast, slow = make_variant(calls=1, eager_us=100.0), make_variant(calls=3, eager_us=100.0)
    card = make_card(make_project(), variants=[fast, slow])
    base = measured(card, "c", 2.0, spread=0.0)
    won, lost = base.variants
    unclaimed = VariantVerdict(variant_id=slow.variant_id, claimed=False)
    for other in (lost.model_copy(update={"ci_low": 0.3}), unclaimed):
        result = base.model_copy(update={"variants": [won, other]})
        assert candidate_value(card, result) == pytest.approx(math.log(400 / 350))


def test_a_wrapper_and_a_weak_oracle_are_worth_nothing() -> None:
    card = make_card(make_project())
    result = measured(card, "c", 3.0)
    assert candidate_value(card, result.model_copy(update={"own_kernel_share": 0.0})) == 0.0
    assert candidate_value(card.model_copy(update={"weak_oracle": "zeros pass"}), result) == 0.0


def test_times_a_thousand_times_larger_give_the_same_value() -> None:
    card = make_card(make_project())
    result = measured(card, "c", 1.7)
    large = result.variants[0].model_copy(update={"eager_us": 400_000.0, "candidate_us": 400_000.0 / 1.7})
    assert candidate_value(card, result.model_copy(update={"variants": [large]})) == pytest.approx(
        candidate_value(card, result)
    )


def test_the_floor_is_the_speed_of_light_or_follows_from_the_ceiling() -> None:
    card = make_card(make_project())
    assert floor_us(card, 10_000.0) == pytest.approx(360.0)
    unknown = card.model_copy(update={"variants": [make_variant(speed_of_light_us=0.0)], "gain_ceiling": 1.25})
    assert floor_us(unknown, 10_000.0) == pytest.approx(1600.0)
    assert card_us(card, math.log(2)) == pytest.approx(1800.0)
