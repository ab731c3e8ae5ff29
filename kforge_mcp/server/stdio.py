"""Standard output belongs to the protocol: whatever else prints goes to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def stdout_guarded() -> Iterator[int]:
    """Send descriptor 1 to standard error, and yield a private duplicate of the real one.

    Imports, extensions and child processes that write to standard output before the transport takes over would
    otherwise corrupt the stream. Call `give_back` with the duplicate right before serving.
    """
    sys.stdout.flush()
    wire = os.dup(1)
    os.set_inheritable(wire, False)
    os.dup2(2, 1)
    try:
        yield wire
    finally:
        os.close(wire)


def give_back(wire: int) -> None:
    """Point descriptor 1 at the real output again; from here on the transport guards it."""
    sys.stdout.flush()
    os.dup2(wire, 1)
