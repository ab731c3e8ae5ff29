"""Evaluators for one job: an exec'ed process of the model interpreter that forks a referee per evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.processes import RuntimeProcess
from kforge_mcp.errors import RuntimeFailure
from kforge_mcp.judge.admission import admissions
from kforge_mcp.judge.pool import Lent, pool
from kforge_mcp.judge.request import CALL_TIMEOUT_S, Mode, Subject, environment, request
from kforge_mcp.records.base import new_id
from kforge_mcp.records.project import Project

_EVALUATION_TIMEOUT_S = 900.0


class Evaluators:
    """Opens the process at the first evaluation; use as a context manager, which holds the CPU for a CPU project."""

    def __init__(self, ctx: JobContext, project: Project, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._ctx = ctx
        self._project = project
        self._call_timeout_s = call_timeout_s
        self._process: RuntimeProcess | None = None
        self._held = ExitStack()
        """The CPU's lock: from entering to leaving."""
        self._lent: Lent | None = None
        self._log_start = 0
        self._import_in_children = False
        self._scratch = ctx.scratch()
        self.device_s = 0.0

    def __enter__(self) -> Self:
        if self._project.target == "cpu":
            self._held.enter_context(self._ctx.device_lock("cpu"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self._held.close()

    def evaluate(
        self,
        subject: Subject,
        *,
        mode: Mode,
        schedule: dict[str, Any] | None,
        admitted: frozenset[str] = frozenset(),
        on_progress: Callable[[str], None] | None = None,
    ) -> dict[str, Any] | Rejected:
        """One evaluation in a fresh process. Raises `RuntimeFailure` if the judge's own processes fail.

        Variants are tried on the inputs that the card's admissions name; `admitted` are to be taken as they are.
        """
        asked = request(
            self._project,
            subject,
            mode=mode,
            blob_root=self._ctx.workspace.blobs.root,
            scratch=self._scratch,
            schedule=schedule,
            admitted=admitted,
            admissions=admissions(subject.card, self._project),
            call_timeout_s=self._call_timeout_s,
        )
        if isinstance(asked, Rejected):
            return asked
        if self._project.target == "cuda":
            # That process takes the device's lock itself, together with the spares that it keeps.
            result = self._call_lasting(asked, on_progress)
        else:
            result = self._call(asked, on_progress)
            if result.get("import_in_children"):
                self._close()
                self._import_in_children = True
                result = self._call(asked, on_progress)
        self.device_s += result["device_s"]
        return result

    def _call_lasting(self, asked: dict[str, Any], on_progress: Callable[[str], None] | None) -> dict[str, Any]:
        """On a CUDA device: in a process that outlives the job and keeps children ready."""
        if self._lent is None or not self._lent.process.alive:
            self._lent = pool.take(self._pool_key(), self._start_lasting)
            self._log_start = self._lent.log.stat().st_size if self._lent.log.exists() else 0
        lent = self._lent

        def forward(event: dict[str, Any]) -> None:
            if on_progress:
                on_progress(event["message"])

        try:
            while True:
                payload = {**asked, "import_in_children": lent.import_in_children}
                answer = lent.process.call(
                    "evaluate_cuda",
                    payload,
                    timeout_s=_EVALUATION_TIMEOUT_S,
                    on_event=forward,
                    cancelled=self._ctx.cancelled,
                )
                if not answer.get("import_in_children"):
                    return answer
                # Importing the model's code started threads: a process with threads must not fork.
                lent.close()
                lent = self._lent = self._start_lasting()
                lent.import_in_children = True
        except RuntimeFailure as failure:
            failure.trace = f"{failure.trace}\n{self.log()}".strip()
            raise

    def _pool_key(self) -> str:
        project = self._project
        parts = [project.interpreter.executable, project.project_dir, sorted(self._environment().items())]
        return json.dumps([project.project_id, *parts, str(self._ctx.workspace.root)])

    def _environment(self) -> dict[str, str]:
        return {**self._ctx.environment, **environment(self._project)}

    def _start_lasting(self) -> Lent:
        log = self._ctx.workspace.scratch_dir / f"{new_id('evaluators')}.log"
        process = RuntimeProcess(
            self._project.interpreter.executable,
            cwd=self._project.project_dir or self._ctx.job.cwd,
            environment=self._environment(),
            log=log,
        )
        return Lent(self._pool_key(), process, log)

    def _call(self, asked: dict[str, Any], on_progress: Callable[[str], None] | None) -> dict[str, Any]:
        if self._process is None or not self._process.alive:
            self._process = self._ctx.runtime(
                self._project.interpreter,
                cwd=self._project.project_dir or None,
                log=self._scratch / "evaluators.log",
                extra_environment=environment(self._project),
            )
        payload = {**asked, "import_in_children": self._import_in_children}

        def forward(event: dict[str, Any]) -> None:
            if on_progress:
                on_progress(event["message"])

        try:
            return self._process.call("evaluate", payload, timeout_s=_EVALUATION_TIMEOUT_S, on_event=forward)
        except RuntimeFailure as failure:
            failure.trace = f"{failure.trace}\n{self.log()}".strip()
            raise

    def log(self) -> str:
        """The end of what the evaluators printed."""
        path = self._lent.log if self._lent else self._scratch / "evaluators.log"
        if not path.exists():
            return ""
        return path.read_bytes()[self._log_start :].decode(errors="replace")[-4000:]

    def _close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
        if self._lent is not None:
            pool.give(self._lent)
            self._lent = None
