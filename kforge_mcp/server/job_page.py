"""A job as its reader sees it, with the result of the tool that started it."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from kforge_mcp.records.base import now
from kforge_mcp.records.job import Job
from kforge_mcp.records.result import Stage, Status
from kforge_mcp.server.results import PAGE_LIMIT, Output, clip, structure
from kforge_mcp.server.stage import job_stage_versions

_ROOM = PAGE_LIMIT - 500
"""Characters for the tool's own result, so that it fits with what is said of the job."""
_STAGES: dict[str, Stage] = {
    "submit_candidate": "benchmark", "compile_candidate": "compile", "validate": "validate", "benchmark": "benchmark",
}  # fmt: skip


class JobOutput(Output):
    """A job. `ok` says that it ran: a candidate that failed is the result of an `ok` job too."""

    job_id: str
    tool: str
    status: Status
    elapsed_s: float
    message: str
    result: dict[str, Any] = Field(default_factory=dict, description="The tool's own result; empty while it runs")


def job_versions(job: Job) -> tuple[str, JobOutput]:
    """Text and structure of a job. A job that failed is a normal answer here: its message says why."""
    # The last progress of a job that ended well would read as if it had stopped there.
    text, result, message = "", {}, "" if job.status == "ok" else job.message
    if job.status == "failed":
        message = clip(job.error, 2000)
    elif job.status == "ok":
        text, output = _own(job)
        result = structure(output) if output else {}
    end = job.finished_at or now()
    output = JobOutput(
        job_id=job.job_id,
        tool=job.tool,
        status=job.status,
        elapsed_s=round((end - (job.started_at or job.created_at)).total_seconds(), 1),
        message=message,
        result=result,
    )
    step = "" if job.finished else f"\nnext: job_status(job_id='{job.job_id}', wait_s=45)"
    head = f"{job.job_id} {job.tool}: {job.status} after {output.elapsed_s:g} s"
    return head + (f". {message}" if message else "") + step + (f"\n{text}" if text else ""), output


def _own(job: Job) -> tuple[str, Output | None]:
    """The tool's own text and structure."""
    from kforge_mcp.server.export_page import export_versions
    from kforge_mcp.server.profile_page import profile_versions
    from kforge_mcp.server.tools.capture_model import capture_versions

    try:
        if job.tool in _STAGES:
            return job_stage_versions(job, str(job.arguments.get("candidate_id", "")), _STAGES[job.tool])
        if job.tool == "capture_model":
            return capture_versions(job, _ROOM)
        if job.tool == "export_package":
            return export_versions(job, _ROOM)
        if job.tool == "profile_candidate":
            return profile_versions(job, _ROOM)
    except ToolError as error:
        return str(error), None
    return "", None
