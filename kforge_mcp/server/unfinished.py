"""What a job without a result says, in the output of the tool that submitted it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from mcp.server.mcpserver.exceptions import ToolError

from kforge_mcp.records.job import Job
from kforge_mcp.records.result import Status
from kforge_mcp.server.results import clip


class JobFields(Protocol):
    """An output that can stand for a job without a result."""

    def __init__(self, *, status: Status, job_id: str, message: str, next_step: str) -> None: ...


_Output = TypeVar("_Output", bound=JobFields)


def unfinished(job: Job, output: type[_Output], work: str) -> tuple[str, _Output] | None:
    """Text and structure while a job goes on or after it was cancelled; None once it has a result.

    `work` names the work in a sentence, say `the export`. Raises `ToolError` with the job's text if it failed.
    """
    if job.status == "failed":
        raise ToolError(clip(job.error, 3000))
    if job.status == "ok" and job.result is not None:
        return None
    message = job.message or f"{work} goes on whether or not anyone waits"
    step = "" if job.status == "cancelled" else f"Call job_status(job_id='{job.job_id}', wait_s=45) for the result."
    text = f"{job.tool}: {job.status}. {message}\njob_id: {job.job_id}\n{step}"
    return text, output(status=job.status, job_id=job.job_id, message=message, next_step=step)
