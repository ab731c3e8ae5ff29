"""Cards as rows, in the order that a client asks for."""

from __future__ import annotations

from typing import Any

from kforge_mcp.errors import UsageError
from kforge_mcp.records.card import OperatorCard

SORTS = ("gain", "share", "calls", "name")


def card_row(card: OperatorCard) -> dict[str, Any]:
    """The fields of a card that listings show; `variants` is their number."""
    return {
        "card_id": card.card_id,
        "level": card.level,
        "name": card.name,
        "eligible": card.eligible,
        "reason": card.reason,
        "calls": card.calls,
        "share": round(card.share, 5),
        "eager_us": round(card.eager_us, 1),
        "gain_ceiling": round(card.gain_ceiling, 4),
        "worth_it": card.worth_it,
        "variants": len(card.variants),
    }


def sort_cards(cards: list[OperatorCard], sort: str = "gain") -> list[OperatorCard]:
    """Cards by `gain` (headroom, eligible ones first), `share`, `calls` or `name`. Raises `UsageError` for another."""
    if sort == "gain":
        return sorted(
            cards, key=lambda card: (not card.eligible, -_headroom(card), not card.worth_it, -card.share, card.name)
        )
    if sort == "share":
        return sorted(cards, key=lambda card: (-card.share, card.name))
    if sort == "calls":
        return sorted(cards, key=lambda card: (-card.calls, card.name))
    if sort == "name":
        return sorted(cards, key=lambda card: (card.name, card.qualified_name))
    raise UsageError(f"cards cannot be sorted by {sort!r}; use one of {', '.join(SORTS)}")


def _headroom(card: OperatorCard) -> float:
    """Where it is not known, what the ceiling leaves: W - W / g of a workload W."""
    return 1.0 - 1.0 / max(1.0, card.gain_ceiling) if card.headroom is None else card.headroom
