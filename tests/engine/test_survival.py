"""What is left when servers and engines die, start at once, or go."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kforge_mcp.engine import jobs, starter
from kforge_mcp.engine.dispatcher import MAX_ATTEMPTS
from kforge_mcp.engine.starter import ensure_engine, stop_engine
from kforge_mcp.engine.state import EngineState, is_running, log_tail, read_state
from kforge_mcp.records.base import now
from kforge_mcp.records.job import Job
from kforge_mcp.store import jobs as rows
from kforge_mcp.store.workspace import Workspace
from tests.engine.waiting import is_alive, number_in, until

WAIT_S = 60.0
_SUBMIT = """
import sys
from kforge_mcp.engine import jobs
from kforge_mcp.store.workspace import Workspace

workspace = Workspace.open(sys.argv[1])
job = jobs.submit(workspace, tool=sys.argv[2], function="engine_jobs:" + sys.argv[2], arguments=eval(sys.argv[3]))
print(job.job_id, flush=True)
if sys.argv[4:] == ["wait"]:
    print(jobs.wait(workspace, job.job_id, 60).model_dump_json(), flush=True)
"""
_WAIT = """
import sys
from kforge_mcp.engine import jobs
from kforge_mcp.store.workspace import Workspace

print(jobs.wait(Workspace.open(sys.argv[1]), sys.argv[2], 60).model_dump_json())
"""


def _server(workspace: Workspace, function: str, *words: str, **arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _SUBMIT, str(workspace.root), function, repr(arguments), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _wait_elsewhere(workspace: Workspace, job_id: str) -> Job:
    command = [sys.executable, "-c", _WAIT, str(workspace.root), job_id]
    return Job.model_validate_json(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _submit(workspace: Workspace, function: str, **arguments: object) -> Job:
    return jobs.submit(workspace, tool=function, function=f"engine_jobs:{function}", arguments=arguments)


def _engine(workspace: Workspace) -> EngineState:
    return until(lambda: read_state(workspace.engine_dir))


def _starts(workspace: Workspace) -> int:
    return log_tail(workspace.engine_dir, 500).count("runs at tls://127.0.0.1:")


def test_the_engine_keeps_no_descriptor_of_the_client_that_started_it(served: Workspace) -> None:
    # communicate() returns when nobody holds the pipes any more: not while a detached child has inherited them.
    output, errors = _server(served, "echo").communicate(timeout=WAIT_S)
    assert (output.startswith("job_"), errors) == (True, "")
    assert is_running(served.engine_dir)


def test_a_job_outlives_the_server_that_submitted_it(served: Workspace, tmp_path: Path) -> None:
    with _server(served, "gate", "wait", folder=str(tmp_path)) as server:
        assert server.stdout is not None
        job_id = server.stdout.readline().strip()
        until(lambda: (tmp_path / "gate.started.1").exists())
        server.kill()
    (tmp_path / "open").touch()
    job = _wait_elsewhere(served, job_id)
    assert (job.status, job.attempt) == ("ok", 1)


def test_a_killed_engine_is_started_again_by_whoever_asks_and_goes_on(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "retried_hang", folder=str(tmp_path))
    children = [number_in(tmp_path / name) for name in ("child", "grandchild")]
    first = _engine(served)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not any(is_alive(pid) for pid in children))
    ended = _wait_elsewhere(served, job.job_id)
    assert (ended.status, ended.result) == ("ok", {"attempt": 2})
    assert _engine(served).start_id != first.start_id


def test_a_runtime_ends_with_a_killed_engine(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "runtime", folder=str(tmp_path))
    child = number_in(tmp_path / "child")
    assert is_alive(child)
    os.kill(_engine(served).pid, signal.SIGKILL)
    until(lambda: not is_alive(child))
    assert jobs.wait(served, job.job_id, WAIT_S).result == {"attempt": 2}


def test_the_next_engine_removes_what_a_killed_one_had_in_scratch(served: Workspace) -> None:
    result = jobs.wait(served, _submit(served, "scratch_of_the_dead").job_id, WAIT_S).result
    assert result is not None
    assert result["found"] == [result["own"]]


def test_a_submission_revives_the_unfinished_jobs_of_a_killed_engine(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "gate", folder=str(tmp_path))
    until(lambda: (tmp_path / "gate.started.1").exists())
    os.kill(_engine(served).pid, signal.SIGKILL)
    until(lambda: not is_running(served.engine_dir))
    _submit(served, "echo")
    until(lambda: (tmp_path / "gate.started.2").exists())
    (tmp_path / "open").touch()
    assert jobs.wait(served, job.job_id, WAIT_S).result is not None


def test_a_job_that_takes_the_engine_down_each_time_is_given_up(served: Workspace) -> None:
    job = jobs.wait(served, _submit(served, "kill_engine").job_id, WAIT_S)
    assert (job.status, job.error_kind, job.attempt) == ("failed", "internal", MAX_ATTEMPTS)
    assert "the engine ended while it ran" in job.error


def test_servers_that_submit_at_once_share_one_engine(served: Workspace) -> None:
    servers = [_server(served, "echo", "wait", number=number) for number in range(3)]
    ended = [Job.model_validate_json(server.communicate()[0].splitlines()[1]) for server in servers]
    engines = {job.result["engine"] for job in ended if job.result}
    assert engines == {_engine(served).pid}
    assert _starts(served) == 1


def test_a_second_engine_of_a_workspace_ends_at_once(served: Workspace) -> None:
    ensure_engine(served)
    first = _engine(served)
    command = [sys.executable, "-m", "kforge_mcp.engine.daemon", "--workspace", str(served.root)]
    assert subprocess.run(command, check=False, timeout=WAIT_S).returncode == 0
    assert _engine(served) == first


def test_stopping_keeps_jobs_for_the_next_engine(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "retried_hang", folder=str(tmp_path))
    child = number_in(tmp_path / "child")
    assert stop_engine(served)
    assert not stop_engine(served)
    assert read_state(served.engine_dir) is None
    until(lambda: not is_alive(child))
    assert jobs.wait(served, job.job_id, WAIT_S).result == {"attempt": 2}


def test_an_idle_engine_goes_and_comes_back(served: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORGE_ENGINE_IDLE_S", "0.1")
    first = jobs.wait(served, _submit(served, "echo").job_id, WAIT_S)
    assert first.result is not None
    until(lambda: not is_alive(first.result["engine"]))
    assert not is_running(served.engine_dir)
    assert not (served.engine_dir / "engine.json").exists()
    assert jobs.wait(served, _submit(served, "echo").job_id, WAIT_S).status == "ok"


def test_an_idle_engine_with_older_code_is_replaced(served: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ensure_engine(served)
    first = _engine(served)
    assert not ensure_engine(served)
    monkeypatch.setattr(starter, "code_stamp", lambda: first.code_stamp + 1)
    assert ensure_engine(served)
    assert _engine(served).start_id != first.start_id


def test_an_engine_with_older_code_keeps_its_running_job(
    served: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = _submit(served, "gate", folder=str(tmp_path))
    until(lambda: jobs.get(served, job.job_id).status == "running")
    monkeypatch.setattr(starter, "code_stamp", lambda: _engine(served).code_stamp + 1)
    assert not ensure_engine(served)
    (tmp_path / "open").touch()
    assert jobs.wait(served, job.job_id, WAIT_S).attempt == 1


def test_an_engine_that_cannot_run_fails_its_jobs_with_the_reason(
    served: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KFORGE_SCHEDULER", "tcp://127.0.0.1:1")
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT", "500ms")
    job = jobs.wait(served, _submit(served, "echo").job_id, WAIT_S)
    assert (job.status, job.error_kind) == ("failed", "internal")
    assert "the engine cannot run" in job.error
    assert "127.0.0.1:1" in job.error


_CLUSTER = """
import asyncio, sys
from distributed import Scheduler, Worker

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address="127.0.0.1:0") as scheduler:
        options = dict(host="127.0.0.1", dashboard_address="127.0.0.1:0", nthreads=1, local_directory=sys.argv[1])
        async with Worker(scheduler.address, **options):
            print(scheduler.address, flush=True)
            await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


