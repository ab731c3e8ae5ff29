"""Jobs of a workspace. Every change is fenced by the attempt, so that a job that was given up cannot write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kforge_mcp.records.base import now
from kforge_mcp.records.job import Job
from kforge_mcp.store.shelf import Shelf

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_UNFINISHED = ("queued", "running")
_SHELF = Shelf(
    Job, "jobs", "job_id", "job", "a tool that is still running names its job_id, and repeating its call attaches to it"
)


def save(session: Session, job: Job) -> Job:
    """Insert or replace."""
    return _SHELF.save(session, job)


def get(session: Session, job_id: str) -> Job:
    """Raises `NotFoundError`."""
    return _SHELF.get(session, job_id)


def unfinished(session: Session) -> list[Job]:
    """Queued and running jobs, oldest first."""
    return _SHELF.where(session, order="created_at", status=_UNFINISHED)


def find_active(session: Session, arguments_key: str) -> Job | None:
    """The unfinished job of an equal call, or None. One whose cancelling was asked for is not given to new callers."""
    found = _SHELF.where(session, arguments_key=arguments_key, status=_UNFINISHED, cancel_requested=False, limit=1)
    return found[0] if found else None


def start(session: Session, job_id: str, attempt: int) -> Job | None:
    """Claim a queued attempt for running it; None if it is not to be run: cancelled, running or given up already."""
    job = _current(session, job_id, attempt)
    if job is None or job.status != "queued":
        return None
    return save(session, job.model_copy(update={"status": "running", "started_at": now()}))


def requeue(session: Session, job_id: str, attempt: int) -> Job | None:
    """Give an attempt up and queue the next one; None if the attempt is no longer the current one."""
    job = _current(session, job_id, attempt)
    if job is None:
        return None
    again = {"status": "queued", "attempt": attempt + 1, "started_at": None, "progress": 0.0}
    return save(session, job.model_copy(update=again))


def finish(session: Session, job_id: str, attempt: int, **changes: Any) -> bool:
    """Commit the outcome of an attempt; False, and nothing changed, if it is finished or was given up."""
    job = _current(session, job_id, attempt)
    if job is None:
        return False
    save(session, job.model_copy(update={"finished_at": now(), **changes}))
    return True


def update_progress(session: Session, job_id: str, attempt: int, message: str, progress: float) -> bool:
    """Say how far an attempt is; `progress` from 0 to 1."""
    job = _current(session, job_id, attempt)
    if job is None:
        return False
    save(session, job.model_copy(update={"message": message, "progress": progress}))
    return True


def request_cancel(session: Session, job_id: str) -> Job:
    """Cancel a queued job at once, ask a running one to stop, leave a finished one alone. Raises `NotFoundError`."""
    job = get(session, job_id)
    if job.status == "queued":
        gone = {"status": "cancelled", "cancel_requested": True, "finished_at": now(), "message": "cancelled"}
        return save(session, job.model_copy(update=gone))
    if job.status == "running":
        return save(session, job.model_copy(update={"cancel_requested": True}))
    return job


def is_wanted(session: Session, job_id: str, attempt: int) -> bool:
    """Whether a running attempt is to go on: neither cancelled nor given up."""
    job = _current(session, job_id, attempt)
    return job is not None and not job.cancel_requested


def _current(session: Session, job_id: str, attempt: int) -> Job | None:
    found = _SHELF.where(session, job_id=job_id, attempt=attempt, status=_UNFINISHED)
    return found[0] if found else None
