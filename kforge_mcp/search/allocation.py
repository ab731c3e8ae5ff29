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
    card: OperatorCard, best_value: float, workload_us: float, fruitless: int = 0, pending: int = 0
) -> tuple[float, float]:
    """The gain to be expected, then all that is left to the speed of light: larger is next.

    Both are discounted by visits since the last improvement and by leases that are out. With the discount
    1 / (1 + fruitless + pending) a card that does not yield is left for one with half its gain after one more visit,
    and comes back when the others have been tried as hard.
    """
    discount = 1 + fruitless + pending
    expected_us, left_us = headroom_us(card, best_value, workload_us), remaining_us(card, best_value, workload_us)
    return expected_us / discount, left_us / discount
