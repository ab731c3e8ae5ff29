"""Cards as rows, in capture results and listings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.server.results import Output, clip, figure


class CardRow(Output):
    """One operator card. Times in microseconds for one run of the workload; shares 0 to 1."""

    card_id: str
    level: str
    name: str
    eligible: bool
    reason: str = ""
    calls: int
    share: float
    eager_us: float
    gain_ceiling: float
    worth_it: bool
    variants: int


def card_row(card: OperatorCard | dict[str, Any]) -> CardRow:
    """A card, or a row of a capture's result, with figures rounded and the reason kept short."""
    if isinstance(card, dict):
        row = CardRow.model_validate(card)
    else:
        facts = {name: getattr(card, name) for name in CardRow.model_fields if name != "variants"}
        row = CardRow(**facts, variants=len(card.variants))
    return row.model_copy(
        update={
            "reason": clip(row.reason, 120),
            "share": round(row.share, 4),
            "eager_us": float(f"{row.eager_us:.5g}"),
            "gain_ceiling": round(row.gain_ceiling, 4),
        }
    )


def rows_text(rows: Sequence[CardRow]) -> str:
    """The rows as aligned lines."""
    return "\n".join(
        f"{row.card_id} {row.level:8} {row.name}: {row.calls} calls, {row.share:.1%} of the time, "
        f"{figure(row.eager_us)} us, ceiling {row.gain_ceiling:.3f}x, {row.variants} variants"
        + ("" if row.eligible else f"; not eligible: {row.reason}")
        + ("" if row.worth_it or not row.eligible else "; not worth it")
        for row in rows
    )
