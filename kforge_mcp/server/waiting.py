"""Long work behind a short call: submit the job, wait a while with progress, answer with what there is."""

from __future__ import annotations

import time
from typing import Any

import anyio
import anyio.to_thread

from kforge_mcp.records.job import Job
from kforge_mcp.server.application import Application, Call, application
from kforge_mcp.server.settings import MAX_WAIT_S

TICK_S = 1.0


def seconds(app: Application, wait_s: float) -> float:
    """The wait of one call: -1 is the server's own."""
    return min(app.settings.wait_s if wait_s < 0 else wait_s, MAX_WAIT_S)


async def run_job(ctx: Call, *, tool: str, function: str, arguments: dict[str, Any], wait_s: float) -> Job:
    """Submit a job and wait for it up to `wait_s`; the job goes on when the waiting ends, for whatever reason."""
    app = application(ctx)
    deadline = time.monotonic() + seconds(app, wait_s)

    def submit() -> Job:
        from kforge_mcp.engine import jobs

        return jobs.submit(app.workspace, tool=tool, function=function, arguments=arguments)

    # A submission that the client gives up on half-way must still reach the engine.
    job: Job | None = None
    with anyio.CancelScope(shield=True):
        job = await anyio.to_thread.run_sync(submit)
    assert job is not None
    return await wait_for(ctx, job, deadline)


async def wait_for(ctx: Call, job: Job, deadline: float) -> Job:
    """Wait for a job until `deadline` (monotonic seconds), with progress to the client every second."""
    app = application(ctx)

    def wait(job_id: str, wait_s: float) -> Job:
        from kforge_mcp.engine import jobs

        return jobs.wait(app.workspace, job_id, wait_s)

    told = 0.0
    while not job.finished and (left := deadline - time.monotonic()) > 0:
        job = await anyio.to_thread.run_sync(wait, job.job_id, min(TICK_S, left), abandon_on_cancel=True)
        # Progress must increase from one notification to the next, whatever the job reports.
        told = max(told + 1e-6, job.progress)
        await ctx.report_progress(told, 1.0, f"{job.tool}: {job.message or job.status}")
    return job
