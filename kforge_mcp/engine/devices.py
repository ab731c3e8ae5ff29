"""One user of a device at a time: a lock per device that all workspaces and users of this machine share."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kforge_mcp.errors import WorkspaceError


def lock_path(key: str) -> Path:
    """The lock's file for a device: `cpu` or a GPU's UUID. `KFORGE_LOCK_DIR` replaces `/tmp`."""
    return (
        Path(os.environ.get("KFORGE_LOCK_DIR") or "/tmp") / f"kforge-device-{re.sub(r'[^0-9A-Za-z-]', '_', key)}.lock"
    )


def made_lock(key: str) -> Path:
    """The lock's file, made if it is not there: for processes that hold the lock themselves."""
    path = lock_path(key)
    os.close(_open(path))
    return path


@contextmanager
def device_lock(key: str, pause: Callable[[], None]) -> Iterator[None]:
    """Hold the device's lock; while another has it `pause` is called again and again, and may raise to give up."""
    handle = _open(lock_path(key))
    try:
        while not _locked(handle):
            pause()
        yield
    finally:
        os.close(handle)


def _locked(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    """Open the file for reading, which is all that flock needs: whoever made it, every user can lock it."""
    try:
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444))
        except FileExistsError:
            pass
        return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError as error:
        raise WorkspaceError(
            f"the device lock {path} cannot be opened: {error.strerror}; set KFORGE_LOCK_DIR to a folder you may write"
        ) from error
