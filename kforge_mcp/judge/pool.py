"""Processes of the model interpreter that outlive a job: the next candidate finds them ready.

A process is lent to one job at a time. One that nobody has used for a minute is ended, and with it its children and
their contexts on the device.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kforge_mcp.engine.processes import RuntimeProcess

IDLE_S = 60.0
_TICK_S = 1.0


@dataclass
class Lent:
    """A process with the file that it and its children print to."""

    key: str
    process: RuntimeProcess
    log: Path
    import_in_children: bool = False
    used_at: float = 0.0

    def close(self) -> None:
        """End the process with all its children."""
        self.process.close()
        self.log.unlink(missing_ok=True)


class Pool:
    """Idle processes by key: equal keys mean equal interpreter, environment and folder."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._idle: list[Lent] = []
        self._watched = False

    def take(self, key: str, start: Callable[[], Lent]) -> Lent:
        """An idle process for this key, or a new one."""
        with self._lock:
            dead = [lent for lent in self._idle if not lent.process.alive]
            self._idle = [lent for lent in self._idle if lent.process.alive]
            found = next((lent for lent in reversed(self._idle) if lent.key == key), None)
            if found:
                self._idle.remove(found)
        for lent in dead:
            lent.close()
        return found or start()

    def give(self, lent: Lent) -> None:
        """Hand a process back; it is ended at once if it broke."""
        if not lent.process.alive:
            lent.close()
            return
        lent.used_at = time.monotonic()
        with self._lock:
            self._idle.append(lent)
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="kforge-evaluators", daemon=True).start()

    def close(self) -> None:
        """End all that are idle."""
        with self._lock:
            idle, self._idle = self._idle, []
        for lent in idle:
            lent.close()

    def _watch(self) -> None:
        while True:
            time.sleep(_TICK_S)
            limit = time.monotonic() - self._idle_s
            with self._lock:
                stale = [lent for lent in self._idle if lent.used_at < limit]
                self._idle = [lent for lent in self._idle if lent.used_at >= limit]
                self._watched = bool(self._idle)
                done = not self._watched
            for lent in stale:
                lent.close()
            if done:
                return


pool = Pool()
atexit.register(pool.close)
