"""The engine's process: `python -m kforge_mcp.engine.daemon --workspace DIR [--scheduler ADDRESS]`.

It lives apart from every client. It takes the workspace's engine lock, starts the cluster or joins the one given,
turns rows into tasks, and ends when it has been idle or is told to by SIGTERM. It may be killed at any time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import shutil
import signal
import sys
import time
from typing import TYPE_CHECKING, NoReturn

from kforge_mcp import __version__
from kforge_mcp.engine import state
from kforge_mcp.errors import WorkspaceError
from kforge_mcp.records.base import new_id, now
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace

if TYPE_CHECKING:
    from kforge_mcp.engine.dispatcher import Dispatcher

IDLE_S = 600.0
STEP_S = 0.1
"""Time between two looks at whether the database changed."""
LOOK_S = 1.0
"""Longest time between two looks into it."""

_logger = logging.getLogger("kforge.engine")


def main() -> None:
    """Run the engine to its end; ends at once if the workspace has one."""
    parser = argparse.ArgumentParser(prog="kforge engine")
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--scheduler", default="")
    options = parser.parse_args()
    workspace = Workspace.open(options.workspace)
    stamp = state.code_stamp()
    lock = state.EngineLock(workspace.engine_dir)
    if not lock.acquire():
        return
    state.remove_state(workspace.engine_dir)
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    _logger.setLevel(logging.INFO)
    try:
        asyncio.run(_serve(workspace, options.scheduler, stamp))
    except Exception as error:
        _logger.exception("the engine ended by an error")
        fail_all(workspace, f"the engine cannot run: {type(error).__name__}: {error} (kforge-mcp engine logs)")
        _end(workspace)
    _sweep(workspace)
    state.remove_state(workspace.engine_dir)
    lock.release()
    # From here on another engine may run: nothing of it may be touched.
    if _has_work(workspace):
        # A job was committed after the last look, by a caller that still saw this engine alive.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    logging.shutdown()
    os._exit(0)


def _sweep(workspace: Workspace) -> None:
    try:
        _logger.info("%d files that no record named were removed from the blobs", workspace.sweep())
    except (OSError, WorkspaceError):
        _logger.exception("the blobs were not swept")


def _clear_scratch(workspace: Workspace) -> None:
    """Remove what the jobs of an engine that was killed left: its attempts are given up, and no other engine runs."""
    for left in workspace.scratch_dir.glob("job_*"):
        shutil.rmtree(left, ignore_errors=True)


def fail_all(workspace: Workspace, reason: str) -> None:
    """Fail every unfinished job. For an engine that cannot start: its callers must not wait in vain."""
    with workspace.transaction() as session:
        for job in jobs.unfinished(session):
            jobs.finish(session, job.job_id, job.attempt, status="failed", error=reason, error_kind="internal")


def _end(workspace: Workspace) -> NoReturn:
    """End at once: threads of jobs, which may run for long, would keep the interpreter alive.

    Their processes die with this one, and their rows are taken up by the next engine.
    """
    state.remove_state(workspace.engine_dir)
    logging.shutdown()
    os._exit(0)


async def _serve(workspace: Workspace, scheduler: str, stamp: int) -> None:
    """Serve until idle; a signal ends the process."""
    # Imported here, after the lock is taken: they take half a second, and callers wait for the lock alone.
    from kforge_mcp.engine import certificates
    from kforge_mcp.engine.cluster import advertised, gpu_count, joined_cluster, local_cluster
    from kforge_mcp.engine.dispatcher import Dispatcher, recover

    logging.getLogger("distributed").setLevel(logging.WARNING)
    folder = workspace.engine_dir
    told_to_end = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, told_to_end.set)
    temporary = folder / "dask"
    shutil.rmtree(temporary, ignore_errors=True)
    _clear_scratch(workspace)
    recover(workspace)
    if scheduler:
        cluster = joined_cluster(scheduler)
    else:
        cluster = local_cluster(temporary, certificates.security(folder), gpu_count())
    async with cluster as client:
        resources = await advertised(client)
        assert client.scheduler is not None
        published = state.EngineState(
            address=str(client.scheduler.address),
            pid=os.getpid(),
            start_id=new_id("engine"),
            started_at=now(),
            version=__version__,
            code_stamp=stamp,
            resources=sorted(resources or ()),
        )
        state.write_state(folder, published)
        _logger.info("the engine of %s runs at %s", workspace.root, published.address)
        if not await _dispatch(workspace, Dispatcher(workspace, client), told_to_end):
            _logger.info("the engine ends: it was told to")
            _end(workspace)
        _logger.info("the engine ends: it is idle")


async def _dispatch(workspace: Workspace, dispatcher: Dispatcher, told_to_end: asyncio.Event) -> bool:
    """Dispatch until there has been nothing to do for `KFORGE_ENGINE_IDLE_S` seconds (True) or told to end (False)."""
    idle_s = float(os.environ.get("KFORGE_ENGINE_IDLE_S") or IDLE_S)
    busy_at = time.monotonic()
    looked_at, stamp, unfinished = 0.0, None, 0
    while (moment := time.monotonic()) - busy_at <= idle_s:
        changed = workspace.change_stamp()
        if not changed:
            # The workspace was deleted; to take any leave of it would make it anew.
            os._exit(0)
        if changed != stamp or moment - looked_at >= LOOK_S:
            looked_at, stamp = moment, changed
            try:
                unfinished = await dispatcher.step()
            except WorkspaceError as error:
                _logger.warning("jobs were not dispatched: %s", error)
        if unfinished:
            busy_at = moment
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(told_to_end.wait(), STEP_S)
            return False
    return True


def _has_work(workspace: Workspace) -> bool:
    with workspace.reading() as session:
        return bool(jobs.unfinished(session))


if __name__ == "__main__":
    main()
