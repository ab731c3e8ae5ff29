"""The parent of every command that a job runs: it ends the command's whole process group when the engine dies.

Run as a script by the control plane's own Python: `supervisor.py ENGINE_PID MEMORY_BYTES COMMAND...`. Linux tells only
a direct child of its parent's death, so this process stays and passes that on; nothing has to run between a fork and
an exec in the engine, which has many threads.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_COULD_NOT_START = 127


def main() -> None:
    """Run the command and end as it ended."""
    engine, memory_bytes, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]

    def end_group(_signal: int, _frame: object) -> None:
        os.killpg(0, signal.SIGKILL)

    signal.signal(signal.SIGTERM, end_group)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != engine:
        return
    child = os.fork()
    if child == 0:
        _become(command, memory_bytes)
    for stream in (0, 1, 2):
        os.close(stream)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        _end_by(os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


def _become(command: list[str], memory_bytes: int) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if memory_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"cannot start {command[0]}: {error.strerror}\n".encode())
        os._exit(_COULD_NOT_START)


def _end_by(number: int) -> None:
    """End as the command did, without a core file of our own."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


if __name__ == "__main__":
    main()
