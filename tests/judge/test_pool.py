"""Processes that outlive a job: lent to one at a time, ended when idle."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kforge_mcp.judge.pool import Lent, Pool


class Process:
    """Stands for a `RuntimeProcess`."""

    def __init__(self) -> None:
        self.alive = True

    def close(self) -> None:
        self.alive = False


def _lent(folder: Path, key: str) -> Lent:
    process: Any = Process()
    log = folder / "log"
    log.touch()
    return Lent(key, process, log)


def test_a_process_is_lent_again_under_its_key_only(tmp_path: Path) -> None:
    pool = Pool()
    first = pool.take("a", lambda: _lent(tmp_path, "a"))
    assert pool.take("a", lambda: _lent(tmp_path, "a")) is not first
    pool.give(first)
    assert pool.take("b", lambda: _lent(tmp_path, "b")) is not first
    assert pool.take("a", lambda: _lent(tmp_path, "a")) is first
    pool.close()


def test_a_process_that_broke_is_not_lent_again(tmp_path: Path) -> None:
    pool = Pool()
    first = pool.take("a", lambda: _lent(tmp_path, "a"))
    pool.give(first)
    first.process.close()
    assert pool.take("a", lambda: _lent(tmp_path, "a")) is not first
    second = _lent(tmp_path, "a")
    second.process.close()
    pool.give(second)
    assert not second.log.exists()


def test_what_is_idle_is_ended(tmp_path: Path) -> None:
    pool = Pool(idle_s=0.0)
    lent = _lent(tmp_path, "a")
    pool.give(lent)
    deadline = time.monotonic() + 30
    while lent.process.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not lent.process.alive
    assert not lent.log.exists()
