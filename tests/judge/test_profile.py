"""A profile says what is known, from where, and what is not."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.profile import run_profile
from kforge_mcp.records.base import now
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.profile import Profile
from kforge_mcp.records.project import Ceilings, DeviceInfo, Target
from kforge_mcp.store import candidates
from kforge_mcp.store.workspace import Workspace
from tests.judge.test_counters import OUTPUT
from tests.search.building import make_project, make_variant, measured, source, store_card

CUDA = """\
// /// kforge
// [[step]]
// kernel = "k"
// grid = ["hidden_states.shape[0]"]
// block = ["BLOCK"]
// shared_bytes = "BLOCK * 4"
// args = ["hidden_states", "weight", "eps", "hidden_states.shape[1]", "out"]
// [tunables]
// BLOCK = [128, 256]
// ///
extern __shared__ float kept[];
__global__ void k(const float* x, const float* w, float eps, long long n, float* y) {
    for (long long i = threadIdx.x; i < n; i += BLOCK) y[blockIdx.x * n + i] = x[blockIdx.x * n + i] * w[i] + eps;
}
"""
GPU = DeviceInfo(
    target="cuda", name="H200", uuid="GPU-test", arch="sm_90a", sm_count=132,
    ceilings=Ceilings(bandwidth_gbs={1 << 30: 4000.0}, gflops={"fp32": 50_000.0}),
)  # fmt: skip
ANSWER = {
    "error": None, "finding": None, "device_us": 21.0, "floor_us": 2.4, "call_us": 9.0, "steps_us": [20.0],
    "launches": [{"kernel": "k", "blocks_per_sm": 8, "occupancy": 0.5, "waves": 0.48, "local_bytes": 0}],
}  # fmt: skip


def profiled(
    workspace: Workspace, text: str, target: Target, *, device: DeviceInfo | None = None, benchmarked: float = 0.0,
    config: dict[str, Any] | None = None, environment: dict[str, str] | None = None, **changes: Any,
) -> Profile:  # fmt: skip
    project = make_project(target=device.target, device=device, project_dir="") if device else None
    owner, card = store_card(workspace, None, **changes)
    if project:
        from kforge_mcp.store import projects

        owner = project.model_copy(update={"project_id": owner.project_id})
        with workspace.transaction() as session:
            projects.save(session, owner)
    candidate = Candidate(
        candidate_id="cand_0000000001",
        card_id=card.card_id,
        project_id=owner.project_id,
        target=target,
        source=workspace.blobs.put(text.encode()),
        source_key="key",
        created_at=now(),
    )
    if benchmarked:
        result = measured(card, candidate.candidate_id, benchmarked).model_copy(update={"config": config or {}})
        candidate = candidate.model_copy(update={"benchmarked": result})
    with workspace.transaction() as session:
        candidates.save(session, candidate)
    with JobContext.standalone(workspace, environment=environment) as ctx:
        return Profile.model_validate(run_profile(ctx, candidate_id=candidate.candidate_id))


@contextmanager
def answering(patch: pytest.MonkeyPatch, answer: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """A model interpreter that answers without a GPU."""
    asked: list[dict[str, Any]] = []

    class Process:
        def call(self, op: str, payload: dict[str, Any], **_: Any) -> dict[str, Any]:
            assert op == "measure_cuda"
            asked.append(payload)
            return answer

    @contextmanager
    def runtime(_self: JobContext, _interpreter: Any, **_: Any) -> Iterator[Process]:
        yield Process()

    patch.setattr(JobContext, "runtime", runtime)
    yield asked


def test_a_cpu_candidate_has_the_judges_time_against_the_ceilings(workspace: Workspace) -> None:
    device = DeviceInfo(
        target="cpu", name="CPU", ceilings=Ceilings(bandwidth_gbs={1 << 20: 20.0}, gflops={"fp32": 100.0})
    )
    found = profiled(workspace, source(), "cpu", device=device, benchmarked=2.0)
    assert (found.candidate_us, found.time_source, found.eager_us) == (200.0, "benchmark", 400.0)
    assert found.bandwidth_gbs == pytest.approx(8 * 512 * 1024 / 200 / 1e3)
    assert found.bound == "memory"
    assert found.evidence[0].startswith("bandwidth of what has to be moved: 105% of the ceiling")
    assert found.kernels == []
    assert "arithmetic beside matrix products is not counted" in found.notes


def test_without_a_benchmark_the_bound_is_unknown(workspace: Workspace) -> None:
    found = profiled(workspace, source(), "cpu")
    assert (found.candidate_us, found.bound) == (None, "unknown")
    assert found.evidence[0] == "no time was measured: call benchmark"


def test_a_source_that_does_not_compile_has_its_reason(workspace: Workspace) -> None:
    found = profiled(workspace, source(body="int x = ;"), "cpu")
    assert found.reason == "syntax_error"
    assert found.message


def test_a_cuda_candidate_without_a_gpu_has_its_cubins_facts(workspace: Workspace) -> None:
    environment = {"KFORGE_CUDA_ARCH": "sm_90a", "PATH": "/usr/bin:/bin"}
    found = profiled(workspace, CUDA, "cuda", environment=environment)
    (kernel,) = found.kernels
    assert kernel.registers > 0
    assert (kernel.spill_bytes, kernel.grid, kernel.block) == (0, [512, 1, 1], [128, 1, 1])
    assert kernel.dynamic_shared_bytes == 512
    assert (kernel.occupancy, found.bound) == (None, "unknown")
    assert "without a GPU" in found.notes[0]


def test_on_a_device_times_residency_and_counters_come_together(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "ncu"
    tool.write_text(f"#!/bin/sh\ncat <<'END'\n{OUTPUT}END\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    with answering(monkeypatch, ANSWER) as asked:
        found = profiled(
            workspace, CUDA, "cuda", device=GPU, environment=environment, benchmarked=20.0, config={"BLOCK": 256}
        )
    (job,) = asked
    assert job["bound"]["steps"][0]["block"] == [256, 1, 1]
    assert job["names"] == ["hidden_states", "weight", "out"]
    (kernel,) = found.kernels
    assert (kernel.occupancy, kernel.blocks_per_sm, kernel.waves, kernel.time_share) == (0.5, 8, 0.48, 1.0)
    assert (found.candidate_us, found.time_source) == (20.0, "benchmark")
    assert (found.call_us, found.floor_us, found.config) == (9.0, 2.4, {"BLOCK": 256})
    assert found.bound == "latency"
    assert [(one.kernel, one.name) for one in found.counters[:2]] == [("k", "time"), ("k", "dram read")]


def test_where_counters_are_missing_it_is_said(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kforge_mcp.judge.counters.find_tool", lambda *_: "")
    with answering(monkeypatch, ANSWER):
        found = profiled(workspace, CUDA, "cuda", device=GPU, variants=[make_variant(rows=64)])
    assert (found.candidate_us, found.time_source) == (21.0, "events")
    assert any(note.startswith("no counters: ncu was found neither") for note in found.notes)


def test_a_candidate_that_crashes_has_no_profile(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = {"reason": "crashed", "message": "step 0 (`k`): a kernel trapped"}
    with answering(monkeypatch, {"error": None, "finding": finding}):
        found = profiled(workspace, CUDA, "cuda", device=GPU)
    assert (found.reason, found.message) == ("crashed", "step 0 (`k`): a kernel trapped")


def test_a_machine_without_a_device_says_so(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(monkeypatch, {"error": "Torch not compiled with CUDA enabled", "finding": None}):
        found = profiled(workspace, CUDA, "cuda", device=GPU)
    assert found.reason is None
    assert found.notes[0] == "no times and no occupancy: Torch not compiled with CUDA enabled"
    assert found.kernels[0].registers > 0
