"""What the checker's report comes to; its texts are those of compute-sanitizer 2025.3 on an H200."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.memory_check import MemoryCheck, check_memory, read_report
from kforge_mcp.records.base import now
from kforge_mcp.records.project import DeviceInfo, Interpreter, Project
from kforge_mcp.store.workspace import Workspace
from tests.candidate.cards import candidate_text
from tests.compile.cuda.programs import card

STEP = '[[step]]\nkernel = "k"\ngrid = ["x.shape[0]"]\nblock = ["256"]\nargs = ["x", "out"]\n'
SOURCE = candidate_text(
    STEP,
    """__global__ void k(const float* x, float* out) {
    out[blockIdx.x * 256 + threadIdx.x] = x[blockIdx.x * 256 + threadIdx.x + 1];
}
""",
)
FINE = json.dumps({"finding": None, "memory": [["x", 0x7F0BC2A00000, 4096], ["out", 0x7F0BC2A01200, 4096]]})
TRAPPED = json.dumps({
    "finding": {"reason": "crashed", "message": "step 0 (`k`, grid 4, block 256): a kernel trapped"},
    "memory": [["x", 0x7F0BC2A00000, 4096], ["out", 0x7F0BC2A01200, 4096]],
})  # fmt: skip
BEYOND = f"""\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at k(const float *, float *)+0x90 in candidate.cu:9
=========     by thread (255,0,0) in block (3,0,0)
=========     Access to 0x7f0bc2a01000 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f0bc2a00000 of size 4,096 bytes
=========     Saved host backtrace up to driver entry point at kernel launch time
=========         Host Frame: launch in driver.py:179
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure" on CUDA API call to cu.
=========     Saved host backtrace up to driver entry point at error
{TRAPPED}
========= ERROR SUMMARY: 2 errors
"""
RACE = f"""\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at k(const float *, float *)+0x100 in candidate.cu:10
=========     and Read access at k(const float *, float *)+0x110 in candidate.cu:11 [4096 hazards]
=========
{FINE}
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
CLEAN = f"========= COMPUTE-SANITIZER\n{FINE}\n========= ERROR SUMMARY: 0 errors\n"


def test_a_read_beyond_a_tensor_names_line_thread_and_tensor() -> None:
    (found,) = read_report(BEYOND, SOURCE, ["k"])
    assert (found.severity, found.line) == ("error", 9)
    assert found.message == (
        "Invalid __global__ read of size 4 bytes by thread (255,0,0) in block (3,0,0): 1 bytes after the end of `x`"
    )
    assert found.source_line.strip().startswith("out[blockIdx.x * 256")


def test_a_race_names_both_lines() -> None:
    (found,) = read_report(RACE, SOURCE, ["k"])
    assert (found.severity, found.line) == ("error", 10)
    assert found.message == (
        "a race in shared memory between the write in line 10 and the read in line 11: a barrier is missing"
    )


def test_a_report_in_a_library_header_is_the_kernels_that_is_named() -> None:
    text = RACE.replace("candidate.cu", "/include/cub/block_scan.cuh").replace("k(", "void rows<128>(")
    (found,) = read_report(text, SOURCE, ["rows"])
    assert found.line == 0


def test_what_torchs_own_kernels_do_is_not_the_candidates() -> None:
    text = RACE.replace("candidate.cu", "elementwise.cuh").replace("k(", "void at::native::fill<float>(")
    assert read_report(text, SOURCE, ["k"]) == []


def test_warnings_do_not_fail_a_candidate() -> None:
    found = read_report(RACE.replace("Error: Race", "Warning: Race"), SOURCE, ["k"])
    assert [one.severity for one in found] == ["warning"]
    assert MemoryCheck(("racecheck",), tuple(found)).passed


def test_nothing_found_reads_as_nothing() -> None:
    assert read_report(CLEAN, SOURCE, ["k"]) == []
    assert MemoryCheck(("memcheck", "racecheck")).message() == "memcheck and racecheck found nothing"


class Setting:
    """A project on a machine whose checker is a script."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self.workspace = workspace
        self.folder = folder
        self.project = Project(
            project_id="project_test",
            name="test",
            entry="test",
            entry_path="test",
            project_dir="",
            target="cuda",
            interpreter=Interpreter(
                executable="/bin/python", found_by="server", python_version="3.12", torch_version="2.11"
            ),
            device=DeviceInfo(target="cuda", name="H200", arch="sm_90a", sm_count=132),
            workload_us=1.0,
            created_at=now(),
        )

    def check(self, **outputs: str) -> MemoryCheck:
        tool = self.folder / "compute-sanitizer"
        for name, text in outputs.items():
            (self.folder / name).write_text(text)
        if outputs:
            tool.write_text(f'#!/bin/sh\ncat "{self.folder}/$2" 2>/dev/null || echo "========= Error: not supported"\n')
            tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
        environment = {"PATH": f"{self.folder}:/usr/bin:/bin", "HOME": str(self.folder)}
        with JobContext.standalone(self.workspace, environment=environment) as ctx:
            plan = parse_plan(SOURCE, card(), "cuda")
            assert isinstance(plan, Plan)
            return check_memory(ctx, self.project, card(), plan, {})


@pytest.fixture
def setting(workspace: Workspace, tmp_path: Path) -> Setting:
    return Setting(workspace, tmp_path)


def test_both_tools_run_and_find_nothing(setting: Setting) -> None:
    found = setting.check(memcheck=CLEAN, racecheck=CLEAN.replace("ERROR SUMMARY", "RACECHECK SUMMARY"))
    assert (found.ran, found.findings, found.not_run) == (("memcheck", "racecheck"), (), ())


def test_a_finding_ends_the_check(setting: Setting) -> None:
    found = setting.check(memcheck=BEYOND, racecheck=RACE)
    assert found.ran == ("memcheck",)
    assert not found.passed
    assert found.message().startswith("line 9: Invalid __global__ read")


def test_a_tool_that_does_not_work_here_is_said_and_the_other_still_runs(setting: Setting) -> None:
    found = setting.check(racecheck=RACE)
    assert found.ran == ("racecheck",)
    assert found.not_run == ("memcheck could not be run here: Error: not supported",)
    assert not found.passed


def test_a_candidate_that_crashes_without_a_report_has_failed(setting: Setting) -> None:
    found = setting.check(memcheck=CLEAN.replace(FINE, TRAPPED))
    assert [one.message for one in found.findings] == ["step 0 (`k`, grid 4, block 256): a kernel trapped"]


def test_without_the_tool_it_is_said_what_was_not_checked(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforge_mcp.judge.memory_check.find_tool", lambda *_: "")
    found = setting.check()
    assert found.ran == ()
    assert "pip install nvidia-cuda-sanitizer-api" in found.message()
