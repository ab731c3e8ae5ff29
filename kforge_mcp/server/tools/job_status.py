"""`job_status`: how far a job is, and its result."""

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


async def job_status(ctx: Call, job_id: JobId, wait_s: WaitS = -1) -> Annotated[CallToolResult, JobOutput]:
    """Wait for a job and get its result; works from any client of the workspace, also after restarts."""
    app = application(ctx)
    deadline = time.monotonic() + seconds(app, wait_s)

    def look() -> Job:
        from kforge_mcp.engine import jobs

        # Waiting no time still restarts an engine that died, and with it the job.
        return jobs.wait(app.workspace, job_id, 0)

    job = await anyio.to_thread.run_sync(look)
    return reply(*job_versions(await wait_for(ctx, job, deadline)))


TOOL = ToolSpec(job_status, title="Ask for a job", toolset="jobs", read_only=True, idempotent=True)
