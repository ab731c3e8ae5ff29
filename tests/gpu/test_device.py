"""Facts of the device, and who else is on it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

OTHER = """
import sys, torch
kept = torch.ones(256 << 20, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
print("ready", flush=True)
sys.stdin.read()
"""


def test_facts_are_those_of_the_device(launcher: Any) -> None:
    facts = launcher.run({"how": "nothing"})["device"]
    assert facts["uuid"].startswith("GPU-")
    assert facts["sm_count"] > 0
    assert facts["architecture"] == f"sm_{facts['capability'][0]}{facts['capability'][1]}" + (
        "a" if facts["capability"][0] >= 9 else ""
    )
    assert 0 < facts["free_bytes"] <= facts["memory_bytes"]
    assert facts["driver"]
    assert facts["l2_bytes"] > 0


def test_another_process_on_the_device_is_named(launcher: Any, model_python: str) -> None:
    other = subprocess.Popen(
        [model_python, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=sys.stderr
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        answer = launcher.run({"how": "nothing"})
        present = {entry["pid"]: entry for entry in answer["company"]}
        assert other.pid in present
        assert present[other.pid]["memory_bytes"] > 256 << 20
    finally:
        other.communicate("")
