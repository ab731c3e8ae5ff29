from pathlib import Path

from kforge_mcp.engine.cluster import gpu_count
from kforge_mcp.engine.state import LOG, EngineLock, is_running, log_tail, read_state


def test_the_lock_has_one_holder_and_asking_does_not_take_it(tmp_path: Path) -> None:
    first, second = EngineLock(tmp_path), EngineLock(tmp_path)
    assert not is_running(tmp_path)
    assert first.acquire()
    assert is_running(tmp_path)
    assert not second.acquire()
    assert is_running(tmp_path)
    first.release()
    assert not is_running(tmp_path)
    assert second.acquire()
    first.close()
    assert is_running(tmp_path)
    second.close()
    assert not is_running(tmp_path)


def test_a_state_without_an_engine_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / "engine.json").write_text("{}")
    assert read_state(tmp_path) is None


def test_the_tail_of_the_log_has_so_many_lines(tmp_path: Path) -> None:
    assert log_tail(tmp_path, 2) == ""
    (tmp_path / LOG).write_text("".join(f"line {number}\n" for number in range(1000)))
    assert log_tail(tmp_path, 2) == "line 998\nline 999"


def test_gpus_are_counted_without_touching_them(tmp_path: Path) -> None:
    assert gpu_count(tmp_path, tmp_path) == 0
    (tmp_path / "dxg").touch()
    assert gpu_count(tmp_path, tmp_path) == 1
    for address in ("0000:01:00.0", "0000:02:00.0"):
        (tmp_path / "driver" / "nvidia" / "gpus" / address).mkdir(parents=True)
    assert gpu_count(tmp_path, tmp_path) == 2
