"""One attempt of a job, in a thread of a Dask worker: claim the row, call the function, commit the outcome."""

from __future__ import annotations

import functools
import importlib
import json
import logging
import threading
import traceback
from typing import Any

from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import JobCancelled, UsageError, WorkspaceError
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace

WATCH_INTERVAL_S = 0.25
_COMMIT_TRIES = 5

_logger = logging.getLogger("kforge.engine")


def execute(root: str, job_id: str, attempt: int) -> str:
    """Run an attempt and return its job's status; `skipped` if it is not to be run any more.

    This is the task that Dask sees. All that it needs is in the workspace at `root`, which the worker must reach.
    """
    workspace = _opened(root)
    with workspace.transaction() as session:
        job = jobs.start(session, job_id, attempt)
    if job is None:
        return "skipped"
    _logger.info("job %s (%s) attempt %d starts", job_id, job.tool, attempt)

    def report(message: str, fraction: float) -> None:
        try:
            with workspace.transaction() as session:
                jobs.update_progress(session, job_id, attempt, message, fraction)
        except WorkspaceError as error:
            _logger.warning("job %s: its progress was not stored: %s", job_id, error)

    with JobContext(workspace, job, report) as context, _Watched(context):
        changes = _outcome(context)
    _commit(workspace, job_id, attempt, changes)
    _logger.info("job %s ended: %s", job_id, changes["status"])
    return changes["status"]


def _outcome(context: JobContext) -> dict[str, Any]:
    job = context.job
    try:
        module, _, name = job.function.partition(":")
        result = getattr(importlib.import_module(module), name)(context, **job.arguments)
        if not isinstance(result, dict):
            raise TypeError(f"{job.function} returned {type(result).__name__} where a job returns a dict")
        # Found out here, where it fails this job, and not while its row is written.
        json.dumps(result, allow_nan=False)
    except JobCancelled:
        return _cancelled()
    except UsageError as error:
        return {"status": "failed", "error": str(error), "error_kind": "usage"}
    except (Exception, SystemExit) as error:
        if context.cancelled():
            return _cancelled()
        _logger.exception("job %s (%s) failed", job.job_id, job.function)
        text = "".join(traceback.format_exception_only(error)).strip()
        return {"status": "failed", "error": text, "error_kind": "internal"}
    return {"status": "ok", "result": result, "progress": 1.0}


def _cancelled() -> dict[str, Any]:
    return {"status": "cancelled", "message": "cancelled"}


def _commit(workspace: Workspace, job_id: str, attempt: int, changes: dict[str, Any]) -> None:
    """Store the outcome; a result of minutes is not given up because another process holds the database."""
    for attempts_left in reversed(range(_COMMIT_TRIES)):
        try:
            with workspace.transaction() as session:
                if not jobs.finish(session, job_id, attempt, **changes):
                    _logger.warning("job %s attempt %d was given up; its outcome is dropped", job_id, attempt)
            return
        except WorkspaceError:
            if not attempts_left:
                raise
            _logger.exception("job %s: its outcome is not stored yet", job_id)


class _Watched:
    """While entered, a thread looks at the job's row and cancels the context when that is asked for."""

    def __init__(self, context: JobContext) -> None:
        self._context = context
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"kforge-watch-{context.job.job_id}", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exception: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        job = self._context.job
        while not self._ended.wait(WATCH_INTERVAL_S):
            try:
                with self._context.workspace.reading() as session:
                    wanted = jobs.is_wanted(session, job.job_id, job.attempt)
            except WorkspaceError as error:
                _logger.warning("job %s cannot be watched: %s", job.job_id, error)
                continue
            if not wanted:
                self._context.cancel()
                return


@functools.cache
def _opened(root: str) -> Workspace:
    return Workspace.open(root)
