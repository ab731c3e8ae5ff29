"""Child processes that end with the engine, and the control plane's side of the runtime protocol."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from kforge_mcp.errors import JobCancelled, RuntimeFailure
from kforge_mcp.runtime import framing

RUNTIME_MAIN = Path(framing.__file__).with_name("__main__.py")
_TICK_S = 0.2
_LAST_TICK_S = 0.01
_LAST_WORDS_S = 1.0
"""How long a process that closed its socket may take to exit by itself, so that its own exit status is reported."""

# Linux kills a child with PR_SET_PDEATHSIG when the *thread* that forked it ends, so one lasting thread forks all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kforge-spawner")


def spawn(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, so that `kill_group` reaches all it forks."""
    start = _spawner.submit(subprocess.Popen[bytes], list(command), start_new_session=True, **options)
    return start.result()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child started by `spawn` with everything in its process group, and reap it; safe to repeat."""
    if process.returncode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the child ended, without reaping it: its id, and so its group's, stays taken until `kill_group`."""
    if process.returncode is not None:
        return True
    try:
        return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def how_it_ended(returncode: int) -> str:
    """An exit status for people: `signal SIGSEGV` or `exit status 1`."""
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        return f"signal {signal.Signals(-returncode).name}"
    except ValueError:
        return f"signal {-returncode}"


class RuntimeProcess:
    """A process of the model interpreter that runs `kforge_mcp/runtime`, spoken to in framed JSON.

    Its printed output goes to `log`. Use as a context manager; leaving it kills the whole process group. `cancelled`
    is asked during every call.
    """

    def __init__(
        self,
        executable: str,
        *,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> None:
        ours, theirs = socket.socketpair()
        self.log = log
        self._cancelled = cancelled
        output: IO[bytes] | int = subprocess.DEVNULL
        try:
            output = log.open("ab") if log else subprocess.DEVNULL
            self.process = spawn(
                [executable, "-u", str(RUNTIME_MAIN), str(theirs.fileno()), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=cwd,
                env=dict(os.environ if environment is None else environment),
                pass_fds=[theirs.fileno()],
            )
        except OSError as error:
            ours.close()
            raise RuntimeFailure("crashed", f"cannot start {executable}: {error}") from error
        finally:
            theirs.close()
            if not isinstance(output, int):
                output.close()
        self._sock = ours
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return not has_ended(self.process)

    def close(self) -> None:
        """Kill the process group and release the socket; safe to call twice."""
        kill_group(self.process)
        self._sock.close()

    def call(
        self,
        operation: str,
        payload: dict[str, Any],
        *,
        timeout_s: float,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> dict[str, Any]:
        """Send one request and return its result; events go to `on_event` as they come.

        Raises `RuntimeFailure` for an error answer, a crash or the end of the time, `JobCancelled` when
        `cancelled` (or the process's own) turns true. After a failure other than an error answer the process is killed.
        """
        self._number += 1
        deadline = time.monotonic() + timeout_s
        stop = cancelled or self._cancelled
        try:
            self._sock.settimeout(timeout_s)
            framing.send_frame(self._sock, {"id": self._number, "op": operation, "payload": payload})
            while True:
                self._wait(operation, deadline, timeout_s, stop)
                message = framing.receive_frame(self._sock)
                if message is None:
                    raise self._crash(operation, stop)
                if message.get("id") != self._number:
                    continue
                if "event" in message:
                    if on_event:
                        on_event(message["event"])
                elif "error" in message:
                    error = message["error"]
                    log = str(self.log or "")
                    raise RuntimeFailure(error["kind"], error["message"], trace=error["trace"], log=log)
                else:
                    return message["result"]
        except TimeoutError as error:
            raise self._timeout(operation, timeout_s) from error
        except (OSError, framing.FrameError, json.JSONDecodeError, UnicodeDecodeError) as error:
            raise self._crash(operation, stop) from error

    def _wait(self, operation: str, deadline: float, timeout_s: float, cancelled: Callable[[], bool] | None) -> None:
        """Return when a message has begun to arrive; the rest of it may take what is left of the time."""
        while True:
            if cancelled and cancelled():
                self.close()
                raise JobCancelled(f"{operation} was cancelled")
            left = deadline - time.monotonic()
            if left <= 0:
                raise self._timeout(operation, timeout_s)
            if select.select([self._sock], [], [], min(left, _TICK_S))[0]:
                self._sock.settimeout(max(left, _TICK_S))
                return

    def _timeout(self, operation: str, timeout_s: float) -> RuntimeFailure:
        self.close()
        return RuntimeFailure("timed_out", f"{operation} did not end within {timeout_s:g} s", log=str(self.log or ""))

    def _crash(self, operation: str, cancelled: Callable[[], bool] | None) -> Exception:
        patience = time.monotonic() + _LAST_WORDS_S
        while not (ended := has_ended(self.process)) and time.monotonic() < patience:
            time.sleep(_LAST_TICK_S)
        kill_group(self.process)
        how = f"ended with {how_it_ended(self.process.returncode)}" if ended else "broke the protocol and was killed"
        if cancelled and cancelled():
            return JobCancelled(f"{operation} was cancelled")
        return RuntimeFailure("crashed", f"the process running {operation} {how}", log=str(self.log or ""))
