"""Long work as a row: the row is the truth, processes come and go."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kforge_mcp.records.base import Moment, Record

JobStatus = Literal["queued", "running", "ok", "failed", "cancelled"]


class Job(Record):
    """A unit of work in the engine. `ok` says that the job ran; a bad candidate is an `ok` job too."""

    job_id: str
    tool: str
    """The tool whose result this job produces."""
    function: str
    """Dotted name `package.module:callable`, called with a `JobContext` and the arguments."""
    arguments: dict[str, Any]
    arguments_key: str
    """Hash of tool and arguments: a call with an equal key attaches to the unfinished job."""
    resource: Literal["cpu", "gpu", "light"] = "cpu"
    environment: dict[str, str] = Field(default_factory=dict)
    cwd: str = ""
    status: JobStatus = "queued"
    attempt: int = 1
    created_at: Moment
    started_at: Moment | None = None
    finished_at: Moment | None = None
    message: str = ""
    progress: float = 0.0
    result: dict[str, Any] | None = None
    error: str = ""
    error_kind: Literal["", "usage", "internal"] = ""
    cancel_requested: bool = False

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in ("ok", "failed", "cancelled")
