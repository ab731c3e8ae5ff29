"""What the repositories share: records of one kind in one table.

SQLAlchemy is imported inside the functions, since a server imports the repositories before it answers `initialize`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kforge_mcp.errors import NotFoundError, WorkspaceError
from kforge_mcp.records.base import Record

if TYPE_CHECKING:
    from sqlalchemy import Table
    from sqlalchemy.orm import Session

R = TypeVar("R", bound=Record)


class Shelf(Generic[R]):
    """Records of `kind` in the table `name`, by id and by the table's other columns, which are fields of the record."""

    def __init__(self, kind: type[R], name: str, key: str, noun: str, advice: str) -> None:
        self.kind = kind
        self.name = name
        self.key = key
        self.noun = noun
        self.advice = advice

    @property
    def table(self) -> Table:
        """The table's definition."""
        from kforge_mcp.store import schema

        return schema.metadata.tables[self.name]

    def row(self, record: R) -> dict[str, Any]:
        """The record as the table's columns."""
        content = record.model_dump(mode="json")
        return {column.name: content if column.name == "record" else content[column.name] for column in self.table.c}

    def save(self, session: Session, record: R) -> R:
        """Insert the record, or replace the one with its id.

        Raises `WorkspaceError` if it belongs to a record that this workspace does not have.
        """
        from sqlalchemy.exc import IntegrityError

        row = self.row(record)
        table = self.table
        try:
            changed = session.connection().execute(table.update().where(table.c[self.key] == row[self.key]).values(row))
            if changed.rowcount == 0:
                session.connection().execute(table.insert().values(row))
        except IntegrityError as error:
            owners = ", ".join(f"{key.parent.name} {row[key.parent.name]}" for key in table.foreign_keys)
            raise WorkspaceError(
                f"{self.noun} {row[self.key]} belongs to a record that is not in this workspace ({owners})"
            ) from error
        return record

    def find(self, session: Session, key: str) -> R | None:
        """The record with this id, or None."""
        equal: dict[str, Any] = {self.key: key}
        found = self.where(session, **equal)
        return found[0] if found else None

    def get(self, session: Session, key: str) -> R:
        """The record with this id. Raises `NotFoundError` that says where ids come from."""
        record = self.find(session, key)
        if record is None:
            raise NotFoundError(f"there is no {self.noun} {key!r} in this workspace; {self.advice}")
        return record

    def where(
        self, session: Session, *, order: str = "", newest: bool = False, limit: int | None = None, **equal: Any
    ) -> list[R]:
        """The records whose columns equal the values given (any of them for a tuple), in the order of the column
        `order` and then of insertion; `newest` turns the order round."""
        from sqlalchemy import literal_column, select

        table = self.table
        query = select(table.c.record).limit(limit)
        for name, value in equal.items():
            column = table.c[name]
            query = query.where(column.in_(value) if isinstance(value, tuple) else column == value)
        ordering = ([table.c[order]] if order else []) + [literal_column("rowid")]
        query = query.order_by(*((column.desc() for column in ordering) if newest else ordering))
        return [self.kind.model_validate(content) for content in session.connection().execute(query).scalars()]
