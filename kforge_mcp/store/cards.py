"""Operator cards of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kforge_mcp.records.card import Level, OperatorCard
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SHELF = Shelf(OperatorCard, "cards", "card_id", "operator card", "list_operator_cards lists card ids")


def save(session: Session, card: OperatorCard) -> OperatorCard:
    """Insert or replace. Raises `WorkspaceError` if its project is not stored."""
    return _SHELF.save(session, card)


def get(session: Session, card_id: str) -> OperatorCard:
    """Raises `NotFoundError`."""
    return _SHELF.get(session, card_id)


def of_project(session: Session, project_id: str, level: Level | Literal["all"] = "all") -> list[OperatorCard]:
    """A project's cards in the order they were saved."""
    if level == "all":
        return _SHELF.where(session, project_id=project_id)
    return _SHELF.where(session, project_id=project_id, level=level)
