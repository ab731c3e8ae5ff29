"""What a process of ours does first: die with its parent, keep the protocol apart from printed output."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int = 0) -> None:
    """Ask Linux to kill this process when the thread that started it ends; elsewhere the closed socket does it.

    `parent` is the process that started this one, if known: if it is gone already, so is the reason to go on. A
    wrapper script may stand between, so only being handed to init counts, and not where init itself is the parent.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if parent > 1 and os.getppid() == 1:
            os._exit(1)
