"""Candidates of a workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kforge_mcp.records.candidate import Candidate, NodeState
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


def some(session: Session, candidate_ids: list[str]) -> dict[str, Candidate]:
    """The candidates with these ids, as far as there are any."""
    found = _SHELF.where(session, candidate_id=tuple(candidate_ids)) if candidate_ids else []
    return {one.candidate_id: one for one in found}


def children(
    session: Session, card_id: str, parent_id: str, states: tuple[NodeState, ...], limit: int
) -> list[Candidate]:
    """The latest children of a candidate that are in one of these states, oldest first."""
    from sqlalchemy import literal_column, select

    table = _SHELF.table
    query = select(table.c.candidate_id).where(table.c.card_id == card_id, table.c.parent_id == parent_id)
    query = query.where(table.c.state.in_(states)).order_by(literal_column("+rowid").desc()).limit(limit)
    names = list(session.connection().execute(query).scalars())
    found = some(session, names)
    return [found[name] for name in reversed(names)]


def of_lease(session: Session, lease_id: str) -> list[Candidate]:
    """What was submitted with a lease, oldest first."""
    return _SHELF.where(session, lease_id=lease_id)


def answered(session: Session, lease_ids: list[str]) -> set[str]:
    """Those of the leases with which something was submitted."""
    from sqlalchemy import select

    table = _SHELF.table
    query = select(table.c.lease_id).where(table.c.lease_id.in_(lease_ids)).distinct()
    return set(session.connection().execute(query).scalars())


def held_keys(session: Session, card_id: str, source_keys: list[str]) -> set[str]:
    """Those of the source keys that a candidate of the card has."""
    from sqlalchemy import select

    table = _SHELF.table
    query = select(table.c.source_key).where(table.c.source_key.in_(source_keys), table.c.card_id == card_id)
    return set(session.connection().execute(query).scalars())


class TreeRow(NamedTuple):
    """A candidate as its tree needs it; the fields are `Candidate`'s."""

    candidate_id: str
    parent_id: str
    gain: float | None
    visits: int
    best: float | None
    pace: float


def below(session: Session, card_id: str, parent_id: str) -> list[TreeRow]:
    """The children of a candidate, or of eager for an empty id, oldest first. Reads an index alone."""
    from sqlalchemy import literal_column, select

    table = _SHELF.table
    query = select(*(table.c[name] for name in TreeRow._fields))
    query = query.where(table.c.card_id == card_id, table.c.parent_id == parent_id).order_by(literal_column("+rowid"))
    return [TreeRow(*row) for row in session.connection().execute(query)]


def lineage(session: Session, candidate_id: str) -> list[TreeRow]:
    """The candidate and its ancestors, oldest first."""
    from sqlalchemy import text

    fields = ", ".join(f"c.{name}" for name in TreeRow._fields)
    query = text(
        f"WITH RECURSIVE line AS (SELECT {fields}, 0 AS depth FROM candidates c WHERE c.candidate_id = :start "
        f"UNION ALL SELECT {fields}, line.depth + 1 FROM candidates c JOIN line ON c.candidate_id = line.parent_id) "
        f"SELECT {fields} FROM line c ORDER BY c.depth DESC"
    )
    return [TreeRow(*row) for row in session.connection().execute(query, {"start": candidate_id})]


class Counts(NamedTuple):
    """How many of a card's candidates are in each state, and the largest value."""

    open: int = 0
    measured: int = 0
    failed: int = 0
    largest: float = 0.0


def counts(session: Session, project_id: str) -> dict[str, Counts]:
    """The counts of a project's cards that have candidates, by card. Reads an index alone."""
    from sqlalchemy import func, select

    table = _SHELF.table
    owners = table.metadata.tables["cards"]
    cards = select(owners.c.card_id).where(owners.c.project_id == project_id)
    query = select(table.c.card_id, table.c.state, func.count(), func.max(table.c.value))
    query = query.where(table.c.card_id.in_(cards)).group_by(table.c.card_id, table.c.state)
    found: dict[str, Counts] = {}
    for card_id, state, number, largest in session.connection().execute(query):
        changes: dict[str, Any] = {state: number}
        if state == "measured":
            changes["largest"] = largest or 0.0
        found[card_id] = found.get(card_id, Counts())._replace(**changes)
    return found


def first_of_value(session: Session, card_id: str, value: float) -> tuple[Candidate, int] | None:
    """The card's first candidate of this value, and how many made later have been judged."""
    from sqlalchemy import func, literal_column, select

    table, place = _SHELF.table, literal_column("rowid")
    query = select(func.min(place)).where(table.c.card_id == card_id, table.c.state == "measured")
    first = session.connection().execute(query.where(table.c.value == value)).scalar()
    if first is None:
        return None
    query = select(table.c.record).where(place == first)
    candidate = Candidate.model_validate(session.connection().execute(query).scalar_one())
    judged = table.c.state.in_(("measured", "failed"))
    later = select(func.count()).select_from(table).where(table.c.card_id == card_id, judged, place > first)
    return candidate, session.connection().execute(later).scalar_one()


def by_key(session: Session, card_id: str, source_key: str) -> Candidate | None:
    """The card's candidate with an equal source, or None."""
    found = _SHELF.where(session, order="created_at", limit=1, card_id=card_id, source_key=source_key)
    return found[0] if found else None
