"""A sample of the mutants of `benchmarks/bench_mutants.py`: none that other inputs can tell gets through."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_no_mutant_that_can_be_told_gets_through(model_python: str, tmp_path: Path) -> None:
    found = tmp_path / "found.jsonl"
    command = [
        sys.executable,
        str(BENCHMARKS / "bench_mutants.py"),
        "--count",
        "60",
        "--seed",
        "7",
        "--json",
        str(found),
    ]
    environment = {**os.environ, "KFORGE_PYTHON": model_python}
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=550, env=environment)
    assert run.returncode == 0, run.stdout + run.stderr
    kernels = [json.loads(line) for line in found.read_text().splitlines()]
    assert len(kernels) == 20
    assert sum(kernel["mutants"] for kernel in kernels) == 60
    assert sum(sum(kernel["rejected"].values()) for kernel in kernels) >= 45
