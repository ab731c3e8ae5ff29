"""NVIDIA's checker and profiler over candidates on the GPU, and the times of a profile."""

from __future__ import annotations

from typing import Any

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile.cuda.tools import CHECKER, PROFILER, find_tool
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.memory_check import MemoryCheck, check_memory
from kforge_mcp.judge.profile import profile
from kforge_mcp.records.base import now
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, DeviceInfo, Interpreter, Project
from tests.candidate.cards import candidate_text
from tests.compile.cuda.programs import card
from tests.gpu.test_launches import CORPUS, facts_of

STEP = '[[step]]\nkernel = "k"\ngrid = ["x.shape[0]"]\nblock = ["256"]\nargs = ["x", "out"]\n'


@pytest.fixture(scope="module")
def project(launcher: Any, model_python: str) -> Project:
    facts = launcher.run({"how": "nothing"})["device"]
    return Project(
        project_id="project_test",
        name="test",
        entry="test",
        entry_path="test",
        project_dir="",
        target="cuda",
        interpreter=Interpreter(
            executable=model_python, found_by="python argument", python_version="3", torch_version="2"
        ),
        device=DeviceInfo(
            target="cuda",
            name=facts["name"],
            uuid=facts["uuid"],
            arch=facts["architecture"],
            sm_count=facts["sm_count"],
            ceilings=Ceilings(bandwidth_gbs={1 << 30: 4000.0}, gflops={"fp32": 50_000.0}),
        ),
        workload_us=1.0,
        created_at=now(),
    )


def checked(ctx: JobContext, project: Project, source: str, on: OperatorCard) -> MemoryCheck:
    if not find_tool(ctx, CHECKER):
        pytest.skip(f"{CHECKER} is not installed")
    plan = parse_plan(source, on, "cuda")
    assert isinstance(plan, Plan), plan.message
    found = check_memory(ctx, project, on, plan, {})
    if found.not_run:
        pytest.skip("; ".join(found.not_run))
    return found


def kernel(body: str) -> str:
    return candidate_text(STEP, f"__global__ void k(const float* x, float* out) {{\n{body}\n}}\n")


def test_a_read_one_element_beyond_an_input_is_found_at_its_line(ctx: JobContext, project: Project) -> None:
    source = kernel("    const int i = blockIdx.x * 256 + threadIdx.x;\n    out[i] = x[i + 1];")
    found = checked(ctx, project, source, card())
    (one,) = [finding for finding in found.findings if finding.severity == "error"]
    assert source.splitlines()[one.line - 1].strip() == "out[i] = x[i + 1];"
    assert "by thread (255,0,0) in block (3,0,0)" in one.message
    assert one.message.endswith("1 bytes after the end of `x`")


def test_a_race_in_shared_memory_is_found_at_both_lines(ctx: JobContext, project: Project) -> None:
    source = kernel(
        "    __shared__ float t[256];\n    const int i = blockIdx.x * 256 + threadIdx.x;\n"
        "    t[threadIdx.x] = x[i];\n    out[i] = t[(threadIdx.x + 33) % 256];"
    )
    found = checked(ctx, project, source, card())
    assert not found.passed
    lines = source.splitlines()
    write, read = (next(n for n, line in enumerate(lines, 1) if text in line) for text in ("] = x[i]", "+ 33"))
    assert found.message() == (
        f"line {write}: a race in shared memory between the write in line {write} and the read in line {read}: a "
        "barrier is missing"
    )


@pytest.mark.parametrize("name", ["layer_norm_welford", "tma_tile_load", "mlp_with_calls", "cluster_ranks"])
def test_a_right_kernel_passes_both_tools(ctx: JobContext, project: Project, name: str) -> None:
    source = CORPUS[name]
    found = checked(ctx, project, source, facts_of(source).card)
    assert (found.ran, found.findings) == (("memcheck", "racecheck"), ())


def test_a_profile_on_the_device_has_times_residency_and_counters(ctx: JobContext, project: Project) -> None:
    source = CORPUS["layer_norm_welford"]
    on = facts_of(source).card
    candidate = Candidate(
        candidate_id="cand_0000000001",
        card_id=on.card_id,
        project_id=project.project_id,
        target="cuda",
        source=ctx.workspace.blobs.put(source.encode()),
        source_key="key",
        created_at=now(),
    )
    found = profile(ctx, project, on, candidate)
    assert found.reason is None, found.message
    assert found.time_source == "events"
    assert found.candidate_us is not None
    assert found.floor_us is not None
    assert found.candidate_us > 0
    assert found.call_us is not None
    for one in found.kernels:
        assert one.occupancy is not None
        assert 0 < one.occupancy <= 1
        assert one.time_share is not None
    assert sum(one.time_share or 0 for one in found.kernels) == pytest.approx(1)
    assert found.bound != "unknown"
    if find_tool(ctx, PROFILER) and found.counters:
        named = {one.name: one.value for one in found.counters}
        assert named["time"] > 0
        assert len(named) >= 18
    else:
        assert any(note.startswith("no counters") for note in found.notes)
