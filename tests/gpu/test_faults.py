"""Faulty launches on the GPU: what is said names the kernel, the step and the limit, and the next program runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.engine.context import JobContext
from tests.candidate.cards import candidate_text
from tests.compile.cuda.programs import card
from tests.gpu.programs import Prepared, prepared

STEPS = """
[[step]]
kernel = "fine"
grid = ["x.shape[0]"]
block = ["256"]
args = ["x", "out"]
[[step]]
kernel = "faulty"
grid = ["{grid}"]
block = ["{block}"]
args = ["x", "out"]
"""
FINE = "__global__ void fine(const float* x, float* out) { out[blockIdx.x * 256 + threadIdx.x] = x[threadIdx.x]; }\n"


def faulty(
    ctx: JobContext, folder: Path, body: str, *, grid: str = "1", block: str = "32", more: str = "", attribute: str = ""
) -> Prepared:
    code = f"{FINE}__global__ void {attribute} faulty(const float* x, float* out) {{ {body} }}\n"
    (one,) = prepared(ctx, folder, candidate_text(STEPS.format(grid=grid, block=block) + more, code), card())
    return one


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("out[1ll << 40] = 1;", "a kernel used an address outside of memory that is there"),
        ("*(float*)((char*)out + 2) = 1;", "a kernel used an address that is not a multiple of the access's size"),
        ("if (x[0] != 12345.f) __trap();", "CUDA_ERROR_"),
    ],
)  # fmt: skip
def test_a_kernel_that_fails_is_named(ctx: JobContext, launcher: Any, tmp_path: Path, body: str, said: str) -> None:
    one = faulty(ctx, tmp_path, body)
    answer = launcher.run({**one.job, "how": "stepwise"})
    assert (answer["status"], answer["reason"]) == ("failed", "crashed")
    assert answer["message"].startswith("step 1 (`faulty`, grid 1, block 32): ")
    assert said in answer["message"]
    together = launcher.run(one.job)
    assert (together["status"], together["reason"]) == ("failed", "crashed")
    assert "one of 2 kernels" in together["message"]
    after = faulty(ctx, tmp_path, "")
    assert launcher.run(after.job)["status"] == "ok"


def test_a_kernel_that_never_ends_is_killed_and_the_next_runs(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    one = faulty(ctx, tmp_path, "while (*(volatile const float*)x != 12345.f) { }")
    assert launcher.run({**one.job, "timeout_s": 8})["status"] == "killed"
    assert launcher.run(faulty(ctx, tmp_path, "").job)["status"] == "ok"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"block": [2048, 1, 1]}, "a block of 2048 in x; this device takes at most 1024"),
        ({"grid": [1, 70000, 1]}, "a grid of 70000 in y; this device takes at most 65535"),
        ({"shared_bytes": 300_000}, "300000 bytes of shared memory; this device has at most"),
        ({"cooperative": True, "grid": [1_000_000, 1, 1]}, "a cooperative grid of 1000000 blocks; this device holds"),
        ({"cluster": [3, 1, 1], "grid": [4, 1, 1]}, "a grid of 4 in x, which the cluster's 3 blocks do not divide"),
        ({"cluster": [64, 1, 1], "grid": [64, 1, 1]}, "a cluster of 64 blocks; for this kernel the device"),
    ],
)  # fmt: skip
def test_a_limit_of_the_device_is_named(
    ctx: JobContext, launcher: Any, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    one = faulty(ctx, tmp_path, "")
    one.job["bound"]["steps"][1].update(change)
    answer = launcher.run(one.job)
    assert (answer["status"], answer["reason"]) == ("failed", "launch_failed")
    assert answer["message"].startswith("step 1 (`faulty`, grid ")
    assert said in answer["message"]


def test_a_block_beyond_the_kernels_launch_bounds_is_named(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    one = faulty(ctx, tmp_path, "", block="128", attribute="__launch_bounds__(64)")
    answer = launcher.run(one.job)
    assert answer["reason"] == "launch_failed"
    assert "a block of 128 threads; the kernel takes at most 64, by its" in answer["message"]


def test_static_and_dynamic_shared_memory_together_are_too_much(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    body = "__shared__ float kept[8000]; kept[threadIdx.x] = x[threadIdx.x]; __syncthreads(); out[0] = kept[5];"
    one = faulty(ctx, tmp_path, body, more='shared_bytes = "220 * 1024"\n')
    answer = launcher.run(one.job)
    assert answer["reason"] == "launch_failed"
    assert "225280 dynamic and 32000 static bytes of shared memory; this device has at most" in answer["message"]


def test_a_cubin_of_another_architecture_is_refused(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    source = candidate_text(STEPS.format(grid="1", block="32"), FINE + FINE.replace("fine", "faulty"))
    (one,) = prepared(ctx, tmp_path, source, card(), arch="sm_80")
    answer = launcher.run(one.job)
    assert answer["reason"] == "launch_failed"
    assert "the cubin is for another architecture than this device's sm_90" in answer["message"]


def test_an_operator_that_needs_more_memory_than_there_is(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    one = faulty(ctx, tmp_path, "")
    wide = {"kind": "value", "keyword": False, "index": 0, "name": "", "parameter": "repeats"}
    one.job["bound"]["steps"].append(
        {
            "step": 2, "operator": "aten::repeat", "overload": "default",
            "arguments": [{**wide, "kind": "tensor", "value": None}, {**wide, "value": [1 << 20, 1 << 10]}],
            "outputs": [{"kind": "intermediate", "index": 0, "name": "h"}],
        }
    )  # fmt: skip
    one.job["bound"]["intermediates"] = [{"name": "h", "dtype": "fp32", "shape": [4 << 20, 256 << 10]}]
    answer = launcher.run(one.job)
    assert (answer["status"], answer["reason"]) == ("failed", "out_of_memory")
    assert answer["message"].startswith("step 2 (call of `aten::repeat`): ")
