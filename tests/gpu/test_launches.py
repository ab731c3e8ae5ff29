"""Every kind of step on the GPU, with what it has to compute; the kernels are those of the compiler's corpus."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforge_mcp.engine.context import JobContext
from tests.candidate.cards import absent, candidate_text, constant, dense, make_card, make_variant, tensor
from tests.compile.test_corpus import FILES, facts_of
from tests.gpu.programs import Prepared, bits_of, prepared
from tests.seeds.arrays import from_bits

CORPUS = {path.stem: path.read_text() for path in FILES}
Values = list[np.ndarray]


def results(answer: dict[str, Any], one: Prepared) -> Values:
    assert answer["status"] == "ok", answer["message"]
    assert answer["intact"]
    assert answer["unchanged"]
    found = []
    for path, spec in zip(answer["outputs"], one.variant.outputs, strict=True):
        bits = bits_of(path, spec)
        floating = spec.dtype in ("fp32", "fp64", "fp16", "bf16")
        # What a kernel leaves unwritten has any bits, signalling NaNs among them.
        with np.errstate(invalid="ignore"):
            found.append((from_bits(bits, spec.dtype) if floating else bits).reshape(spec.shape))
    return found


def inputs(one: Prepared) -> Values:
    return [
        (from_bits(bits, spec.dtype) if spec.dtype in ("fp32", "fp64", "fp16", "bf16") else bits).reshape(spec.shape)
        for bits, spec in zip(one.arrays, one.variant.tensors, strict=True)
    ]


def heads_added(x: np.ndarray) -> np.ndarray:
    heads = np.repeat(x[:, 0].reshape(-1, 4), 4, axis=0)
    return x + heads[:, np.arange(x.shape[1]) % 4]


def smoothed(x: np.ndarray) -> np.ndarray:
    for _ in range(4):
        x = (x + np.roll(x, -1, axis=1)) * 0.5
    return x


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True) @ v


def mlp(x: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    hidden = x @ first.T
    erf = np.vectorize(math.erf)
    return (0.5 * hidden * (1 + erf(hidden * 0.70710678))) @ second.T


KINDS: dict[str, Callable[..., np.ndarray]] = {
    "cooperative_grid_sync": lambda x: x.sum().reshape(1),
    "cooperative_own_barrier": lambda x: x.sum().reshape(1),
    "cluster_ranks": lambda x: x.sum(axis=1),
    "cluster_dims_attribute": heads_added,
    "repeat_stencil": smoothed,
    "tma_tile_load": lambda x: x + 1,
    "tma_store": lambda x: x,
    "mlp_with_calls": mlp,
    "attention_by_operator": attention,
    "null_bias": lambda x: x,
    "three_steps_two_spaces": lambda x: x - x.mean(axis=0),
    "half_workspace": lambda x: np.roll(x, -1, axis=1),
    "inplace_clamp": lambda x: np.clip(x, -1, 1),
}  # fmt: skip
ROUGH = {"mlp_with_calls": 0.02, "three_steps_two_spaces": 0.01, "half_workspace": 0.002}
"""Relative error where intermediates are of 16 bits."""


@pytest.mark.parametrize("how", ["stepwise", "graph"])
@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_step_computes_what_it_should(
    ctx: JobContext, launcher: Any, tmp_path: Path, name: str, how: str
) -> None:
    source = CORPUS[name]
    (one,) = prepared(ctx, tmp_path, source, facts_of(source).card)
    if how == "graph" and "inplace" in source:
        pytest.skip("the launcher runs a captured program three times: in place that is another result")
    (found,) = results(launcher.run({**one.job, "how": how}), one)
    wanted = KINDS[name](*inputs(one))
    error = np.sqrt(np.mean((found - wanted) ** 2)) / np.sqrt(np.mean(wanted**2))
    assert error <= ROUGH.get(name, 1e-5), error


def test_dynamic_shared_memory_beyond_48_kib(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    source = CORPUS["large_dynamic_shared"]
    (one,) = prepared(ctx, tmp_path, source, facts_of(source).card)
    assert one.job["bound"]["steps"][0]["shared_bytes"] > 48 * 1024
    (found,) = results(launcher.run(one.job), one)
    (x,) = inputs(one)
    np.testing.assert_array_equal(found.reshape(-1)[:16384], x.reshape(-1)[:16384][::-1])


def test_an_operator_with_two_results(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    source = CORPUS["sort_by_operator"]
    (one,) = prepared(ctx, tmp_path, source, facts_of(source).card)
    values, places = results(launcher.run(one.job), one)
    (x,) = inputs(one)
    np.testing.assert_array_equal(values, np.sort(x, axis=1))
    np.testing.assert_array_equal(np.take_along_axis(x, places, axis=1), values)


SCALARS = candidate_text(
    """
[[step]]
kernel = "all_kinds"
grid = ["1"]
block = ["1"]
args = ["whole", "number", "yes", "bias", "x.shape[0] - 2**40", "out"]
""",
    """
__global__ void all_kinds(long long whole, float number, bool yes, const x_t* bias, long long far, out_t* out) {
    out[0] = whole; out[1] = number; out[2] = yes; out[3] = bias == nullptr; out[4] = far;
}
""",
)


def test_every_type_of_scalar_and_a_null_pointer(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    arguments = [
        tensor("x", 0), constant("whole", -3), constant("number", float("inf")), constant("yes", True), absent("bias"),
    ]  # fmt: skip
    card = make_card(make_variant("v0", [dense(5)], arguments, [dense(5)]))
    (one,) = prepared(ctx, tmp_path, SCALARS, card)
    (found,) = results(launcher.run(one.job), one)
    assert found.tolist() == [-3, float("inf"), 1, 1, np.float32(5 - 2**40)]


def test_doubles_are_passed_to_kernels_of_fp64(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    source = candidate_text(
        '[[step]]\nkernel = "k"\ngrid = ["1"]\nblock = ["1"]\nargs = ["number", "out"]\n',
        "__global__ void k(double number, double* out) { out[0] = number; }\n",
    )
    arguments = [tensor("x", 0), constant("number", 0.1)]
    spec = dense(1, dtype="fp64")
    (one,) = prepared(ctx, tmp_path, source, make_card(make_variant("v0", [spec], arguments, [spec])))
    (found,) = results(launcher.run(one.job), one)
    assert found.tolist() == [0.1]


def test_ptx_is_loaded_too(ctx: JobContext, launcher: Any, tmp_path: Path) -> None:
    source = CORPUS["vector_add"]
    (one,) = prepared(ctx, tmp_path, source, facts_of(source).card, arch="compute_80")
    (found,) = results(launcher.run(one.job), one)
    a, b = inputs(one)
    np.testing.assert_allclose(found, np.float32(a) + np.float32(b), rtol=1e-6)


@pytest.mark.parametrize("name", CORPUS)
def test_a_kernel_of_the_corpus_runs_and_keeps_to_its_memory(
    ctx: JobContext, launcher: Any, tmp_path: Path, name: str
) -> None:
    source = CORPUS[name]
    for one in prepared(ctx, tmp_path, source, facts_of(source).card):
        results(launcher.run({**one.job, "how": "stepwise", "timeout_s": 30}), one)
