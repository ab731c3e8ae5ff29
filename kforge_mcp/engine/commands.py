"""Running one command to its end: with limits, cancellable, and gone with everything it started."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kforge_mcp.engine.processes import has_ended, kill_group, spawn
from kforge_mcp.errors import JobCancelled

SUPERVISOR = Path(__file__).with_name("supervisor.py")
OUTPUT_LIMIT = 32 << 20
"""Bytes that a command may print to one stream; one that prints more is killed."""
_SHORTEST_TICK_S = 0.005
_LONGEST_TICK_S = 0.1


@dataclass(frozen=True)
class CompletedRun:
    """How a command ended; `returncode` is the negative signal number for one that was killed.

    127 with a message on `stderr` says that the command could not be started.
    """

    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    output_exceeded: bool = False


def run_command(
    command: Sequence[str],
    *,
    cwd: str | Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float,
    input: str | bytes | None = None,  # noqa: A002
    memory_bytes: int = 0,
    cancelled: Callable[[], bool] = lambda: False,
) -> CompletedRun:
    """Run a command and return what it printed, decoded as UTF-8.

    `memory_bytes` limits the address space of each of its processes; 0 is no limit. Whatever it leaves running in
    its process group is killed at its end. Raises `JobCancelled` when `cancelled` turns true, `OSError` if `cwd`
    cannot be entered.
    """
    with tempfile.TemporaryFile() as stdin, tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        if input:
            stdin.write(input.encode() if isinstance(input, str) else input)
            stdin.seek(0)
        process = spawn(
            [sys.executable, "-I", "-S", str(SUPERVISOR), str(os.getpid()), str(memory_bytes), *command],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=cwd,
            env=dict(os.environ if environment is None else environment),
        )
        timed_out = exceeded = False
        try:
            deadline = time.monotonic() + timeout_s
            tick = _SHORTEST_TICK_S
            while not has_ended(process):
                if cancelled():
                    raise JobCancelled(f"{Path(command[0]).name} was cancelled")
                timed_out = time.monotonic() > deadline
                exceeded = any(os.fstat(stream.fileno()).st_size > OUTPUT_LIMIT for stream in (stdout, stderr))
                if timed_out or exceeded:
                    break
                time.sleep(tick)
                tick = min(tick * 1.5, _LONGEST_TICK_S)
        finally:
            kill_group(process)
        if cancelled():
            raise JobCancelled(f"{Path(command[0]).name} was cancelled")
        return CompletedRun(process.returncode, _text(stdout), _text(stderr), timed_out, exceeded)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read(OUTPUT_LIMIT).decode(errors="replace")
