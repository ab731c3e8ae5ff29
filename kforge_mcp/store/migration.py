"""Bringing a database to this version's schema, once, however many processes open it at the same time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kforge_mcp.errors import WorkspaceError

if TYPE_CHECKING:
    from sqlalchemy import Engine

SCRIPTS = Path(__file__).with_name("migrations")
_LOCK_TIMEOUT_S = 60.0


def head() -> str:
    """This version's schema: revisions are four digits that count up, each the name of its file."""
    return max(file.name[:4] for file in (SCRIPTS / "versions").glob("[0-9]*.py"))


def revision(engine: Engine) -> str:
    """The database's schema; empty for a fresh database."""
    from sqlalchemy import inspect, text

    with engine.connect() as connection:
        if not inspect(connection).has_table("alembic_version"):
            return ""
        return connection.execute(text("SELECT version_num FROM alembic_version")).scalar() or ""


def migrate(engine: Engine, lock: Path) -> None:
    """Upgrade the database where needed. Raises `WorkspaceError` if a newer version of kforge-mcp wrote it."""
    if _is_current(engine):
        return
    from filelock import FileLock, Timeout

    try:
        with FileLock(lock, timeout=_LOCK_TIMEOUT_S):
            if not _is_current(engine):
                _upgrade(engine)
    except Timeout:
        raise WorkspaceError(
            f"another process has been upgrading this workspace for {_LOCK_TIMEOUT_S:g} s ({lock}); try again when "
            "it has ended"
        ) from None


def _is_current(engine: Engine) -> bool:
    found = revision(engine)
    if found > head():
        raise WorkspaceError(
            f"the workspace database has schema {found}, this kforge-mcp knows up to {head()}: a newer version wrote "
            "it. Upgrade kforge-mcp (pip install -U kforge-mcp), or use another workspace."
        )
    return found == head()


def _upgrade(engine: Engine) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS).replace("%", "%%"))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
