"""Evaluators for one job: an exec'ed process of the model interpreter that forks a referee per evaluation."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.processes import RuntimeProcess
from kforge_mcp.errors import RuntimeFailure
from kforge_mcp.judge.admission import admissions
from kforge_mcp.judge.request import CALL_TIMEOUT_S, Mode, Subject, environment, request
from kforge_mcp.records.project import Project

_EVALUATION_TIMEOUT_S = 900.0


class Evaluators:
    """Opens the process at the first evaluation; use as a context manager."""

    def __init__(self, ctx: JobContext, project: Project, *, call_timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._ctx = ctx
        self._project = project
        self._call_timeout_s = call_timeout_s
        self._process: RuntimeProcess | None = None
        self._import_in_children = False
        self._scratch = ctx.scratch()
        self.device_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

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
        result = self._call(asked, on_progress)
        if result.get("import_in_children"):
            self._close()
            self._import_in_children = True
            result = self._call(asked, on_progress)
        self.device_s += result["device_s"]
        return result

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
        path = self._scratch / "evaluators.log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def _close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None
