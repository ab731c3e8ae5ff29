"""The tables: one per noun, with its id, the columns that queries use, and the whole record as JSON."""

from __future__ import annotations

from sqlalchemy import JSON, Boolean, Column, Float, ForeignKey, Index, Integer, MetaData, String, Table

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _table(name: str, key: str, *columns: Column) -> Table:
    identity = Column(key, String, primary_key=True)
    return Table(name, metadata, identity, *columns, Column("record", JSON, nullable=False))


def _text(name: str, *, index: bool = True) -> Column:
    return Column(name, String, nullable=False, index=index)


def _reference(name: str, target: str, *, index: bool = True) -> Column:
    return Column(name, String, ForeignKey(target, ondelete="CASCADE"), nullable=False, index=index)


TREE = ("card_id", "parent_id", "state", "candidate_id", "gain", "visits", "best", "pace")

projects = _table("projects", "project_id", _text("created_at"))

cards = _table("cards", "card_id", _reference("project_id", "projects.project_id"), _text("level"))

candidates = _table(
    "candidates",
    "candidate_id",
    _reference("card_id", "cards.card_id", index=False),
    _reference("project_id", "projects.project_id"),
    *(_text(name, index=False) for name in ("source_key", "state", "created_at", "parent_id")),
    _text("lease_id"),
    Column("visits", Integer, nullable=False),
    *(Column(name, Float) for name in ("value", "gain", "best")),
    Column("pace", Float, nullable=False),
)
# What selection and progress read is all in these, so that they never touch the records. They are the only ones that
# begin with the card: SQLite, which knows nothing of how many rows a card has, might take another instead.
Index("ix_candidates_key", candidates.c.card_id, candidates.c.source_key)
Index("ix_candidates_tree", *(candidates.c[name] for name in TREE))
Index("ix_candidates_progress", *(candidates.c[name] for name in ("card_id", "state", "value")))

leases = _table(
    "leases",
    "lease_id",
    _reference("card_id", "cards.card_id"),
    _reference("project_id", "projects.project_id"),
    _text("state"),
    _text("expires_at"),
    _text("created_at", index=False),
)

budgets = _table("budgets", "owner_id")

jobs = _table(
    "jobs",
    "job_id",
    _text("tool"),
    _text("arguments_key"),
    _text("status"),
    Column("attempt", Integer, nullable=False),
    Column("cancel_requested", Boolean, nullable=False),
    _text("created_at"),
)

packages = _table("packages", "package_id", _reference("project_id", "projects.project_id"), _text("created_at"))
