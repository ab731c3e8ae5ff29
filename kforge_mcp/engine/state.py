"""What is known of a workspace's engine from outside: whether one runs, where, and since when."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from pathlib import Path

from pydantic import ValidationError

from kforge_mcp.records.base import Moment, Record

LOCK = "engine.lock"
STATE = "engine.json"
LOG = "engine.log"

_FLOCK = struct.Struct("hhqqi4x")


class EngineState(Record):
    """A running engine: what it writes to `engine.json` once it accepts work."""

    address: str
    """The Dask scheduler's."""
    pid: int
    start_id: str
    started_at: Moment
    version: str
    code_stamp: int
    """Age of the code that it runs: see `code_stamp`."""
    resources: list[str]
    """`CPU` and, with a GPU, `GPU`."""


class EngineLock:
    """Held by the engine as long as it lives; the kernel lets go of it however the engine ends.

    It is a lock of an open file description: another thread that opens the file can neither take nor lose it, and
    asking whether it is held does not take it for a moment, which would turn a starting engine away.
    """

    def __init__(self, engine_dir: Path) -> None:
        self._handle = os.open(engine_dir / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def acquire(self) -> bool:
        """Take the lock if no other engine has it."""
        try:
            fcntl.fcntl(self._handle, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def release(self) -> None:
        """Let go of the lock."""
        fcntl.fcntl(self._handle, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))

    def close(self) -> None:
        """Let go of the lock and the file."""
        os.close(self._handle)

    def held_elsewhere(self) -> bool:
        """Whether another holds the lock."""
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return _FLOCK.unpack(fcntl.fcntl(self._handle, fcntl.F_OFD_GETLK, wanted))[0] != fcntl.F_UNLCK


def is_running(engine_dir: Path) -> bool:
    """Whether an engine lives; it may still be starting."""
    lock = EngineLock(engine_dir)
    try:
        return lock.held_elsewhere()
    finally:
        lock.close()


def read_state(engine_dir: Path) -> EngineState | None:
    """The state of the running engine, or None if none runs or it does not accept work yet."""
    try:
        state = EngineState.model_validate_json((engine_dir / STATE).read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
    return state if is_running(engine_dir) else None


def write_state(engine_dir: Path, state: EngineState) -> None:
    """Publish the engine's state."""
    temporary = engine_dir / (STATE + ".tmp")
    temporary.write_text(state.model_dump_json(indent=2) + "\n")
    os.replace(temporary, engine_dir / STATE)


def remove_state(engine_dir: Path) -> None:
    """Withdraw the engine's state."""
    (engine_dir / STATE).unlink(missing_ok=True)


def log_tail(engine_dir: Path, lines: int) -> str:
    """The last lines of the engine's log; empty if it never ran."""
    try:
        with open(engine_dir / LOG, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 400 * lines))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def code_stamp() -> int:
    """When the newest source file of this package changed, in nanoseconds: a newer one means newer code."""
    package = Path(__file__).resolve().parent.parent
    return max(file.stat().st_mtime_ns for file in package.rglob("*.py"))
