"""Which card deserves the next iteration: the one with the largest remaining gain for the whole workload."""

from __future__ import annotations

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search.value import card_us, floor_us


def remaining_us(card: OperatorCard, best_value: float, workload_us: float) -> float:
    """Microseconds of the workload that are left between the card's best candidate and its speed of light."""
    return max(0.0, card_us(card, best_value) - floor_us(card, workload_us))


def priority(card: OperatorCard, best_value: float, workload_us: float, fruitless: int, pending: int) -> float:
    """The remaining gain, discounted by visits since the last improvement and by leases that are out.

    With the discount 1 / (1 + fruitless + pending) a card that does not yield is left for one with half its gain
    after one more visit, and comes back when the others have been tried as hard.
    """
    return remaining_us(card, best_value, workload_us) / (1 + fruitless + pending)
