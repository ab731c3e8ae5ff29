import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kforge_mcp.engine import commands, context, processes
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import JobCancelled, RuntimeFailure, UsageError, WorkspaceError
from kforge_mcp.records.project import Interpreter
from kforge_mcp.store.workspace import Workspace
from tests.engine.waiting import is_alive, number_in, until

PYTHON = Interpreter(executable=sys.executable, found_by="server", python_version="", torch_version="")


@pytest.fixture
def job(workspace: Workspace) -> Iterator[JobContext]:
    with JobContext.standalone(workspace, tool="test") as standalone:
        yield standalone


def test_a_command_gives_its_output_and_status(job: JobContext) -> None:
    run = job.run(["sh", "-c", "cat; echo wrong >&2; exit 3"], input="größer", timeout_s=60)
    assert run == commands.CompletedRun(3, "größer", "wrong\n")


def test_a_command_that_dies_says_by_which_signal(job: JobContext) -> None:
    assert job.run(["sh", "-c", "kill -SEGV $$"], timeout_s=60).returncode == -signal.SIGSEGV
    assert job.run(["sh", "-c", "kill -KILL $$"], timeout_s=60).returncode == -signal.SIGKILL


def test_a_command_that_does_not_exist_says_so(job: JobContext) -> None:
    run = job.run(["nonsense-compiler"], timeout_s=60)
    assert (run.returncode, run.stderr) == (127, "cannot start nonsense-compiler: No such file or directory\n")


def test_the_end_of_the_time_kills_the_group(job: JobContext, tmp_path: Path) -> None:
    script = f"echo started; sleep 1000 & echo $! > {tmp_path}/grandchild; wait"
    run = job.run(["sh", "-c", script], timeout_s=0.5)
    assert (run.timed_out, run.returncode, run.stdout) == (True, -signal.SIGKILL, "started\n")
    until(lambda: not is_alive(number_in(tmp_path / "grandchild")))


def test_what_a_command_leaves_behind_is_killed(job: JobContext, tmp_path: Path) -> None:
    run = job.run(["sh", "-c", f"sleep 1000 & echo $! > {tmp_path}/left"], timeout_s=60)
    assert (run.returncode, run.timed_out) == (0, False)
    until(lambda: not is_alive(number_in(tmp_path / "left")))


def test_memory_is_limited(job: JobContext) -> None:
    run = job.run([sys.executable, "-c", "bytearray(1 << 30)"], timeout_s=60, memory_bytes=512 << 20)
    assert run.returncode == 1
    assert "MemoryError" in run.stderr


def test_a_command_that_floods_its_output_is_killed(job: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "OUTPUT_LIMIT", 1 << 20)
    run = job.run(["yes"], timeout_s=60)
    assert (run.output_exceeded, len(run.stdout)) == (True, 1 << 20)


def test_commands_run_in_the_jobs_folder_and_environment(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    environment = {"PATH": os.environ["PATH"], "MARK": "here"}
    with JobContext.standalone(workspace, environment=environment, cwd=tmp_path) as job:
        show = ["sh", "-c", "pwd; echo $MARK $OMP_WAIT_POLICY $OTHER"]
        assert job.run(show, timeout_s=60).stdout == f"{tmp_path}\nhere passive\n"
        assert job.run(show, cwd="inner", timeout_s=60).stdout == f"{tmp_path}/inner\nhere passive\n"
        assert job.run(show, env={"OTHER": "alone"}, timeout_s=60).stdout == f"{tmp_path}\nalone\n"
        with pytest.raises(UsageError, match=r"gone of this job does not exist"):
            job.run(show, cwd="gone", timeout_s=60)


def test_a_supervisor_ends_the_command_when_its_engine_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom kforge_mcp.engine.commands import run_command\n"
        "run_command(['sh', '-c', sys.argv[1]], timeout_s=1000)\n"
    )
    command = f"sleep 1000 & echo $! > {tmp_path}/grandchild; echo $$ > {tmp_path}/child; wait"
    with subprocess.Popen([sys.executable, "-c", script, command]) as engine:
        pids = [number_in(tmp_path / name) for name in ("child", "grandchild")]
        engine.kill()
    until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_supervisor_whose_engine_is_gone_starts_nothing(tmp_path: Path) -> None:
    command = [sys.executable, str(commands.SUPERVISOR), "1", "0", "touch", str(tmp_path / "ran")]
    assert os.getpid() != 1
    assert subprocess.run(command, check=False).returncode == 0
    assert not (tmp_path / "ran").exists()


