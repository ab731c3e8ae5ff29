"""A project on a CUDA device, where the model interpreter has none: said as that, and no fault of the candidate."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.cuda.toolchain import toolchains
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.evaluate import evaluate
from kforge_mcp.judge.pool import pool
from kforge_mcp.store.workspace import Workspace

SOURCE = """// /// kforge
// [[step]]
// kernel = "relu"
// grid = ["ceil_div(x.numel, 256)"]
// block = ["256"]
// args = ["x", "x.numel", "out"]
// ///
__global__ void relu(const x_t* x, long long n, out_t* out) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i < n) out[i] = x[i] < 0 ? 0 : x[i];
}
"""


def test_a_missing_device_is_said(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    script = "import torch; print(torch.cuda.is_available())"
    said = subprocess.run([model_python, "-c", script], capture_output=True, text=True, check=True).stdout
    if said.strip() == "True":
        pytest.skip("the model interpreter has a CUDA device")
    card = cards.card(tmp_path, [cards.RELU])
    project = cards.project(model_python, tmp_path)
    device = project.device.model_copy(update={"target": "cuda", "uuid": "GPU-none", "memory_bytes": 1 << 30})
    project = project.model_copy(update={"target": "cuda", "device": device})
    with JobContext.standalone(workspace) as ctx:
        if not toolchains(ctx)[0].usable:
            pytest.skip("no NVRTC: pip install 'kforge-mcp[cu13]'")
        plan = parse_plan(SOURCE, card, "cuda")
        assert not isinstance(plan, Rejected), plan
        compiled = compile_candidate(ctx, plan, card, configurations(plan), architectures=("sm_90a",))
        assert isinstance(compiled, Compiled), compiled
        judgement = evaluate(ctx, project, card, plan, compiled, candidate_id="cand_x")
    pool.close()
    assert judgement.validated.reason == "target_unavailable", judgement.validated
    assert "not judged" in judgement.validated.message
