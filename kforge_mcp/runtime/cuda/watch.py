"""What an evaluation's processes know of each other, in shared memory: who may use the device now, and until when.

The parent maps a page before it forks. A spare process prepares itself in steps; it takes one only while nobody times
anything: while the evaluation that its parent serves has not come to its timed part, or else under the device's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator

_COVERED, _TIMING = 0, 1
_TIME = struct.Struct("d")
_TICK_S = 0.002
_REST_S = 0.015
"""Between two steps under the device's lock: whoever waits for it looks every 10 ms."""


class Stage:
    """Shared by a parent and all its children. `covered`: the device's lock is held for this family of processes."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._file = os.memfd_create("kforge-stage")

    def begin(self) -> None:
        """In the parent: an evaluation begins, whose caller holds the device's lock."""
        self._page[_TIMING] = 0
        self._page[_COVERED] = 1

    def end(self) -> None:
        """In the parent: the evaluation has ended; returns when no spare is in the middle of a step."""
        self._page[_COVERED] = 0
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        fcntl.lockf(self._file, fcntl.LOCK_UN)
        self._page[_TIMING] = 0

    def time_alone(self) -> None:
        """In the process that evaluates: from here to its end no spare takes a step."""
        self._page[_TIMING] = 1
        fcntl.lockf(self._file, fcntl.LOCK_EX)

    @contextlib.contextmanager
    def step(self, lock_path: str, assigned: bool) -> Iterator[bool]:
        """In a spare: whether a step may be taken now. `assigned`: it has a request, whose caller holds the lock."""
        # POSIX locks belong to a process and end with it: a child that is killed leaves none behind.
        if assigned:
            yield True
            return
        if self._page[_TIMING]:
            time.sleep(_TICK_S)
            yield False
            return
        fcntl.lockf(self._file, fcntl.LOCK_SH)
        handle = -1
        try:
            may = bool(self._page[_COVERED]) and not self._page[_TIMING]
            if not may and not self._page[_TIMING]:
                handle = _locked(lock_path)
                may = handle >= 0
            yield may
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
            if handle >= 0:
                os.close(handle)
                time.sleep(_REST_S)
        if not may:
            time.sleep(_TICK_S)


class Deadline:
    """Until when a child's present wait may last; written by the child, read by its parent."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @contextlib.contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """In the child: the block ends in time, or the child is killed."""
        self._write(time.monotonic() + seconds)
        try:
            yield
        finally:
            self._write(0.0)

    def passed(self) -> bool:
        """In the parent: whether the child is to be killed."""
        until = _TIME.unpack_from(self._page, 0)[0]
        return until > 0 and time.monotonic() > until

    def close(self) -> None:
        """In the parent: let go of the page."""
        self._page.close()

    def _write(self, until: float) -> None:
        _TIME.pack_into(self._page, 0, until)


def _locked(path: str) -> int:
    """A descriptor that holds the device's lock, or -1."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return -1
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return -1
    return handle
