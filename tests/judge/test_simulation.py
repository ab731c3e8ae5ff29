"""The statistics keep what they promise, in a short simulation."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def test_coverage_and_false_positives_hold_in_simulation() -> None:
    command = [sys.executable, str(BENCHMARKS / "bench_statistics.py"), "--rounds", "300"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count("covers") == 8
