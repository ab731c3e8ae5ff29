"""When to stop searching a card, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from kforge_mcp.records.base import Record
from kforge_mcp.records.candidate import Budget, Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search.budgets import exhausted

SPEED_OF_LIGHT = 0.9
STAGNATION_VISITS = 25
"""Completed visits without a better candidate after which a card is given up."""

StopWord = Literal[
    "budget", "stagnation", "speed_of_light", "ceiling", "not_eligible", "not_packaged", "nothing_to_search"
]


class Stop(Record):
    """Why no proposal is made, and what may be done about it."""

    reason: StopWord
    message: str


@dataclass(frozen=True)
class Progress:
    """How far the search of a card has come."""

    best: Candidate | None = None
    """The first candidate with the largest value above eager's."""
    completed: int = 0
    """Visits that have been completed on the card."""
    fruitless: int = 0
    """Those of candidates made after the best; all of them while there is none."""


def best_candidate(candidates: Sequence[Candidate]) -> Candidate | None:
    """The measured candidate with the largest value above eager's; None if there is none."""
    winners = [candidate for candidate in candidates if candidate.value]
    return max(winners, key=lambda candidate: candidate.value or 0.0) if winners else None


def not_packaged(card: OperatorCard) -> str:
    """Why `export_package` has no place for the card, or an empty text."""
    if card.level == "torch":
        return "is an operator of torch, which packages do not replace yet"
    return "overwrites an input, which packages do not support yet" if card.mutates else ""


def stop_reason(
    card: OperatorCard,
    progress: Progress,
    card_budget: Budget,
    project_budget: Budget,
    *,
    card_leases: int = 0,
    project_leases: int = 0,
) -> Stop | None:
    """The first reason to stop that applies, or None."""
    if not card.eligible:
        return Stop(reason="not_eligible", message=f"{card.name} cannot be replaced: {card.reason}")
    used_up = exhausted(card_budget, card_leases) or exhausted(project_budget, project_leases)
    if used_up:
        return Stop(reason="budget", message=f"{used_up}. Raise it with set_budget, or export_package.")
    best = progress.best
    share = best.benchmarked.speed_of_light if best and best.benchmarked else None
    if best and share and share >= SPEED_OF_LIGHT:
        text = f"{best.candidate_id} runs at {share:.0%} of the speed of light of this device; little is left to gain."
        return Stop(reason="speed_of_light", message=text + " Take another card, or export_package.")
    if not card.worth_it and not card_budget.iterations:
        text = f"{card.name} could make the whole workload at most {card.gain_ceiling:.3f}x faster: not worth it."
        return Stop(reason="ceiling", message=text + " To search it all the same, give the card its own set_budget.")
    why = not_packaged(card)
    if why and not card_budget.iterations:
        within = f" Work on what contains it: {', '.join(card.parents[:4])}." if card.parents else ""
        text = f"{card.name} {why}, so a gain on it cannot be exported.{within}"
        return Stop(
            reason="not_packaged", message=text + " To search it all the same, give the card its own set_budget."
        )
    since = progress.fruitless
    if since >= STAGNATION_VISITS:
        text = f"the last {since} candidates of {card.name} brought no improvement."
        return Stop(
            reason="stagnation", message=text + " Ideas can still be submitted with parent_id; or export_package."
        )
    return None
