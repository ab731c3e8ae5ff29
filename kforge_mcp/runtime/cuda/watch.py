"""What an evaluation's processes know of each other, in shared memory: who may use the device now, and until when.

A parent and its children hold the device's lock together: its file is opened once, before they are forked. They hold
it while one of them evaluates, and while spare processes prepare themselves, which they do in steps. From the moment
at which the one that evaluates begins to time, no spare takes a step.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterator

_COVERED, _TIMING = 0, 1
_STEPS, _MUTEX = 0, 1
"""Bytes of the file whose POSIX locks say that a step is under way, and that somebody decides about the lock."""
_TIME = struct.Struct("d")
_TICK_S = 0.002
_WAIT_S = 0.01


class Stage:
    """Shared by a parent and all its children. Raises `OSError` if the lock's file cannot be opened."""

    def __init__(self, lock_path: str) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._file = os.memfd_create("kforge-stage")
        # flock belongs to an opened file, POSIX locks to a process: the first is the family's, the second each one's.
        self._lock = os.open(lock_path, os.O_RDONLY)

    def begin(self, waiting: Callable[[], None]) -> None:
        """In the parent: an evaluation begins. Waits for the device's lock; `waiting` is called meanwhile."""
        with self._deciding():
            self._page[_TIMING] = 0
            self._page[_COVERED] = 1
        while not self._locked():
            waiting()
            time.sleep(_WAIT_S)

    def end(self) -> None:
        """In the parent: the evaluation has ended, and so has the process that it ran in."""
        self._page[_COVERED] = 0
        self.settle()
        self._page[_TIMING] = 0

    def settle(self) -> None:
        """Give the device's lock back unless somebody of this family still works on the device."""
        with self._deciding():
            if self._page[_COVERED]:
                return
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _STEPS)
            except OSError:
                return
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _STEPS)
            fcntl.flock(self._lock, fcntl.LOCK_UN)

    def time_alone(self) -> None:
        """In the process that evaluates: from here to its end no spare takes a step."""
        self._page[_TIMING] = 1
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _STEPS)

    @contextlib.contextmanager
    def step(self, assigned: bool) -> Iterator[bool]:
        """In a spare: whether a step may be taken now. `assigned`: it has a request, so nobody else evaluates."""
        if assigned:
            yield True
            return
        if self._page[_TIMING]:
            time.sleep(_TICK_S)
            yield False
            return
        fcntl.lockf(self._file, fcntl.LOCK_SH, 1, _STEPS)
        with self._deciding():
            may = not self._page[_TIMING] and (bool(self._page[_COVERED]) or self._locked())
        try:
            yield may
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _STEPS)
            if may:
                self.settle()
            else:
                time.sleep(_WAIT_S)

    @contextlib.contextmanager
    def _deciding(self) -> Iterator[None]:
        fcntl.lockf(self._file, fcntl.LOCK_EX, 1, _MUTEX)
        try:
            yield
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _MUTEX)

    def _locked(self) -> bool:
        """Take the device's lock, if this family does not have it already."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True


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
