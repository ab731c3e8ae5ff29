"""Which GPUs a package is compiled for beside the one its kernels were judged on."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.compile.cuda.toolchain import toolchains
from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.interpreter import find_interpreter
from kforge_mcp.export.evidence import further_binaries
from kforge_mcp.judge.evaluate import Claim
from kforge_mcp.records.base import now
from kforge_mcp.records.project import DeviceInfo, Project
from tests.export.cuda.test_staging import plain


@pytest.mark.parametrize(
    ("judged", "asked", "expected"),
    [
        ("sm_80", "sm_80", ["compute_80"]),
        ("sm_90a", "sm_90a", []),
        ("sm_90a", "sm_90a,sm_86", ["sm_86", "compute_86"]),
        ("sm_80", "compute_90", ["compute_90", "compute_80"]),
    ],
)
def test_ptx_goes_with_every_cubin_that_is_not_for_one_gpu_alone(
    workspace, model_python: str, tmp_path: Path, judged: str, asked: str, expected: list[str]
) -> None:
    environment = {"PATH": "/usr/bin:/bin", "KFORGE_CUDA_ARCH": asked}
    with JobContext.standalone(workspace, tool="export_package", cwd=tmp_path, environment=environment) as ctx:
        if not toolchains(ctx)[0].usable:
            pytest.skip(f"no NVRTC in {sys.executable}: pip install 'kforge-mcp[cu13]'")
        project = Project(
            project_id="p", name="p", entry="", entry_path="", project_dir="", target="cuda",
            interpreter=find_interpreter(model_python, None), workload_us=1.0, created_at=now(),
            device=DeviceInfo(target="cuda", name="a GPU", arch=judged),
        )  # fmt: skip
        one = plain()
        compiled = compile_candidate(ctx, one.plan, one.card, [{}], architectures=[judged])
        assert isinstance(compiled, Compiled)
        claim = Claim(card=one.card, plan=one.plan, compiled=compiled, config={}, candidate_id="c")
        made = further_binaries(ctx, project, claim)
        assert [binary.arch for binary in made] == expected
        assert all(binary.kernels[0].symbol == compiled.binaries[0].kernels[0].symbol for binary in made)
        cpu = project.model_copy(update={"target": "cpu"})
        assert further_binaries(ctx, cpu, claim) == []
