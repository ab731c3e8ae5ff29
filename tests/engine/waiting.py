"""Waiting for what other processes do."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


def until(condition: Callable[[], Any]) -> Any:
    """What `condition` returns as soon as that is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that nobody reaps does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def number_in(file: Path) -> int:
    """The number that another process writes to `file`, once it is there."""
    return int(until(lambda: file.exists() and file.read_text().strip()))
