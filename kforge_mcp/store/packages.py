"""Packages exported from a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.records.package import Package
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_SHELF = Shelf(Package, "packages", "package_id", "package", "export_package makes packages")


def save(session: Session, package: Package) -> Package:
    """Insert or replace. Raises `WorkspaceError` if its project is not stored."""
    return _SHELF.save(session, package)


def get(session: Session, package_id: str) -> Package:
    """Raises `NotFoundError`."""
    return _SHELF.get(session, package_id)


def of_project(session: Session, project_id: str) -> list[Package]:
    """A project's packages, oldest first."""
    return _SHELF.where(session, order="created_at", project_id=project_id)
