"""Budgets of cards and projects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.records.candidate import Budget
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SHELF = Shelf(Budget, "budgets", "owner_id", "budget", "set_budget makes budgets")


def save(session: Session, budget: Budget) -> Budget:
    """Insert or replace."""
    return _SHELF.save(session, budget)


def get_or_default(session: Session, owner_id: str) -> Budget:
    """The budget of a card or project; one without limits if none was set."""
    return _SHELF.find(session, owner_id) or Budget(owner_id=owner_id)


def find(session: Session, owner_id: str) -> Budget | None:
    """The budget that was set, or None."""
    return _SHELF.find(session, owner_id)


def of_owners(session: Session, owner_ids: list[str]) -> dict[str, Budget]:
    """The budgets of cards and projects by their ids; those without limits where none was set."""
    found = {budget.owner_id: budget for budget in _SHELF.where(session, owner_id=tuple(owner_ids))}
    return {owner_id: found.get(owner_id) or Budget(owner_id=owner_id) for owner_id in owner_ids}
