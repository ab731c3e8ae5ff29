import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.engine import processes
from kforge_mcp.engine.processes import RuntimeProcess
from kforge_mcp.errors import JobCancelled, RuntimeFailure
from tests.engine.waiting import is_alive, until

FAKE = Path(__file__).with_name("fake_runtime.py")


@pytest.fixture
def process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuntimeProcess]:
    monkeypatch.setattr(processes, "RUNTIME_MAIN", FAKE)
    with RuntimeProcess(sys.executable, cwd=tmp_path, log=tmp_path / "log", environment={"MARK": "here"}) as started:
        yield started


def _failure(process: RuntimeProcess, operation: str, timeout_s: float = 60.0, **payload: Any) -> RuntimeFailure:
    with pytest.raises(RuntimeFailure) as raised:
        process.call(operation, payload, timeout_s=timeout_s)
    return raised.value


def test_a_call_returns_its_result_after_its_events(process: RuntimeProcess, tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for number in (1, 2):
        result = process.call("echo", {"number": number}, timeout_s=60, on_event=events.append)
        assert result == {"number": number, "cwd": str(tmp_path), "mark": "here"}
    assert events == [{"step": 1}, {"step": 2}] * 2
    assert process.alive


def test_what_the_model_prints_goes_to_the_log(process: RuntimeProcess, tmp_path: Path) -> None:
    process.call("echo", {}, timeout_s=60)
    assert (tmp_path / "log").read_text() == "printed by the model\n"


def test_a_users_error_keeps_the_process(process: RuntimeProcess, tmp_path: Path) -> None:
    failure = _failure(process, "user_error")
    assert (failure.kind, str(failure), failure.trace) == ("user_error", "the model raised", "Traceback ...")
    assert failure.log == str(tmp_path / "log")
    assert process.call("echo", {}, timeout_s=60)["mark"] == "here"


@pytest.mark.parametrize(
    ("operation", "payload", "text"),
    [
        ("exit", {"status": 0}, "the process running exit ended with exit status 0"),
        ("exit", {"status": 7}, "the process running exit ended with exit status 7"),
        ("segfault", {}, "the process running segfault ended with signal SIGSEGV"),
    ],
)
def test_a_crash_says_how_it_ended(process: RuntimeProcess, operation: str, payload: dict[str, int], text: str) -> None:
    failure = _failure(process, operation, **payload)
    assert (failure.kind, str(failure)) == ("crashed", text)
    assert not process.alive


@pytest.mark.parametrize("operation", ["garbage", "too long"])
def test_what_is_no_frame_is_a_crash(process: RuntimeProcess, operation: str) -> None:
    failure = _failure(process, operation)
    assert failure.kind == "crashed"
    assert "broke the protocol and was killed" in str(failure)
    assert not process.alive


@pytest.mark.parametrize("operation", ["deaf", "chatter", "half"])
def test_the_end_of_the_time_ends_the_process(process: RuntimeProcess, operation: str) -> None:
    failure = _failure(process, operation, timeout_s=0.3)
    assert (failure.kind, str(failure)) == ("timed_out", f"{operation} did not end within 0.3 s")
    assert not process.alive


def test_a_payload_that_is_not_taken_in_time_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deaf.py").write_text("import time\ntime.sleep(1000)\n")
    monkeypatch.setattr(processes, "RUNTIME_MAIN", tmp_path / "deaf.py")
    with RuntimeProcess(sys.executable) as process:
        failure = _failure(process, "echo", timeout_s=0.3, data="x" * (8 << 20))
        assert (failure.kind, process.alive) == ("timed_out", False)


def test_leaving_kills_what_the_process_started(process: RuntimeProcess) -> None:
    pids: list[int] = []
    with pytest.raises(RuntimeFailure):
        process.call("hang", {}, timeout_s=1.0, on_event=lambda event: pids.extend(event["pids"]))
    assert len(pids) == 2
    until(lambda: not any(is_alive(pid) for pid in pids))


@pytest.mark.parametrize("operation", ["deaf", "chatter"])
def test_cancelling_raises_and_ends_the_process(process: RuntimeProcess, operation: str) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(JobCancelled, match=f"{operation} was cancelled"):
        process.call(operation, {}, timeout_s=60, cancelled=cancel.is_set)
    assert not process.alive


def test_a_process_killed_by_whoever_cancelled_is_cancelled_not_crashed(process: RuntimeProcess) -> None:
    cancel = threading.Event()

    def on_event(_event: dict[str, Any]) -> None:
        cancel.set()
        processes.kill_group(process.process)

    with pytest.raises(JobCancelled):
        process.call("hang", {}, timeout_s=60, on_event=on_event, cancelled=cancel.is_set)


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFailure, match="cannot start /nonsense/python"):
        RuntimeProcess("/nonsense/python")
    with pytest.raises(RuntimeFailure, match="cannot start"):
        RuntimeProcess(sys.executable, cwd=tmp_path / "gone")
    with pytest.raises(RuntimeFailure, match="cannot start"):
        RuntimeProcess(sys.executable, log=tmp_path / "gone" / "log")


def test_the_real_runtime_answers_and_refuses(model_python: str) -> None:
    with RuntimeProcess(model_python) as process:
        assert process.call("describe", {}, timeout_s=120)["torch_version"]
        failure = _failure(process, "nonsense")
        assert failure.kind == "internal"
        assert process.alive
    with RuntimeProcess(sys.executable) as process:
        assert _failure(process, "describe").kind == "contract"
