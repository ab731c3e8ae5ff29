"""A workspace: one folder with the database, the blobs and what the engine keeps."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from kforge_mcp.errors import WorkspaceError
from kforge_mcp.store.blobs import BlobStore
from kforge_mcp.store.places import default_root, make_folder, not_writable, require_local

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

__all__ = ["BUSY_TIMEOUT_S", "Workspace", "default_root"]

DATABASE = "kforge.db"
BUSY_TIMEOUT_S = 10.0
_DIGEST = re.compile(r"\b[0-9a-f]{64}\b")


class Workspace:
    """An opened workspace; make one with `Workspace.open`. Any number of processes may have it open at once."""

    def __init__(self, root: Path, engine: Engine) -> None:
        self.root = root
        self.blobs = BlobStore(root / "blobs")
        self._database = root / DATABASE
        self._log = root / (DATABASE + "-wal")
        self._engine = engine
        self._writer = engine.execution_options(kforge_write=True)

    @classmethod
    def open(cls, root: str | Path, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> Self:
        """Open the workspace in `root`, made if missing, and upgrade its schema.

        Raises `WorkspaceError` if the folder cannot be written or is on a network file system, if the database is
        locked for `busy_timeout_s` seconds, damaged, or written by a newer version.
        """
        if url := os.environ.get("KFORGE_DATABASE_URL"):
            raise WorkspaceError(
                f"KFORGE_DATABASE_URL is set ({url.split(':', 1)[0]}), which this version does not support: unset it "
                "and use a workspace on a local disk"
            )
        folder = Path(os.path.abspath(Path(root).expanduser()))
        _prepare(folder)
        engine = _connect(folder / DATABASE, busy_timeout_s)
        try:
            with _explained(folder):
                from kforge_mcp.store.migration import migrate

                migrate(engine, folder / "migrate.lock")
        except BaseException:
            engine.dispose()
            raise
        return cls(folder, engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def packages_dir(self) -> Path:
        """Exported packages, unless a path is given."""
        return self._folder("packages")

    @property
    def engine_dir(self) -> Path:
        """The engine's log, lock, address and certificates."""
        return self._folder("engine")

    @property
    def scratch_dir(self) -> Path:
        """Temporary folders of jobs."""
        return self._folder("scratch")

    @contextmanager
    def transaction(self) -> Iterator[Session]:
        """A session that may write, committed at the end and rolled back on an exception.

        It holds the database's write lock from its beginning, so what it reads stays true until it has written.
        Raises `WorkspaceError` if another process holds that lock for longer than the busy timeout.
        """
        from sqlalchemy.orm import Session

        with _explained(self.root), Session(self._writer) as session, session.begin():
            session.connection()
            yield session

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the database and never waits for a writer."""
        from sqlalchemy.orm import Session

        with _explained(self.root), Session(self._engine) as session:
            yield session

    def change_stamp(self) -> tuple[int, ...]:
        """Changes whenever a transaction was committed by any process, though one right after another may share a
        stamp; much cheaper than reading."""
        found = [path.stat() for path in (self._database, self._log) if path.exists()]
        return tuple(value for file in found for value in (file.st_mtime_ns, file.st_size))

    def sweep(self) -> int:
        """Remove blobs that no record names and leftovers of crashes, if older than an hour; returns how many.

        Blobs are named by records alone: a digest inside another blob does not keep one.
        """
        from sqlalchemy import String, select, type_coerce

        from kforge_mcp.store import schema

        named: set[str] = set()
        with self.reading() as session:
            for table in schema.metadata.sorted_tables:
                for text in session.scalars(select(type_coerce(table.c.record, String))):
                    named.update(_DIGEST.findall(text))
        return self.blobs.sweep(named)

    def close(self) -> None:
        """Release the database; the object is of no use afterwards."""
        self._engine.dispose()

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        make_folder(folder)
        return folder


def _prepare(folder: Path) -> None:
    """Make the folder and the database file, for the owner alone.

    A folder that exists with other things in it keeps its mode; what is made inside is private in any case.
    """
    make_folder(folder)
    require_local(folder)
    try:
        if not any(folder.iterdir()):
            folder.chmod(0o700)
        make_folder(folder / "blobs")
        _make_database_file(folder / DATABASE)
    except OSError as error:
        raise not_writable(folder, error) from error


def _make_database_file(database: Path) -> None:
    """Make the file without ever opening it.

    POSIX drops all locks of a process on a file as soon as it closes *any* descriptor of it. A process that has the
    workspace open twice, as the engine does, would lose those of SQLite: the next process to leave would take itself
    for the last one and delete the log that this one still reads and writes.
    """
    try:
        os.mknod(database, stat.S_IFREG | 0o600)
    except FileExistsError:
        if not os.access(database, os.R_OK | os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(database)) from None


def _connect(database: Path, busy_timeout_s: float) -> Engine:
    from sqlalchemy import URL, create_engine, event

    engine = create_engine(URL.create("sqlite", database=str(database)), connect_args={"timeout": busy_timeout_s})

    @event.listens_for(engine, "connect")
    def configure(connection, _record) -> None:  # pyright: ignore[reportMissingParameterType]
        # sqlite3 would begin transactions by itself, and late; `begin` below does it instead.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection) -> None:  # pyright: ignore[reportMissingParameterType]
        writes = connection.get_execution_options().get("kforge_write", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    """Turn what SQLite says of an unusable database into a `WorkspaceError`."""
    from sqlalchemy.exc import DatabaseError, OperationalError

    try:
        yield
    except DatabaseError as error:
        reason = str(error.orig)
        if "locked" in reason or "busy" in reason:
            raise WorkspaceError(
                f"database locked: another process holds {root / DATABASE} and did not let go in time. Try again; "
                "if it persists, look for a stopped kforge-mcp process or another program that has the file open."
            ) from error
        if isinstance(error, OperationalError) or type(error) is DatabaseError:
            raise WorkspaceError(
                f"the workspace database {root / DATABASE} cannot be used: {reason}. Check the disk and the file's "
                "permissions, or use another workspace (--workspace DIR or KFORGE_WORKSPACE)."
            ) from error
        raise
