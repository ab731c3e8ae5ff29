"""How the timed processes' malloc behaves."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_memory() -> None:
    """Make malloc keep what is freed, as it comes to do in a process that has run a whole model.

    A fresh process hands megabytes back after every call and pays the page faults again in the next: eager, which
    allocates its temporaries, would look slower than it is inside the model.
    """
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 30)
