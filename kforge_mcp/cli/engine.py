"""`kforge-mcp engine status | stop | logs`: the workspace's engine as a person sees it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import timedelta

from kforge_mcp.engine.starter import stop_engine
from kforge_mcp.engine.state import LOG, is_running, log_tail, read_state
from kforge_mcp.records.base import now
from kforge_mcp.records.job import Job
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace, default_root

NOT_RUNNING = 3
"""Exit status of `status` when no engine runs, as service managers have it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("action", choices=sorted(_ACTIONS), help="what to do")
    parser.add_argument("--workspace", default="", metavar="DIR", help="the workspace (default: KFORGE_WORKSPACE)")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="lines of the log to print (default 100)")


def run(options: argparse.Namespace) -> int:
    """Carry the command out; returns the exit status."""
    with Workspace.open(options.workspace or default_root()) as workspace:
        return _ACTIONS[options.action](workspace, options)


def _status(workspace: Workspace, _options: argparse.Namespace) -> int:
    unfinished = _unfinished(workspace)
    state = read_state(workspace.engine_dir)
    if state:
        age = timedelta(seconds=int((now() - state.started_at).total_seconds()))
        devices = ", ".join(state.resources) or "no workers yet"
        print(f"running: process {state.pid}, for {age}, at {state.address}, with {devices}")
    elif is_running(workspace.engine_dir):
        print("starting")
    else:
        print("not running; the next call that needs it starts it")
    print(f"workspace: {workspace.root}")
    for job in unfinished:
        print(f"{job.job_id}  {job.tool}  {job.status}  attempt {job.attempt}  {job.message}".rstrip())
    if not unfinished:
        print("no unfinished jobs")
    return 0 if state or is_running(workspace.engine_dir) else NOT_RUNNING


def _stop(workspace: Workspace, _options: argparse.Namespace) -> int:
    if not stop_engine(workspace):
        print("not running")
        return 0
    unfinished = len(_unfinished(workspace))
    print("stopped" + (f"; {unfinished} unfinished jobs go on with the next engine" if unfinished else ""))
    return 0


def _logs(workspace: Workspace, options: argparse.Namespace) -> int:
    text = log_tail(workspace.engine_dir, options.lines)
    print(text or f"no log yet at {workspace.engine_dir / LOG}")
    return 0


def _unfinished(workspace: Workspace) -> list[Job]:
    with workspace.reading() as session:
        return jobs.unfinished(session)


_ACTIONS: dict[str, Callable[[Workspace, argparse.Namespace], int]] = {
    "logs": _logs,
    "status": _status,
    "stop": _stop,
}