def test_cancelling_ends_a_command_and_every_call_after_it(job: JobContext, tmp_path: Path) -> None:
    def cancel() -> None:
        number_in(tmp_path / "started")
        job.cancel()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(JobCancelled):
        job.run(["sh", "-c", f"echo $$ > {tmp_path}/started; sleep 1000"], timeout_s=1000)
    canceller.join()
    assert job.cancelled()
    until(lambda: not is_alive(number_in(tmp_path / "started")))
    for call in (
        job.check_cancelled,
        lambda: job.progress("more"),
        lambda: job.run(["true"], timeout_s=1),
        lambda: job.runtime(PYTHON),
    ):
        with pytest.raises(JobCancelled):
            call()


def test_cancelling_ends_a_runtime_in_the_middle_of_a_call(job: JobContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RUNTIME_MAIN", Path(__file__).with_name("fake_runtime.py"))
    pids: list[int] = []

    def on_event(event: dict[str, list[int]]) -> None:
        pids.extend(event["pids"])
        job.cancel()

    with job.runtime(PYTHON) as process, pytest.raises(JobCancelled):
        process.call("hang", {}, timeout_s=1000, on_event=on_event)
    until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_runtime_ends_with_its_job(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "RUNTIME_MAIN", Path(__file__).with_name("fake_runtime.py"))
    with JobContext.standalone(workspace) as job:
        process = job.runtime(PYTHON, extra_environment={"MARK": "extra"})
        assert process.call("echo", {}, timeout_s=60)["mark"] == "extra"
    assert not process.alive
    with pytest.raises(RuntimeFailure):
        process.call("echo", {}, timeout_s=60)
    process.close()


def test_progress_is_stored_at_most_so_often_and_in_the_end(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([100.0, 100.0, 100.1, 100.2, 100.7, 100.7, 100.8])
    monkeypatch.setattr(context.time, "monotonic", lambda: next(clock))
    told: list[tuple[str, float]] = []
    with JobContext.standalone(workspace, report=lambda *report: told.append(report)) as job:
        for number in range(5):
            job.progress(f"step {number}", number / 10)
        assert told == [("step 0", 0.0), ("step 3", 0.3)]
    monkeypatch.undo()


def test_scratch_folders_are_fresh_and_removed(workspace: Workspace) -> None:
    with JobContext.standalone(workspace) as job:
        folders = [job.scratch(), job.scratch()]
        (folders[0] / "file").touch()
        assert folders[0] != folders[1]
        assert folders[0].stat().st_mode & 0o777 == 0o700
    assert not any(folder.exists() for folder in folders)


def test_a_device_has_one_user_at_a_time(workspace: Workspace) -> None:
    told: list[str] = []
    with (
        JobContext.standalone(workspace) as holder,
        JobContext.standalone(workspace, report=lambda message, _fraction: told.append(message)) as waiter,
    ):
        entered = threading.Event()

        def wait() -> None:
            with waiter.device_lock("cpu"):
                entered.set()

        with holder.device_lock("cpu"):
            with waiter.device_lock("GPU-1234"):
                pass
            thread = threading.Thread(target=wait)
            thread.start()
            until(lambda: told)
            assert not entered.is_set()
        thread.join()
        assert entered.is_set()
        assert "waiting for the cpu" in told[0]


def test_waiting_for_a_device_can_be_cancelled(workspace: Workspace) -> None:
    with JobContext.standalone(workspace) as holder, JobContext.standalone(workspace) as waiter:
        waiter_cancelled = threading.Timer(0.05, waiter.cancel)
        with holder.device_lock():
            waiter_cancelled.start()
            with pytest.raises(JobCancelled), waiter.device_lock():
                pass


def test_a_device_is_free_again_when_its_user_is_killed(workspace: Workspace, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom kforge_mcp.engine.devices import device_lock\n"
        "with device_lock('cpu', exit):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        holder.kill()
    with JobContext.standalone(workspace) as job, job.device_lock():
        pass


def test_a_lock_that_is_a_link_is_not_followed(job: JobContext, tmp_path: Path) -> None:
    (tmp_path / "kforge-device-cpu.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WorkspaceError, match="KFORGE_LOCK_DIR"), job.device_lock():
        pass
    assert not (tmp_path / "elsewhere").exists()
