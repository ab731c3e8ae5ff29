"""Which candidates are worth a holdout: the best of each card, frozen before anything is measured again."""

from __future__ import annotations

from dataclasses import dataclass

from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target


@dataclass(frozen=True)
class Choice:
    """The candidate that a card puts forward."""

    card: OperatorCard
    candidate: Candidate


@dataclass(frozen=True)
class Lacking:
    """A card with candidates of which none qualifies: the best one, and what it lacks."""

    card: OperatorCard
    candidate: Candidate
    reason: str


def choose(
    cards: list[OperatorCard], candidates: dict[str, list[Candidate]], target: Target
) -> tuple[list[Choice], list[Lacking]]:
    """Per card the `faster` candidate with the highest lower interval end. `candidates` are by card_id; cards that
    nobody has worked on appear in neither list."""
    choices: list[Choice] = []
    lacking: list[Lacking] = []
    for card in cards:
        tried = candidates.get(card.card_id, [])
        if not tried:
            continue
        best = max(tried, key=_rank)
        reason = _lacks(card, best, target)
        if reason:
            lacking.append(Lacking(card, best, reason))
        else:
            choices.append(Choice(card, best))
    return choices, lacking


def _rank(candidate: Candidate) -> tuple[float, ...]:
    result = candidate.benchmarked
    measured = result is not None and result.status == "ok"
    faster = result is not None and measured and result.verdict == "faster"
    validated = candidate.validated is not None and candidate.validated.passed
    return (faster, measured, (result.ci_low or 0.0) if result else 0.0, validated)


def _lacks(card: OperatorCard, candidate: Candidate, target: Target) -> str:
    if card.weak_oracle:
        return f"nothing is claimed on this card: {card.weak_oracle}"
    if candidate.target != target:
        return f"it is for {candidate.target}, the project runs on {target}"
    latest = candidate.latest
    if latest is None:
        return "it has not been compiled: submit_candidate compiles, validates and benchmarks it"
    if latest.status != "ok":
        return f"{latest.stage} {latest.status}: {latest.reason or latest.message or 'no reason given'}"
    result = candidate.benchmarked
    if result is None:
        return f"it was not benchmarked, only {latest.stage} was run: call benchmark"
    if result.verdict != "faster":
        word = (result.verdict or "no verdict").replace("_", " ")
        if result.speedup is None or result.ci_low is None or result.ci_high is None:
            return word
        return f"{word}: {result.speedup:.3f} times eager's speed ({result.ci_low:.3f} to {result.ci_high:.3f})"
    return ""
