"""Jobs as their callers see them: submit, wait, cancel. The row in the database is the truth.

A job is a committed row before anything else happens. The engine finds it there by itself, so neither the death of
the submitting server nor that of the engine loses it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from kforge_mcp.engine.environment import travelling
from kforge_mcp.engine.starter import ensure_engine
from kforge_mcp.engine.state import is_running
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.job import Job
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace

PROGRESS_INTERVAL_S = 1.0
_SHORTEST_TICK_S = 0.02
_LONGEST_TICK_S = 0.2


def submit(
    workspace: Workspace,
    *,
    tool: str,
    function: str,
    arguments: dict[str, Any],
    resource: Literal["cpu", "gpu", "light"] = "cpu",
    environment: Mapping[str, str] | None = None,
    cwd: str | None = None,
) -> Job:
    """Commit a job and see to it that an engine runs; an unfinished job of an equal call is returned instead.

    `function` is `package.module:callable`; `arguments` must be JSON. `environment` and `cwd` are by default those
    of this process; see `kforge_mcp.engine.environment` for what travels. `resource`: jobs of `cpu`, and of each
    GPU, run one at a time, `light` ones beside them. Raises `WorkspaceError`.
    """
    key = arguments_key(tool, arguments)
    with workspace.transaction() as session:
        job = jobs.find_active(session, key)
        if job is None:
            job = Job(
                job_id=new_id("job"),
                tool=tool,
                function=function,
                arguments=arguments,
                arguments_key=key,
                resource=resource,
                environment=travelling(os.environ if environment is None else environment),
                cwd=os.getcwd() if cwd is None else cwd,
                created_at=now(),
            )
            jobs.save(session, job)
    ensure_engine(workspace)
    return job


def wait(workspace: Workspace, job_id: str, wait_s: float, on_progress: Callable[[Job], None] | None = None) -> Job:
    """The job when it has finished, or as it is after `wait_s` seconds.

    An engine that died is started again, and goes on with the job. `on_progress` is called when the job's message
    or progress changes, and every second. Raises `NotFoundError`, and `WorkspaceError` if no engine can be started.
    """
    deadline = time.monotonic() + wait_s
    tick = _SHORTEST_TICK_S
    told: tuple[str, str, float] | None = None
    told_at = 0.0
    while True:
        job = get(workspace, job_id)
        if job.finished:
            return job
        if not is_running(workspace.engine_dir):
            ensure_engine(workspace)
        state = (job.status, job.message, job.progress)
        if on_progress and (state != told or time.monotonic() - told_at >= PROGRESS_INTERVAL_S):
            on_progress(job)
            told, told_at = state, time.monotonic()
        left = deadline - time.monotonic()
        if left <= 0:
            return job
        time.sleep(min(tick, left))
        tick = min(tick * 1.2, _LONGEST_TICK_S)


def cancel(workspace: Workspace, job_id: str) -> Job:
    """End a job: at once if it waits or no engine runs, else within a second, with all its processes.

    The job may still be `running` in what is returned; a finished one is returned as it is. Raises `NotFoundError`.
    """
    with workspace.transaction() as session:
        job = jobs.request_cancel(session, job_id)
        if job.finished or is_running(workspace.engine_dir):
            return job
        jobs.finish(session, job_id, job.attempt, status="cancelled", message="cancelled")
        return jobs.get(session, job_id)


def get(workspace: Workspace, job_id: str) -> Job:
    """The job as it is. Raises `NotFoundError`."""
    with workspace.reading() as session:
        return jobs.get(session, job_id)


def arguments_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """Equal for calls of one tool with equal arguments."""
    text = json.dumps([tool, arguments], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
