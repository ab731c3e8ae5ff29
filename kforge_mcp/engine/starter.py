"""Starting and ending the engine of a workspace, from any process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from kforge_mcp.engine.state import LOG, code_stamp, is_running, log_tail, read_state
from kforge_mcp.errors import WorkspaceError
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_TICK_S = 0.02
_LOG_LIMIT = 4 << 20

# Kept so that an engine that ended is reaped while this process lives on.
_started: list[subprocess.Popen[bytes]] = []


def ensure_engine(workspace: Workspace) -> bool:
    """Start the workspace's engine unless one runs; True if this call started it.

    An idle engine that runs older code than this process, after an upgrade or an edit, is replaced. Returns when the
    engine lives: it then finds every committed job by itself. Raises `WorkspaceError` with the end of its log if it
    cannot start.
    """
    folder = workspace.engine_dir
    if is_running(folder) and not _is_outdated(workspace):
        return False
    from filelock import FileLock, Timeout

    try:
        with FileLock(folder / "start.lock", timeout=START_TIMEOUT_S):
            if is_running(folder):
                if not _is_outdated(workspace):
                    return False
                stop_engine(workspace)
            _start(workspace)
            return True
    except Timeout:
        raise WorkspaceError(
            f"another process has been starting the engine for {START_TIMEOUT_S:g} s; see `kforge-mcp engine logs`"
        ) from None


def stop_engine(workspace: Workspace) -> bool:
    """End the engine with all its processes; unfinished jobs are taken up by the next. False if none ran.

    Raises `WorkspaceError` if it does not end.
    """
    folder = workspace.engine_dir
    if not is_running(folder):
        return False
    for number, patience_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, STOP_TIMEOUT_S)):
        deadline = time.monotonic() + patience_s
        signalled = False
        while time.monotonic() < deadline:
            state = read_state(folder)
            if state and not signalled:
                _signal(state.pid, number)
                signalled = True
            _reap()
            if not is_running(folder):
                return True
            time.sleep(_TICK_S)
    raise WorkspaceError(f"the engine of {workspace.root} does not end; see `kforge-mcp engine logs`")


def _start(workspace: Workspace) -> None:
    folder = workspace.engine_dir
    log = folder / LOG
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        os.replace(log, log.with_suffix(".log.1"))
    command = [sys.executable, "-P", "-m", "kforge_mcp.engine.daemon", "--workspace", str(workspace.root)]
    if scheduler := os.environ.get("KFORGE_SCHEDULER"):
        command += ["--scheduler", scheduler]
    # Every descriptor is given: an engine that kept a client's pipe would keep that client waiting for its end.
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=workspace.root,
            env=_with_package(os.environ.copy()),
            start_new_session=True,
            close_fds=True,
        )
    _started.append(process)
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_running(folder):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise WorkspaceError("the engine did not start. The end of its log:\n" + log_tail(folder, 10))
        time.sleep(_TICK_S)


def _with_package(environment: dict[str, str]) -> dict[str, str]:
    """Let the engine find this package where this process found it, installed or not."""
    here = Path(__file__).resolve().parent.parent.parent
    if here.name not in ("site-packages", "dist-packages"):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(here), environment.get("PYTHONPATH", "")]))
    return environment


def _is_outdated(workspace: Workspace) -> bool:
    state = read_state(workspace.engine_dir)
    if state is None or state.code_stamp >= code_stamp():
        return False
    with workspace.reading() as session:
        return not any(job.status == "running" for job in jobs.unfinished(session))


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _reap() -> None:
    _started[:] = [process for process in _started if process.poll() is None]
