"""Which card deserves the next iteration: the one with the largest remaining gain for the whole workload."""

from __future__ import annotations

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search.value import card_us, floor_us


def remaining_us(card: OperatorCard, best_value: float, workload_us: float) -> float:
    """Microseconds of the workload that are left between the card's best candidate and its speed of light."""
    return max(0.0, card_us(card, best_value) - floor_us(card, workload_us))


def headroom_us(card: OperatorCard, best_value: float, workload_us: float) -> float:
    """Microseconds that kernels written for the card can be expected to save beyond its best candidate.

    That is what is left of the card's headroom. Where this is not known, `remaining_us`, which for a card full of
    matrix products is more than kernels written by hand can save.
    """
    left_us = remaining_us(card, best_value, workload_us)
    if card.headroom is None:
        return left_us
    saved_us = card.eager_us - card_us(card, best_value)
    return min(left_us, max(0.0, card.headroom * workload_us - saved_us))


def priority(
    card: OperatorCard, best_value: float, workload_us: float, visits: int = 0, pending: int = 0
) -> tuple[float, float]:
    """The gain to be expected, then all that is left to the speed of light: larger is next.

    Both are divided by 1 + the visits that the card had and the leases that are out: visits go to cards in proportion
    to what is left of each, and a card that does not yield cannot keep them. Counting only visits without an
    improvement saves less (docs/results/search.md), since each small improvement of a large card starts the count anew.
    """
    discount = 1 + visits + pending
    expected_us, left_us = headroom_us(card, best_value, workload_us), remaining_us(card, best_value, workload_us)
    return expected_us / discount, left_us / discount
