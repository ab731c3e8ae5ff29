"""Trials and timed draws over many kinds of operators: eager, held against its own oracle, always passes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from kforge_mcp.runtime.checks import check
from kforge_mcp.runtime.fingerprint import Fingerprints
from kforge_mcp.runtime.inputs import TRIALS
from kforge_mcp.runtime.trials import Policy, Trials
from tests.runtime.judged_variants import subject


def _rotate(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> Any:
    def half(x: torch.Tensor) -> torch.Tensor:
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)

    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return q * cos + half(q) * sin, k * cos + half(k) * sin


OPERATORS: dict[str, tuple[Any, list[torch.Tensor], int]] = {
    "gelu in fp16": (lambda x: F.gelu(x), [torch.randn(16, 40).half()], 0),
    "softmax in bf16": (lambda x: F.softmax(x, -1), [torch.randn(16, 40).bfloat16()], 0),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (40,), w, b),
        [torch.randn(16, 40), torch.ones(40), torch.zeros(40)],
        2,
    ),
    "batch norm": (
        lambda x, m, v: F.batch_norm(x, m, v),
        [torch.randn(8, 6, 4, 4), torch.zeros(6), torch.ones(6)],
        2,
    ),
    "group norm": (lambda x: F.group_norm(x, 2), [torch.randn(8, 6, 4, 4)], 0),
    "linear": (lambda x, w, b: F.linear(x, w, b), [torch.randn(16, 40), torch.randn(8, 40), torch.randn(8)], 2),
    "matmul": (lambda x, y: x @ y, [torch.randn(3, 16, 12), torch.randn(3, 12, 8)], 0),
    "convolution": (lambda x, w: F.conv2d(x, w), [torch.randn(8, 3, 9, 9), torch.randn(4, 3, 3, 3)], 1),
    "rotary embedding": (
        _rotate,
        [torch.randn(1, 8, 10, 16), torch.randn(1, 2, 10, 16), torch.randn(1, 10, 16), torch.randn(1, 10, 16)],
        0,
    ),
    "attention": (lambda q: F.scaled_dot_product_attention(q, q, q), [torch.randn(1, 6, 10, 8)], 0),
    "embedding": (lambda i, w: F.embedding(i, w), [torch.randint(0, 20, (4, 7)), torch.randn(20, 8)], 1),
    "sum to a scalar": (lambda x: x.sum(), [torch.randn(16, 40)], 0),
    "arg max": (lambda x: x.argmax(-1), [torch.randn(16, 40)], 0),
    "comparison": (lambda x, y: x > y, [torch.randn(16, 40), torch.randn(16, 40)], 0),
    "logarithm, NaN below zero": (lambda x: torch.log(x), [torch.randn(16, 40)], 0),
    "exponential, infinite above 88": (lambda x: torch.exp(x), [torch.randn(16, 40)], 0),
    "where with a mask": (lambda x, m: torch.where(m, x, 0.0), [torch.randn(16, 40), torch.rand(16, 40) > 0.5], 0),
    "fp64": (lambda x: torch.tanh(x), [torch.randn(16, 40, dtype=torch.float64)], 0),
    "complex": (lambda x: x * 1j, [torch.randn(16, 40, dtype=torch.complex64)], 0),
    "complex product": (lambda x, y: x * y, [torch.randn(16, 40, dtype=torch.complex64) for _ in range(2)], 0),
    "complex matrices": (
        lambda x, y: x @ y,
        [torch.randn(16, 12, dtype=torch.complex64), torch.randn(12, 8, dtype=torch.complex64)],
        0,
    ),
    "real rotary by complex numbers": (
        lambda x, f: torch.view_as_real(torch.view_as_complex(x) * f),
        [torch.randn(16, 40, 2), torch.polar(torch.ones(40), torch.randn(40))],
        0,
    ),
    "magnitude of complex numbers": (lambda x: x.abs(), [torch.randn(16, 40, dtype=torch.complex64)], 0),
    "to fp8": (lambda x: x.to(torch.float8_e4m3fn), [torch.randn(16, 40)], 0),
    "from fp8": (lambda x, s: x.to(torch.float32) * s, [torch.randn(16, 40).to(torch.float8_e5m2), torch.ones(())], 1),
    "masked softmax": (
        lambda x, m: (x + m).softmax(-1),
        [torch.randn(16, 16), torch.full((16, 16), torch.finfo(torch.float32).min).triu(1)],
        0,
    ),
    "a scalar tensor": (lambda x, s: x * s, [torch.randn(16, 40), torch.randn(())], 0),
    "scalars alone": (lambda x, s: x * s, [torch.randn(()), torch.randn(())], 0),
    "values and places": (lambda x: tuple(x.sort(-1)), [torch.randn(16, 40)], 0),
    "transposed input": (lambda x: x * 2, [torch.randn(40, 16).t()], 0),
    "expanded input": (lambda x, y: x + y, [torch.randn(1, 40).expand(16, 40), torch.randn(16, 40)], 0),
    "in place": (lambda x, y: x.add_(y), [torch.randn(16, 40), torch.randn(16, 40)], 0),
    "a vector": (lambda x: F.silu(x), [torch.randn(100)], 0),
    "one row": (lambda x: F.softmax(x, -1), [torch.randn(1, 100)], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_eager_passes_its_own_trials_and_inputs_are_admitted(name: str) -> None:
    torch.manual_seed(7)
    function, tensors, parameters = OPERATORS[name]
    judged = subject(function, tensors, parameters)
    trials = Trials(judged, None, Policy(2, 1.0), "")
    assert trials.run() is None
    assert trials.uncaught == []
    assert judged.notes == []


@pytest.mark.parametrize("name", OPERATORS)
def test_eager_passes_on_timed_draws(name: str) -> None:
    torch.manual_seed(7)
    function, tensors, parameters = OPERATORS[name]
    judged = subject(function, tensors, parameters)
    trials = Trials(judged, None, Policy(2, 1.0), "")
    trials.run(TRIALS[2:3])
    judged.learn_timed_draws()
    fingerprints = Fingerprints(judged.errors, judged.longest, 3)
    image = judged.fresh.image()
    for _ in range(3):
        blocks = judged.fresh.compose(image)
        known = judged.expect(image, blocks)
        outputs = [tensor.clone() for tensor in known.narrow]
        assert check(outputs, known, blocks) is None
        assert fingerprints.compare([outputs], [known.narrow], [blocks]) is None
        if outputs[0].is_floating_point() and outputs[0].numel() > 1:
            wrong = [torch.zeros_like(t) for t in outputs]
            assert fingerprints.compare([wrong], [known.narrow], [blocks]) is not None


def test_a_draw_on_which_eager_fails_is_left_out_and_noted() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if not bool(torch.isfinite(x).all()):
            raise ValueError("finite values only")
        return x * 2

    judged = subject(function, [torch.randn(16, 40)])
    trials = Trials(judged, None, Policy(2, 1.0), "")
    assert trials.run() is None
    assert any("eager fails on infinities and NaN" in note for note in judged.notes)


def test_inputs_that_tell_nothing_are_not_admitted() -> None:
    judged = subject(lambda x: 1 + 1e-7 * torch.tanh(x), [torch.randn(16, 40)])
    trials = Trials(judged, None, Policy(2, 1.0), "")
    assert trials.run() is None
    assert "internals one class lower" in trials.uncaught


def test_an_identity_is_admitted_since_passing_through_is_right() -> None:
    judged = subject(lambda x: x.clone(), [torch.randn(16, 40)])
    trials = Trials(judged, None, Policy(2, 1.0), "")
    trials.run()
    assert trials.uncaught == []
