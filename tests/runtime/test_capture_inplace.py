"""Operators that write into their inputs, and outputs that share memory."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime import blobs
from kforge_mcp.runtime.reference import load_reference
from kforge_mcp.runtime.tensors import from_bytes


@pytest.mark.parametrize(
    ("body", "name", "overwritten"),
    [
        ("lambda self, x: x.clone().mul_(2.0)", "torch.Tensor.mul_", [0]),
        ("lambda self, x: nn.functional.relu(x.clone(), inplace=True)", "torch.nn.functional.relu", [0]),
        ("lambda self, x: self.a(x.clone())", "ReLU", [0]),
        ("lambda self, x: both(x, x.clone())[0]", "both", [-1, 1]),
        ("lambda self, x: x * 2.0", "torch.mul", []),
    ],
)
def test_an_input_that_is_written_and_returned_is_named(sample, body, name, overwritten):
    extra = "def both(x, y):\n    y.add_(x)\n    return x * 2, y\n"
    captured = sample(f"model({body}, a=nn.ReLU(inplace=True))", extra=extra)
    card = captured.card(name)
    (variant,) = card["variants"]
    assert variant["overwritten"] == overwritten
    given = [from_bytes(spec, blobs.read(captured.root, spec["sample"])) for spec in variant["tensors"]]
    before = [tensor.clone() for tensor in given]
    result = load_reference(card["reference"], captured.root).call(given, variant["call"])
    results = [result] if isinstance(result, torch.Tensor) else list(result)
    for index, tensor in zip(overwritten, results, strict=False):
        assert index < 0 or tensor is given[index]
    changed = [not torch.equal(now, was) for now, was in zip(given, before, strict=True)]
    assert changed == [index in overwritten for index in range(len(given))]


@pytest.mark.parametrize(
    ("body", "name", "said"),
    [
        ("lambda self, x: unsaid(x.clone())", "unsaid", "without returning just that input"),
        ("lambda self, x: twice(x.clone(), x.clone())", "twice", "without returning just that input"),
        ("lambda self, x: first_half(x.clone())", "first_half", "without returning just that input"),
        ("lambda self, x: shared(*(lambda y: (y[0], y[:, 0]))(x.clone()))", "shared", "shares its storage"),
        ("lambda self, x: x.clone().__setitem__(0, x[1]) or x", "torch.Tensor.__setitem__", "in place"),
        ("lambda self, x: same_element(x)", "same_element", "share elements"),
    ],
)
def test_other_writes_are_not_eligible(sample, body, name, said):
    extra = """
def unsaid(x):
    x.mul_(2.0)
    return x + 0.0
def twice(x, y):
    x.mul_(2.0)
    y.mul_(2.0)
    return x
def first_half(x):
    x.mul_(2.0)
    return x[:1]
def shared(x, y):
    return x.mul_(2.0)
def same_element(x):
    y = x * 2
    return y, y[1:]
"""
    captured = sample(f"model({body})", extra=extra)
    assert captured.card(name)["variants"] == []
    assert said in captured.reason(name)


def test_outputs_may_be_parts_of_one_storage(sample):
    extra = "def halves(x):\n    return (x * 2).chunk(2, dim=-1)\n"
    captured = sample("model(lambda self, x: halves(x)[0])", extra=extra)
    (variant,) = captured.card("halves")["variants"]
    assert [spec["stride"] for spec in variant["outputs"]] == [[32, 8, 1], [32, 8, 1]]
    assert [spec["storage_offset"] for spec in variant["outputs"]] == [0, 4]


def test_tensors_beyond_the_budget_are_compared_without_being_kept(sample):
    """Purity is told by digests where there is no room for a copy."""
    extra = "def unsaid(x):\n    x.data.mul_(2.0)\n    return x + 0.0\n"
    captured = sample("model(lambda self, x: (unsaid(x.clone()), helper(x))[1])", extra=extra, max_bytes=0)
    assert "without returning just that input" in captured.reason("unsaid")
    (variant,) = captured.card("helper")["variants"]
    assert variant["tensors"][0]["sample"] == ""
    assert variant["tensors"][0]["recipe"]["kind"] == "quantiles"
