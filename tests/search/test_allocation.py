"""Which card deserves the next iteration."""

from __future__ import annotations

import math

import pytest

from kforge_mcp.search.allocation import headroom_us, priority, remaining_us
from kforge_mcp.search.proposals import next_proposal
from kforge_mcp.search.status import search_status
from kforge_mcp.store.workspace import Workspace
from tests.search.building import make_card, make_project, store_card

_WORKLOAD_US = 10_000.0


def test_what_the_best_candidate_saved_is_taken_from_the_headroom() -> None:
    card = make_card(make_project(), headroom=0.25)
    assert headroom_us(card, 0.0, _WORKLOAD_US) == pytest.approx(2500.0)
    assert headroom_us(card, math.log(1.5), _WORKLOAD_US) == pytest.approx(2500.0 - 1200.0)
    assert headroom_us(card, math.log(9.0), _WORKLOAD_US) == 0.0


def test_without_a_known_headroom_all_that_is_left_counts() -> None:
    card = make_card(make_project())
    left_us = remaining_us(card, 0.0, _WORKLOAD_US)
    assert left_us > 0
    assert headroom_us(card, 0.0, _WORKLOAD_US) == left_us


def test_a_headroom_beyond_the_speed_of_light_counts_no_further() -> None:
    card = make_card(make_project(), headroom=0.9)
    assert headroom_us(card, 0.0, _WORKLOAD_US) == remaining_us(card, 0.0, _WORKLOAD_US)


def test_fruitless_visits_and_leases_discount_a_card() -> None:
    card = make_card(make_project(), headroom=0.25)
    expected_us, left_us = priority(card, 0.0, _WORKLOAD_US)
    assert priority(card, 0.0, _WORKLOAD_US, 2, 1) == pytest.approx((expected_us / 4, left_us / 4))


def test_a_small_card_of_own_work_comes_before_a_large_one_of_matrix_products(workspace: Workspace) -> None:
    project, products = store_card(workspace, name="Linear", eager_us=6000.0, headroom=0.0)
    _, norm = store_card(workspace, project, name="Norm", eager_us=1200.0, headroom=0.02)
    assert next_proposal(workspace).proposals[0].card_id == norm.card_id
    assert [state.card.name for state in search_status(workspace).cards] == ["Norm", "Linear"]
    assert remaining_us(products, 0.0, project.workload_us) > remaining_us(norm, 0.0, project.workload_us)
