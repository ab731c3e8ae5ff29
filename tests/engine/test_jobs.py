import os
from pathlib import Path

import pytest

from kforge_mcp.engine import jobs
from kforge_mcp.engine.starter import stop_engine
from kforge_mcp.engine.state import log_tail
from kforge_mcp.errors import NotFoundError
from kforge_mcp.records.job import Job
from kforge_mcp.store import jobs as rows
from kforge_mcp.store.workspace import Workspace
from tests.engine.waiting import is_alive, number_in, until

WAIT_S = 60.0


def _submit(workspace: Workspace, function: str, resource: str = "cpu", **arguments: object) -> Job:
    return jobs.submit(
        workspace, tool=function, function=f"engine_jobs:{function}", arguments=arguments, resource=resource
    )  # pyright: ignore[reportArgumentType]


def _finish(workspace: Workspace, function: str, **arguments: object) -> Job:
    return jobs.wait(workspace, _submit(workspace, function, **arguments).job_id, WAIT_S)


def test_a_job_gets_its_arguments_folder_and_environment(
    served: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KFORGE_MARK", "first")
    first = _finish(served, "echo", value=1)
    monkeypatch.setenv("KFORGE_MARK", "second")
    second = _finish(served, "echo", value=1)
    assert first.status == second.status == "ok"
    assert first.result is not None
    assert second.result is not None
    assert first.result["arguments"] == {"value": 1}
    assert first.result["cwd"] == str(tmp_path)
    assert (first.result["marked"], second.result["marked"]) == ({"KFORGE_MARK": "first"}, {"KFORGE_MARK": "second"})
    assert first.result["engine"] == second.result["engine"] != os.getpid()
    assert first.started_at is not None
    assert first.finished_at is not None


def test_failures_say_whose_they_are_and_the_engine_goes_on(served: Workspace) -> None:
    submitted = [
        _submit(served, name) for name in ("refuse", "fail", "leave", "text", "no_json", "nan", "nonsense", "echo")
    ]
    ended = [jobs.wait(served, job.job_id, WAIT_S) for job in submitted]
    assert [(job.status, job.error_kind) for job in ended] == [
        ("failed", "usage"),
        *[("failed", "internal")] * 6,
        ("ok", ""),
    ]
    assert ended[0].error == "the entry cannot be imported"
    assert ended[1].error == "ZeroDivisionError: of the job"
    assert "returned str" in ended[3].error
    assert {job.attempt for job in ended} == {1}
    assert 'raise ZeroDivisionError("of the job")' in log_tail(served.engine_dir, 200)


def test_an_equal_call_attaches_and_a_different_one_does_not(served: Workspace, tmp_path: Path) -> None:
    first = _submit(served, "gate", folder=str(tmp_path))
    assert _submit(served, "gate", folder=str(tmp_path)).job_id == first.job_id
    assert _submit(served, "gate", folder=str(tmp_path), name="other").job_id != first.job_id
    (tmp_path / "open").touch()
    assert jobs.wait(served, first.job_id, WAIT_S).status == "ok"
    assert _submit(served, "gate", folder=str(tmp_path)).job_id != first.job_id


def test_waiting_ends_after_its_time_and_tells_progress(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "gate", folder=str(tmp_path))
    until(lambda: jobs.get(served, job.job_id).message)
    told: list[Job] = []
    waited = jobs.wait(served, job.job_id, 0.0, told.append)
    assert (waited.status, waited.message, waited.progress) == ("running", "waiting at the gate", 0.5)
    assert told == [waited]
    (tmp_path / "open").touch()
    assert jobs.wait(served, job.job_id, WAIT_S).status == "ok"


def test_timing_jobs_run_one_at_a_time_and_light_ones_beside_them(served: Workspace, tmp_path: Path) -> None:
    first = _submit(served, "gate", folder=str(tmp_path), name="first")
    second = _submit(served, "gate", folder=str(tmp_path), name="second")
    until(lambda: (tmp_path / "first.started.1").exists())
    light = jobs.wait(served, _submit(served, "echo", "light").job_id, WAIT_S)
    assert light.status == "ok"
    assert jobs.get(served, first.job_id).status == "running"
    assert jobs.get(served, second.job_id).status == "queued"
    assert not (tmp_path / "second.started.1").exists()
    (tmp_path / "open").touch()
    assert jobs.wait(served, second.job_id, WAIT_S).status == "ok"


def test_cancelling_a_queued_job_takes_it_off_the_queue(served: Workspace, tmp_path: Path) -> None:
    first = _submit(served, "gate", folder=str(tmp_path), name="first")
    until(lambda: (tmp_path / "first.started.1").exists())
    second = _submit(served, "gate", folder=str(tmp_path), name="second")
    assert jobs.cancel(served, second.job_id).status == "cancelled"
    third = _submit(served, "echo")
    (tmp_path / "open").touch()
    assert [jobs.wait(served, job.job_id, WAIT_S).status for job in (first, third)] == ["ok", "ok"]
    assert not (tmp_path / "second.started.1").exists()


def test_cancelling_kills_a_hanging_child_and_what_it_started(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "hang", folder=str(tmp_path))
    children = [number_in(tmp_path / name) for name in ("child", "grandchild")]
    assert [is_alive(pid) for pid in children] == [True, True]
    jobs.cancel(served, job.job_id)
    ended = jobs.wait(served, job.job_id, WAIT_S)
    assert (ended.status, ended.error) == ("cancelled", "")
    until(lambda: not any(is_alive(pid) for pid in children))
    assert _finish(served, "echo").status == "ok"


def test_cancelling_unwinds_a_job_that_checks(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "gate", folder=str(tmp_path))
    until(lambda: (tmp_path / "gate.started.1").exists())
    jobs.cancel(served, job.job_id)
    assert jobs.wait(served, job.job_id, WAIT_S).status == "cancelled"


def test_cancelling_without_an_engine_ends_the_job(served: Workspace, tmp_path: Path) -> None:
    job = _submit(served, "gate", folder=str(tmp_path))
    until(lambda: (tmp_path / "gate.started.1").exists())
    stop_engine(served)
    assert jobs.cancel(served, job.job_id).status == "cancelled"


def test_scratch_is_gone_after_the_job(served: Workspace) -> None:
    job = _finish(served, "scratch")
    assert job.result is not None
    assert not Path(job.result["folder"]).exists()


def test_a_job_for_a_missing_gpu_is_refused(served: Workspace) -> None:
    from kforge_mcp.engine.cluster import gpu_count

    if gpu_count():
        pytest.skip("this machine has a GPU")
    job = jobs.wait(served, _submit(served, "echo", "gpu").job_id, WAIT_S)
    assert (job.status, job.error_kind) == ("failed", "usage")
    assert "needs a GPU" in job.error


def test_an_unknown_job_is_named(workspace: Workspace) -> None:
    with pytest.raises(NotFoundError, match="job_unknown"):
        jobs.wait(workspace, "job_unknown", 0.0)
    with pytest.raises(NotFoundError, match="job_unknown"):
        jobs.cancel(workspace, "job_unknown")


def test_a_finished_job_needs_no_engine(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        rows.save(
            session,
            Job(
                job_id="job_done",
                tool="t",
                function="m:f",
                arguments={},
                arguments_key="k",
                status="ok",
                created_at="2026-01-01T00:00:00Z",  # pyright: ignore[reportArgumentType]
            ),
        )
    assert jobs.wait(workspace, "job_done", WAIT_S).status == "ok"
    assert jobs.cancel(workspace, "job_done").status == "ok"
    assert not (workspace.engine_dir / "engine.log").exists()