def test_the_engine_joins_a_cluster_elsewhere(
    served: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = subprocess.Popen(
        [sys.executable, "-c", _CLUSTER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with cluster:
        assert cluster.stdout is not None
        monkeypatch.setenv("KFORGE_SCHEDULER", cluster.stdout.readline().strip())
        job = jobs.wait(served, _submit(served, "echo").job_id, WAIT_S)
        assert job.result is not None
        assert job.result["engine"] == cluster.pid
        stop_engine(served)
        cluster.kill()


_COMMIT_LATE = """
import os, sys
from kforge_mcp.engine import daemon, state
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace

if "AGAIN" in os.environ:
    print("started again", flush=True)
    sys.exit(state.is_running(Workspace.open(sys.argv[2]).engine_dir))

async def serve_nothing(workspace, *rest):
    os.environ["AGAIN"] = "1"

daemon._serve = serve_nothing
daemon.main()
"""


def test_a_job_committed_while_the_engine_goes_is_not_left_behind(workspace: Workspace) -> None:
    job = Job(job_id="job_late", tool="t", function="m:f", arguments={}, arguments_key="k", created_at=now())
    with workspace.transaction() as session:
        rows.save(session, job)
    command = [sys.executable, "-c", _COMMIT_LATE, "--workspace", str(workspace.root)]
    engine = subprocess.run(command, check=False, capture_output=True, text=True, timeout=WAIT_S)
    assert (engine.stdout, engine.returncode) == ("started again\n", 0)


def test_an_engine_ends_when_its_workspace_is_deleted(workspace: Workspace) -> None:
    ensure_engine(workspace)
    engine = _engine(workspace)
    shutil.rmtree(workspace.root)
    until(lambda: not is_alive(engine.pid))
    assert not workspace.root.exists()
