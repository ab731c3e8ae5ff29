"""The float64 oracle: eager under a dispatch mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from kforge_mcp.runtime.oracle import expected, lowered


def _rms(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    wide = x.to(torch.float32)
    return w * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def _run(function: Any, *tensors: torch.Tensor) -> Any:
    with torch.no_grad():
        return expected(lambda inputs: [function(*inputs)], tensors)


def test_casts_inside_the_operator_become_float64() -> None:
    x, w = torch.randn(4, 64).bfloat16(), torch.randn(64).bfloat16()
    known = _run(_rms, x, w)
    exact = w.double() * (x.double() * torch.rsqrt(x.double().pow(2).mean(-1, keepdim=True) + 1e-6))
    torch.testing.assert_close(known.wide[0], exact, rtol=1e-12, atol=1e-12)
    assert known.narrow[0].dtype is torch.bfloat16
    assert known.note == ""


def test_factories_and_dtype_arguments_become_float64() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        ones = torch.full((3,), 1 / 3, dtype=torch.float32) + torch.tensor(1 / 7)
        return x.sum(dtype=torch.float32) + ones

    known = _run(function, torch.ones(8))
    assert known.wide[0].dtype is torch.float64
    torch.testing.assert_close(known.wide[0][0].item(), 8 + 1 / 3 + 1 / 7, rtol=0, atol=1e-8)


def test_the_default_dtype_is_restored() -> None:
    _run(lambda x: x + torch.zeros(3), torch.ones(3))
    assert torch.get_default_dtype() is torch.float32


@pytest.mark.parametrize(
    ("function", "shapes", "longest"),
    [
        (lambda x: F.softmax(x, -1), [(4, 50)], 50),
        (lambda x: F.gelu(x), [(4, 50)], 0),
        (lambda x, w: F.linear(x, w), [(4, 50), (7, 50)], 50),
        (lambda x, w: F.conv2d(x, w), [(1, 3, 9, 9), (2, 3, 5, 5)], 75),
        (lambda x: F.layer_norm(x, (50,)), [(4, 50)], 50),
        (lambda x: F.group_norm(x, 2), [(1, 8, 5, 5)], 100),
        (lambda x: x.mean((0, 1)), [(4, 50)], 200),
        (lambda x, y: torch.bmm(x, y), [(2, 3, 11), (2, 11, 4)], 11),
        (lambda x: x.cumsum(0), [(4, 50)], 4),
        (lambda q: F.scaled_dot_product_attention(q, q, q), [(1, 2, 40, 8)], 40),
    ],
)
def test_the_longest_reduction_is_read_from_the_trace(
    function: Any, shapes: list[tuple[int, ...]], longest: int
) -> None:
    assert _run(function, *(torch.randn(shape) for shape in shapes)).longest == longest


def test_integers_and_booleans_are_taken_from_eager() -> None:
    x = torch.randn(4, 50)
    assert torch.equal(_run(lambda x: x.argmax(-1), x).wide[0], x.argmax(-1))
    assert torch.equal(_run(lambda x: x > 0, x).wide[0], x > 0)


def test_an_operator_that_refuses_float64_is_its_own_oracle_and_says_so() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.dtype is not torch.float32:
            raise TypeError("float32 only")
        return x * 2

    known = _run(function, torch.ones(3))
    assert torch.equal(known.wide[0], torch.full((3,), 2.0, dtype=torch.float64))
    assert "no float64 oracle" in known.note


def test_eager_may_change_its_inputs() -> None:
    x = torch.ones(3)
    known = _run(lambda x: x.add_(1), x)
    assert torch.equal(x, torch.ones(3))
    assert torch.equal(known.wide[0], torch.full((3,), 2.0, dtype=torch.float64))


def test_internals_one_class_lower_lose_digits() -> None:
    x = torch.randn(64)
    outputs = lowered(lambda inputs: [torch.exp(inputs[0])], [x], [x])
    assert outputs is not None
    error = (outputs[0] / torch.exp(x) - 1).abs().mean()
    assert 1e-4 < error < 0.1
