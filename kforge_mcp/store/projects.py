"""Projects of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.records.project import Project
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SHELF = Shelf(
    Project, "projects", "project_id", "project", "capture_model makes projects and search_status names the latest"
)


def save(session: Session, project: Project) -> Project:
    """Insert or replace."""
    return _SHELF.save(session, project)


def get(session: Session, project_id: str) -> Project:
    """Raises `NotFoundError`."""
    return _SHELF.get(session, project_id)


def latest(session: Session) -> Project | None:
    """The project captured last, or None in a fresh workspace."""
    found = _SHELF.where(session, order="created_at", newest=True, limit=1)
    return found[0] if found else None


def all(session: Session) -> list[Project]:  # noqa: A001
    """Every project, oldest first."""
    return _SHELF.where(session, order="created_at")
