from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.candidate.signature import groups
from kforge_mcp.compile.cuda.sass import candidate_sass, disassemble
from kforge_mcp.compile.cuda.source import cuda_program
from kforge_mcp.compile.cuda.toolchain import find_toolchain
from kforge_mcp.engine.context import JobContext
from tests.compile.cuda.conftest import CompileCuda, ok
from tests.compile.cuda.programs import ASYNC_COPY, GROUPS, MATRIX, OPENING, PLAIN, candidate, card

SOFTMAX = candidate(
    OPENING
    + """
    __shared__ float part[8];
    float v = x_load(x[blockIdx.x * n + threadIdx.x]) * scale, top = v;
    for (int o = 16; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
    float e = __expf(v - top), sum = e;
    for (int o = 16; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    out[blockIdx.x * n + threadIdx.x] = out_store(e / part[threadIdx.x / 32]);
}
"""
)
NVCC = shutil.which("nvcc", path="/usr/local/cuda/bin") or shutil.which("nvcc")


def plan_of(source: str, dtype: str) -> Plan:
    plan = parse_plan(source, card(dtype), "cuda")
    assert isinstance(plan, Plan), plan.message
    return plan


def test_machine_code_stands_beside_the_authors_lines(ctx: JobContext) -> None:
    plan = plan_of(SOFTMAX, "bf16")
    text = candidate_sass(ctx, plan, card("bf16"), configurations(plan)[0])
    assert text.startswith("// sm_90a, no tunables; NVRTC ")
    assert "// line 15: __syncthreads();" in text
    assert "BAR.SYNC" in text
    assert "SHFL" in text[text.index("// line 12") :]


def instructions(listing: str) -> list[str]:
    """Instructions without addresses, names of labels, padding, and the no-operation that some releases add."""
    found = [match[1] for match in re.finditer(r"/\*[0-9a-f]{4,}\*/\s+([^;]+);", listing)]
    kept = [line for line in found if line.strip() != "NOP" and not line.startswith("@!UPT UIADD3 URZ, URZ")]
    return [re.sub(r"`\([^)]*\)", "label", line).strip() for line in kept]


@pytest.mark.parametrize(
    ("source", "dtype"),
    [(PLAIN, "fp32"), (SOFTMAX, "bf16"), (GROUPS, "bf16"), (MATRIX, "fp16"), (ASYNC_COPY, "fp32")],
    ids=["plain", "softmax", "cooperative groups", "wmma", "cp.async"],
)
def test_the_code_is_that_of_nvcc(ctx: JobContext, cuda: CompileCuda, tmp_path: Path, source: str, dtype: str) -> None:
    if NVCC is None:
        pytest.skip("no nvcc on this machine to compare with")
    toolchain = find_toolchain(ctx)
    said = subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout
    release = said.split("release ")[1].split(",")[0]
    if release.split(".")[0] != str(toolchain.major):
        pytest.skip(f"nvcc {release} cannot be compared with NVRTC {toolchain.nvrtc}")
    plan = plan_of(source, dtype)
    (group,) = groups(plan, card(dtype), {})
    program = cuda_program(plan, card(dtype), group, {})
    (tmp_path / "candidate.cu").write_text(program.whole)
    command = [
        NVCC, "-cubin", "-arch=sm_90a", "-std=c++17", "-D_CG_LIMIT_INCLUDED_DEPENDENCIES", "candidate.cu",
        "-o", "nvcc.cubin",
    ]  # fmt: skip
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    binary = ok(cuda(source, card(dtype))).binaries[0]
    ours = instructions(disassemble(ctx, toolchain, Path(binary.path)))
    theirs = instructions(disassemble(ctx, toolchain, tmp_path / "nvcc.cubin"))
    assert ours == theirs
