from pathlib import Path

import pytest

from kforge_mcp.cli.main import main
from kforge_mcp.engine import jobs
from kforge_mcp.store.workspace import Workspace
from tests.engine.waiting import until


def _engine(workspace: Workspace, *words: str) -> int:
    return main(["engine", *words, "--workspace", str(workspace.root)])


def test_without_an_engine_the_commands_say_so(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert _engine(workspace, "status") == 3
    assert "not running" in capsys.readouterr().out
    assert _engine(workspace, "stop") == 0
    assert capsys.readouterr().out == "not running\n"
    assert _engine(workspace, "logs") == 0
    assert "no log yet" in capsys.readouterr().out


def test_a_running_engine_is_shown_with_its_jobs_and_stopped(
    served: Workspace, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = jobs.submit(served, tool="gate", function="engine_jobs:gate", arguments={"folder": str(tmp_path)})
    until(lambda: jobs.get(served, job.job_id).message)
    assert _engine(served, "status") == 0
    shown = capsys.readouterr().out
    assert shown.startswith("running: process ")
    assert "at tls://127.0.0.1:" in shown
    assert f"{job.job_id}  gate  running  attempt 1  waiting at the gate" in shown
    assert _engine(served, "logs", "--lines", "1") == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert _engine(served, "stop") == 0
    assert capsys.readouterr().out == "stopped; 1 unfinished jobs go on with the next engine\n"
    assert _engine(served, "status") == 3


def test_an_unusable_workspace_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["engine", "status", "--workspace", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err
