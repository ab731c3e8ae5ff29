"""The parent of CUDA evaluations, as a process of its own: ready children, and what becomes of those that fail."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("evaluators_program.py")


def _serve(folder: Path, kernels: str) -> tuple[list[dict[str, Any]], subprocess.Popen[str]]:
    (folder / "operators.py").write_text("import torch\n\ndef relu(x):\n    return torch.relu(x)\n")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(folder), kernels]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    lines = [json.loads(process.stdout.readline()) for _ in range(kernels.count(",") + 2)]
    return lines, process


def _is_free(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
    return True


def test_candidates_of_every_kind_leave_the_next_one_alone(tmp_path: Path) -> None:
    lines, process = _serve(tmp_path, "honest,die,hang,leave,honest")
    first, died, hung, left, last, pids = lines
    assert first == {"finding": None, "pairs": 4, "children": 2}
    assert died["refused"] == "crashed"
    assert "SIGSEGV" in died["message"]
    assert hung["finding"] == "timed_out"
    assert left["refused"] == "internal"
    assert last == first
    deadline = time.monotonic() + 30
    while not _is_free(tmp_path / "lock") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert _is_free(tmp_path / "lock"), "the spares hold the device though they are ready"
    process.kill()
    process.wait(30)
    while any(Path(f"/proc/{pid}").exists() for pid in pids["pids"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids["pids"])
