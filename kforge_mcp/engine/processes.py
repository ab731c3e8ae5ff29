"""Child processes that end with the engine, and the control plane's side of the runtime protocol."""

from __future__ import annotations

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

# Linux kills a child with PR_SET_PDEATHSIG when the *thread* that forked it ends, so one lasting thread forks all.
_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kforge-spawner")


def spawn(command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, so that `kill_group` reaches all it forks."""
    start = _spawner.submit(subprocess.Popen, list(command), start_new_session=True, **options)
    return start.result()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill a child started by `spawn` with everything in its process group, and reap it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


class RuntimeProcess:
    """A process of the model interpreter that runs `kforge_mcp/runtime`, spoken to in framed JSON.

    Its printed output goes to `log`. Use as a context manager; leaving it kills the whole process group.
    """

    def __init__(
        self,
        executable: str,
        *,
        cwd: str | Path | None = None,
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
    ) -> None:
        ours, theirs = socket.socketpair()
        self.log = log
        output: IO[bytes] | int = log.open("ab") if log else subprocess.DEVNULL
        try:
            self.process = spawn(
                [executable, "-u", str(RUNTIME_MAIN), "--fd", str(theirs.fileno())],
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
        return self.process.poll() is None

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
        `cancelled` turns true. After a failure other than an error answer the process is killed.
        """
        self._number += 1
        deadline = time.monotonic() + timeout_s
        try:
            framing.send_frame(self._sock, {"id": self._number, "op": operation, "payload": payload})
            while True:
                self._wait(operation, deadline, timeout_s, cancelled)
                message = framing.receive_frame(self._sock)
                if message is None:
                    raise self._crash(operation)
                if "event" in message:
                    if on_event:
                        on_event(message["event"])
                elif "error" in message:
                    error = message["error"]
                    log = str(self.log or "")
                    raise RuntimeFailure(error["kind"], error["message"], trace=error["trace"], log=log)
                else:
                    return message["result"]
        except (OSError, framing.FrameError) as error:
            raise self._crash(operation) from error

    def _wait(
        self, operation: str, deadline: float, timeout_s: float, cancelled: Callable[[], bool] | None
    ) -> None:
        while not select.select([self._sock], [], [], _TICK_S)[0]:
            if cancelled and cancelled():
                self.close()
                raise JobCancelled(f"{operation} was cancelled")
            if time.monotonic() > deadline:
                self.close()
                message = f"{operation} did not end within {timeout_s:g} s"
                raise RuntimeFailure("timed_out", message, log=str(self.log or ""))

    def _crash(self, operation: str) -> RuntimeFailure:
        kill_group(self.process)
        code = self.process.returncode
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return RuntimeFailure("crashed", f"the process running {operation} ended with {how}", log=str(self.log or ""))
