import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine

from kforge_mcp.errors import WorkspaceError
from kforge_mcp.store import candidates, migration, schema
from kforge_mcp.store.workspace import Workspace


def test_the_migrations_make_the_schema_that_the_code_uses(workspace: Workspace) -> None:
    engine = create_engine(f"sqlite:///{workspace.root / 'kforge.db'}")
    with engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), schema.metadata) == []
    engine.dispose()


def test_the_newest_revision_is_the_head_of_one_line() -> None:
    config = Config()
    config.set_main_option("script_location", str(migration.SCRIPTS))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [migration.head()]


def test_a_newer_schema_is_refused_and_left_alone(tmp_path: Path) -> None:
    Workspace.open(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "kforge.db")
    with connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(WorkspaceError, match=r"schema 9999.*Upgrade kforge-mcp"):
        Workspace.open(tmp_path)
    assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]
    connection.close()


def test_an_interrupted_first_migration_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import command

    def interrupted(config: Config, _revision: str) -> None:
        config.attributes["connection"].exec_driver_sql("CREATE TABLE projects (half TEXT)")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command, "upgrade", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Workspace.open(tmp_path)
    with Workspace.open(tmp_path) as workspace, workspace.reading() as session:
        assert session.connection().exec_driver_sql("SELECT count(*) FROM projects").scalar() == 0


def test_a_search_of_the_first_schema_goes_on(tmp_path: Path) -> None:
    import json

    from alembic import command

    config = Config()
    config.set_main_option("script_location", str(migration.SCRIPTS))
    engine = create_engine(f"sqlite:///{tmp_path / 'kforge.db'}")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for name, parent, state, value in (
            ("a", "", "measured", 0.0),
            ("b", "a", "measured", 0.7),
            ("c", "a", "failed", None),
        ):
            record = {
                "candidate_id": name, "card_id": "card", "project_id": "proj", "parent_id": parent, "target": "cpu",
                "source": "ab" * 32, "source_key": name, "created_at": "2026-01-01T00:00:00Z", "state": state,
                "value": value, "visits": 3 if name == "a" else 1, "lease_id": "lease",
            }  # fmt: skip
            connection.exec_driver_sql(
                "INSERT INTO candidates (candidate_id, card_id, project_id, source_key, state, created_at, record) "
                "VALUES (?, 'card', 'proj', ?, ?, '2026', ?)",
                (name, name, state, json.dumps(record)),
            )
    engine.dispose()
    with Workspace.open(tmp_path) as workspace, workspace.reading() as session:
        assert [row[2:5] for row in candidates.below(session, "card", "")] == [(0.0, 3, 0.7)]
        assert [row[2:5] for row in candidates.below(session, "card", "a")] == [(0.7, 1, 0.7), (None, 1, None)]
        assert candidates.get(session, "a").best == 0.7
        assert len(candidates.of_lease(session, "lease")) == 3
