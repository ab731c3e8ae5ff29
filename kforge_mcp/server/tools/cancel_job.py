"""`cancel_job`: the only call that ends a job."""

from __future__ import annotations

import time
from typing import Annotated

import anyio.to_thread
from mcp_types import CallToolResult

from kforge_mcp.records.job import Job
from kforge_mcp.server.application import Call, application
from kforge_mcp.server.job_page import JobOutput, job_versions
from kforge_mcp.server.parameters import JobId, WaitS
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import reply
from kforge_mcp.server.waiting import seconds, wait_for


async def cancel_job(ctx: Call, job_id: JobId, wait_s: WaitS = -1) -> Annotated[CallToolResult, JobOutput]:
    """End a job. Candidates and results that exist stay; a finished job is left as it is."""
    app = application(ctx)
    deadline = time.monotonic() + seconds(app, wait_s)

    def cancel() -> Job:
        from kforge_mcp.engine import jobs

        return jobs.cancel(app.workspace, job_id)

    job = await anyio.to_thread.run_sync(cancel)
    return reply(*job_versions(await wait_for(ctx, job, deadline)))


TOOL = ToolSpec(cancel_job, title="Cancel a job", toolset="jobs", read_only=False, destructive=True, idempotent=True)
