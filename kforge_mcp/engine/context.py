"""What a job's function gets: its workspace, progress, cancelling, and processes that end with the job."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from kforge_mcp.engine.commands import CompletedRun, run_command
from kforge_mcp.engine.devices import device_lock
from kforge_mcp.engine.environment import travelling
from kforge_mcp.engine.processes import RuntimeProcess, kill_group
from kforge_mcp.errors import JobCancelled, UsageError
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.job import Job
from kforge_mcp.records.project import Interpreter
from kforge_mcp.store.workspace import Workspace

PROGRESS_INTERVAL_S = 0.5
_LOCK_TICK_S = 0.1

Report = Callable[[str, float], None]


class JobContext:
    """One attempt of a job. Its processes are killed when the job is cancelled and when it ends."""

    def __init__(self, workspace: Workspace, job: Job, report: Report | None = None) -> None:
        self.workspace = workspace
        self.job = job
        self._report = report or (lambda _message, _fraction: None)
        self._reported_at = 0.0
        self._last: tuple[str, float] = ("", 0.0)
        self._cancel = threading.Event()
        self._lock = threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._folders: list[Path] = []

    @classmethod
    def standalone(
        cls,
        workspace: Workspace,
        tool: str = "test",
        *,
        report: Report | None = None,
        environment: Mapping[str, str] | None = None,
        cwd: str | Path = "",
    ) -> Self:
        """A context without an engine and without a row, for running a job's function in this process.

        `environment` is taken whole (default: what travels of this process's own); use `close()`, or the context as
        a context manager, to end its processes and remove its folders.
        """
        job = Job(
            job_id=new_id("job"),
            tool=tool,
            function="",
            arguments={},
            arguments_key="",
            environment=dict(travelling(os.environ) if environment is None else environment),
            cwd=str(cwd or Path.cwd()),
            status="running",
            created_at=now(),
            started_at=now(),
        )
        return cls(workspace, job, report)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def environment(self) -> dict[str, str]:
        """The environment for the job's processes: the submitting server's, with idle threads that do not spin."""
        return {**self.job.environment, "OMP_WAIT_POLICY": "passive"}

    def progress(self, message: str, fraction: float = 0.0) -> None:
        """Say what the job is doing and how far it is, 0 to 1; stored at most twice a second.

        Raises `JobCancelled` if the job was cancelled.
        """
        self.check_cancelled()
        self._last = (message, fraction)
        if time.monotonic() - self._reported_at >= PROGRESS_INTERVAL_S:
            self.flush()

    def flush(self) -> None:
        """Store the latest progress if it is not stored yet."""
        if self._last[0]:
            self._reported_at = time.monotonic()
            self._report(*self._last)
            self._last = ("", 0.0)

    def cancel(self) -> None:
        """Make `cancelled` true and kill the job's processes; called by whoever watches the job."""
        self._cancel.set()
        self._kill()

    def cancelled(self) -> bool:
        """Whether the job is to stop."""
        return self._cancel.is_set()

    def check_cancelled(self) -> None:
        """Raise `JobCancelled` if the job is to stop."""
        if self._cancel.is_set():
            raise JobCancelled(f"job {self.job.job_id} was cancelled")

    def run(
        self,
        command: Sequence[str],
        *,
        cwd: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float,
        input: str | bytes | None = None,  # noqa: A002
        memory_bytes: int = 0,
    ) -> CompletedRun:
        """Run a command to its end, by default in the job's folder and environment; `env` replaces the latter.

        Its process group is killed at the end of the time (`timed_out`), on cancelling, and with the engine.
        `memory_bytes` limits the address space of each process. Raises `JobCancelled`.
        """
        self.check_cancelled()
        return run_command(
            command,
            cwd=self._folder(cwd),
            environment=self.environment if env is None else env,
            timeout_s=timeout_s,
            input=input,
            memory_bytes=memory_bytes,
            cancelled=self.cancelled,
        )

    def runtime(
        self,
        interpreter: Interpreter,
        *,
        cwd: str | Path | None = None,
        log: Path | None = None,
        extra_environment: Mapping[str, str] | None = None,
    ) -> RuntimeProcess:
        """A process of the model interpreter; use it as a context manager. Its calls raise `JobCancelled`.

        Raises `RuntimeFailure` if it cannot be started.
        """
        self.check_cancelled()
        process = RuntimeProcess(
            interpreter.executable,
            cwd=self._folder(cwd),
            environment={**self.environment, **(extra_environment or {})},
            log=log,
            cancelled=self.cancelled,
        )
        with self._lock:
            self._processes = [other for other in self._processes if other.returncode is None]
            self._processes.append(process.process)
        if self.cancelled():
            process.close()
            self.check_cancelled()
        return process

    def scratch(self) -> Path:
        """A fresh folder that is removed when the job ends."""
        folder = Path(tempfile.mkdtemp(prefix=f"{self.job.job_id}-", dir=self.workspace.scratch_dir))
        with self._lock:
            self._folders.append(folder)
        return folder

    @contextmanager
    def device_lock(self, key: str = "cpu") -> Iterator[None]:
        """Hold a device (`cpu` or a GPU's UUID) alone among all workspaces of this machine; raises `JobCancelled`."""

        def pause() -> None:
            self.progress(f"waiting for the {key}, which another kforge job is timing on", self._last[1])
            self._cancel.wait(_LOCK_TICK_S)

        with device_lock(key, pause):
            yield

    def close(self) -> None:
        """End the job's processes and remove its folders."""
        self._kill()
        with self._lock:
            folders, self._folders = self._folders, []
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)

    def _kill(self) -> None:
        with self._lock:
            processes, self._processes = self._processes, []
        for process in processes:
            kill_group(process)

    def _folder(self, cwd: str | Path | None) -> Path:
        folder = Path(self.job.cwd, cwd or "")
        if not folder.is_dir():
            raise UsageError(f"the folder {folder} of this job does not exist (any more)")
        return folder
