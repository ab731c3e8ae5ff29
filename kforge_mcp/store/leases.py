"""Leases of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.records.candidate import Lease
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SHELF = Shelf(Lease, "leases", "lease_id", "lease", "next_proposal hands out leases")


def save(session: Session, lease: Lease) -> Lease:
    """Insert or replace. Raises `WorkspaceError` if its card or project is not stored."""
    return _SHELF.save(session, lease)


def get(session: Session, lease_id: str) -> Lease:
    """Raises `NotFoundError`."""
    return _SHELF.get(session, lease_id)


def of_project(session: Session, project_id: str, state: str) -> list[Lease]:
    """A project's leases in a state, oldest first."""
    return _SHELF.where(session, order="created_at", project_id=project_id, state=state)


def of_card(session: Session, card_id: str, state: str | None = None) -> list[Lease]:
    """A card's leases, oldest first; with `state` only those in it."""
    if state is None:
        return _SHELF.where(session, order="created_at", card_id=card_id)
    return _SHELF.where(session, order="created_at", card_id=card_id, state=state)
