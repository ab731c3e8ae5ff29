"""Budgets of cards and projects: limits that are set, spending that accumulates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.records.candidate import Budget
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.store import budgets

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def exhausted(budget: Budget, pending: int = 0) -> str:
    """What of the budget is used up, in words; empty while something is left.

    `pending` counts leases that are out: each has an iteration reserved.
    """
    spent = (
        ("iterations", budget.iterations, budget.spent_iterations + pending),
        ("GPU seconds", budget.gpu_seconds, budget.spent_gpu_seconds),
        ("US dollars", budget.cost_usd, budget.spent_cost_usd),
        ("seconds of wall time", budget.wall_s, budget.spent_wall_s),
    )
    over = [f"{used:g} of {limit:g} {unit}" for unit, limit, used in spent if limit and used >= limit]
    if not over:
        return ""
    reserved = f" ({pending} of them reserved by leases that are out)" if pending and "iterations" in over[0] else ""
    return f"the budget of {budget.owner_id} is used up: {', '.join(over)}{reserved}"


def iterations_left(budget: Budget, pending: int = 0) -> int:
    """Iterations that may still be handed out; -1 without a limit."""
    return max(0, budget.iterations - budget.spent_iterations - pending) if budget.iterations else -1


def set_limits(
    session: Session, owner_id: str, *, iterations: int, gpu_seconds: float, cost_usd: float, wall_s: float
) -> Budget:
    """Replace the four limits of a card or project, keeping what was spent. 0 is no limit."""
    limits = {"iterations": iterations, "gpu_seconds": gpu_seconds, "cost_usd": cost_usd, "wall_s": wall_s}
    budget = budgets.get_or_default(session, owner_id).model_copy(update=limits)
    budgets.save(session, budget)
    return budget


def charge(
    session: Session,
    card: OperatorCard,
    *,
    iterations: int = 0,
    gpu_seconds: float = 0.0,
    cost_usd: float = 0.0,
    wall_s: float = 0.0,
) -> None:
    """Add spending to the card and to its project."""
    for owner_id in (card.card_id, card.project_id):
        budget = budgets.get_or_default(session, owner_id)
        spent = {
            "spent_iterations": budget.spent_iterations + iterations,
            "spent_gpu_seconds": budget.spent_gpu_seconds + gpu_seconds,
            "spent_cost_usd": budget.spent_cost_usd + cost_usd,
            "spent_wall_s": budget.spent_wall_s + wall_s,
        }
        budgets.save(session, budget.model_copy(update=spent))
