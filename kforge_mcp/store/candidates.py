"""Candidates of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.records.candidate import Candidate
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SHELF = Shelf(Candidate, "candidates", "candidate_id", "candidate", "search_status lists the candidates of a card")


def save(session: Session, candidate: Candidate) -> Candidate:
    """Insert or replace. Raises `WorkspaceError` if its card or project is not stored."""
    return _SHELF.save(session, candidate)


def get(session: Session, candidate_id: str) -> Candidate:
    """Raises `NotFoundError`."""
    return _SHELF.get(session, candidate_id)


def of_card(session: Session, card_id: str) -> list[Candidate]:
    """A card's candidates, oldest first."""
    return _SHELF.where(session, order="created_at", card_id=card_id)


def of_project(session: Session, project_id: str) -> list[Candidate]:
    """A project's candidates, oldest first."""
    return _SHELF.where(session, order="created_at", project_id=project_id)


def by_key(session: Session, card_id: str, source_key: str) -> Candidate | None:
    """The card's candidate with an equal source, or None."""
    found = _SHELF.where(session, order="created_at", limit=1, card_id=card_id, source_key=source_key)
    return found[0] if found else None
