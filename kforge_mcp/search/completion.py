"""What a stage found out goes into the tree: the candidate, its ancestors' visits, its lease and the budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kforge_mcp.errors import NotFoundError
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import StageResult
from kforge_mcp.search import budgets, leases
from kforge_mcp.search.tree import Node, after_visit
from kforge_mcp.search.value import candidate_gain, candidate_value
from kforge_mcp.store import candidates
from kforge_mcp.store import leases as stored_leases

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

INCONCLUSIVE = frozenset({"device_busy", "target_unavailable", "internal_error", "budget_exhausted"})
"""Reasons that say nothing of the candidate: it stays open, no visit is completed, and it can be judged again."""

_STAGES = ("compile", "validate", "benchmark")
_FIELD = {"compile": "compiled", "validate": "validated", "benchmark": "benchmarked"}


def record(
    session: Session,
    card: OperatorCard,
    candidate_id: str,
    results: list[StageResult],
    *,
    wall_s: float = 0.0,
    device_s: float = 0.0,
    samples: str = "",
    log: str = "",
) -> Candidate:
    """Save the stages' results on the candidate and complete its visit if they end it; part of one transaction.

    A benchmark completes the visit with its value, a failure without reward, a passed earlier stage not at all.
    A visit is completed once: judging again replaces results and value only.
    """
    before = candidates.get(session, candidate_id)
    changes: dict[str, Any] = {_FIELD[result.stage]: result for result in results}
    changes["wall_s"] = before.wall_s + wall_s
    changes["gpu_s"] = before.gpu_s + (device_s if before.target == "cuda" else 0.0)
    if samples:
        changes["samples"] = samples
    if log:
        changes["log"] = log
    last = results[-1] if results else None
    if last is not None:
        changes |= _judgement(card, last)
        if last.status == "failed":
            later = _STAGES[_STAGES.index(last.stage) + 1 :]
            changes |= {_FIELD[stage]: None for stage in later}
    after = before.model_copy(update=changes)
    completes = before.state == "open" and after.state != "open"
    if completes:
        after = after.model_copy(update={"visits": after.visits + 1, "best": after.gain})
    candidates.save(session, after)
    budgets.charge(
        session,
        card,
        iterations=int(completes),
        gpu_seconds=after.gpu_s - before.gpu_s,
        cost_usd=after.cost_usd if completes else 0.0,
        wall_s=wall_s,
    )
    if completes:
        _backpropagate(session, after)
        _conclude_lease(session, after)
    elif after.gain != before.gain:
        after = _correct(session, after)
    return after


def _judgement(card: OperatorCard, last: StageResult) -> dict[str, Any]:
    if last.status == "failed" and last.reason not in INCONCLUSIVE:
        return {"state": "failed", "value": None, "gain": None}
    if last.stage == "benchmark" and last.status == "ok":
        return {"state": "measured", "value": candidate_value(card, last), "gain": candidate_gain(card, last)}
    return {}


def _backpropagate(session: Session, leaf: Candidate) -> None:
    parent_id = leaf.parent_id
    while parent_id:
        ancestor = candidates.get(session, parent_id)
        seen = Node(parent_id, ancestor.parent_id, ancestor.gain, ancestor.visits, ancestor.best, ancestor.pace)
        then = after_visit(seen, leaf.gain)
        changes = {"visits": then.visits, "best": then.best, "pace": then.pace}
        candidates.save(session, ancestor.model_copy(update=changes))
        parent_id = ancestor.parent_id


def _correct(session: Session, judged_again: Candidate) -> Candidate:
    """What is best below the candidate and its ancestors, after a measurement was replaced."""
    current, first = judged_again, None
    while True:
        rows = candidates.below(session, current.card_id, current.candidate_id)
        known = [value for value in (current.gain, *(row.best for row in rows)) if value is not None]
        corrected = current.model_copy(update={"best": max(known, default=None)})
        candidates.save(session, corrected)
        first = first or corrected
        if corrected.best == current.best or not current.parent_id:
            return first
        current = candidates.get(session, current.parent_id)


def _conclude_lease(session: Session, candidate: Candidate) -> None:
    if not candidate.lease_id:
        return
    try:
        lease = stored_leases.get(session, candidate.lease_id)
    except NotFoundError:
        return
    leases.conclude(session, lease, measured=candidate.state == "measured")
