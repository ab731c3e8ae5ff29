"""From rows to Dask tasks: every queued job becomes one task per attempt, and no row is left behind."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from distributed import Client, Future, fire_and_forget

from kforge_mcp.engine.cluster import advertised
from kforge_mcp.engine.execution import execute
from kforge_mcp.records.job import Job
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace

MAX_ATTEMPTS = 5
"""A job that was running each time the engine died is not tried for ever."""

_logger = logging.getLogger("kforge.engine")

Attempt = tuple[str, int]


class Dispatcher:
    """Submits the queued jobs of a workspace to the cluster of `client` and notices tasks that were lost.

    CPU and GPU jobs take one of the resource that the cluster's workers advertise under that name, so that timing has
    the device alone; light jobs take none.
    """

    def __init__(self, workspace: Workspace, client: Client) -> None:
        self._workspace = workspace
        self._client = client
        self._futures: dict[Attempt, Future] = {}

    async def step(self) -> int:
        """Bring rows and tasks together once; returns the number of unfinished jobs."""
        # Looked at before the rows are read: a task that had ended by then has committed its outcome, if it could.
        ended = {attempt for attempt, future in self._futures.items() if future.done()}
        rows = await asyncio.to_thread(self._unfinished)
        current = {(job.job_id, job.attempt) for job in rows}
        self._futures = {attempt: future for attempt, future in self._futures.items() if attempt in current}
        for job in rows:
            attempt = (job.job_id, job.attempt)
            if attempt in ended:
                _logger.warning("job %s attempt %d was lost", *attempt)
                await asyncio.to_thread(give_up_attempt, self._workspace, job, "its worker died")
            elif job.status == "queued" and attempt not in self._futures:
                await self._submit(job)
        return len(rows)

    async def _submit(self, job: Job) -> None:
        resources = await advertised(self._client)
        if resources is None:
            return
        if job.resource == "gpu" and "GPU" not in resources:
            message = "this job needs a GPU, and no worker of the engine has one (kforge-mcp engine status)"
            await asyncio.to_thread(_finish, self._workspace, job, status="failed", error=message, error_kind="usage")
            return
        wanted = job.resource.upper()
        future = self._client.submit(
            execute,
            str(self._workspace.root),
            job.job_id,
            job.attempt,
            key=f"{job.job_id}-{job.attempt}",
            resources={wanted: 1} if wanted in resources else None,
            pure=False,
            retries=0,
        )
        fire_and_forget(future)
        self._futures[job.job_id, job.attempt] = future

    def _unfinished(self) -> list[Job]:
        with self._workspace.reading() as session:
            return jobs.unfinished(session)


def recover(workspace: Workspace) -> None:
    """Queue again what was running when the last engine ended. For the start of an engine."""
    with workspace.reading() as session:
        left = [job for job in jobs.unfinished(session) if job.status == "running"]
    for job in left:
        if job.cancel_requested:
            _finish(workspace, job, status="cancelled", message="cancelled")
        else:
            give_up_attempt(workspace, job, "the engine ended")


def give_up_attempt(workspace: Workspace, job: Job, reason: str) -> None:
    """Queue the next attempt of a job whose attempt was lost, or fail the job after too many."""
    if job.attempt >= MAX_ATTEMPTS:
        text = f"given up after {job.attempt} attempts: each time {reason} while it ran (kforge-mcp engine logs)"
        _finish(workspace, job, status="failed", error=text, error_kind="internal")
        return
    with workspace.transaction() as session:
        jobs.requeue(session, job.job_id, job.attempt)


def _finish(workspace: Workspace, job: Job, **changes: Any) -> None:
    with workspace.transaction() as session:
        jobs.finish(session, job.job_id, job.attempt, **changes)
