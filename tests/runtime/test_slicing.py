"""The oracle on some rows of a call that is too large for it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from kforge_mcp.runtime import slicing
from kforge_mcp.runtime.checks import check
from kforge_mcp.runtime.inputs import TRIALS, draws
from kforge_mcp.runtime.oracle import Expected
from kforge_mcp.runtime.subject import Subject
from kforge_mcp.runtime.trials import Policy, Trials
from tests.runtime.judged_variants import subject

ROWS = 200


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(slicing.MOST_ELEMENTS, "cpu", 1 << 10)
    monkeypatch.setattr(slicing, "_BEYOND", 1)


def _known(judged: Subject, trial: str = TRIALS[2]) -> tuple[Expected, Any]:
    draw = next(draws(trial, judged.variant, judged.where, judged.generator, ""))
    image = judged.fresh.image()
    judged.fresh.place_values(image, draw.tensors)
    return judged.expect(image, draw.blocks), draw.blocks


BY_ROWS: dict[str, tuple[Any, list[torch.Tensor], int]] = {
    "softmax": (lambda x: F.softmax(x, -1), [torch.randn(ROWS, 64)], 0),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (64,), w, b),
        [torch.randn(ROWS, 64), torch.ones(64), torch.ones(64)],
        2,
    ),
    "linear in bf16": (
        lambda x, w: F.linear(x, w),
        [torch.randn(ROWS, 64).bfloat16(), torch.randn(32, 64).bfloat16()],
        1,
    ),
    "matmul of squares": (lambda x, y: x @ y, [torch.randn(ROWS, ROWS), torch.randn(ROWS, ROWS)], 0),
    "sum of two": (lambda x, y: (x + y, x > y), [torch.randn(ROWS, 64), torch.randn(ROWS, 64)], 0),
    "batches of attention": (lambda q: F.scaled_dot_product_attention(q, q, q), [torch.randn(40, 2, 8, 8)], 0),
    "a scalar beside": (lambda x, s: x * s, [torch.randn(ROWS, 64), torch.randn(())], 0),
    "complex": (lambda x: x * x, [torch.randn(ROWS, 64, dtype=torch.complex64)], 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_ROWS)
def test_rows_of_every_style_are_in_float64_and_eager_passes(name: str) -> None:
    torch.manual_seed(3)
    function, tensors, parameters = BY_ROWS[name]
    judged = subject(function, tensors, parameters)
    known, blocks = _known(judged)
    assert known.slicing is not None, known.note
    assert f"of {judged.variant['outputs'][0]['shape'][0]} rows along axis 0" in known.note
    assert 0 < len(known.slicing.rows) < judged.variant["outputs"][0]["shape"][0] / 2
    assert set(blocks.rows(known.slicing.size)[known.slicing.rows].tolist()) == set(blocks.order)
    assert check(known.narrow, known, blocks) is None
    assert Trials(judged, None, Policy(2, 1.0), "").run() is None
    assert any("rows along axis 0" in note for note in judged.notes)


@pytest.mark.parametrize("inside", [True, False])
def test_a_wrong_row_is_found_in_float64_and_beside_it(inside: bool) -> None:
    judged = subject(lambda x: F.softmax(x, -1), [torch.randn(ROWS, 64)])
    known, blocks = _known(judged, TRIALS[1])
    assert known.slicing is not None
    rows = set(known.slicing.rows.tolist())
    row = next(index for index in range(ROWS) if (index in rows) == inside)
    outputs = [known.narrow[0].clone()]
    outputs[0][row] *= 1.001
    finding = check(outputs, known, blocks)
    assert finding is not None and finding.reason == "wrong_result"


def test_errors_of_eager_are_learnt_from_the_rows_in_float64_alone() -> None:
    judged = subject(lambda x: F.softmax(x, -1), [torch.randn(ROWS, 64).bfloat16()])
    known, _ = _known(judged)
    whole = subject(lambda x: F.softmax(x, -1), [torch.randn(ROWS, 64).bfloat16()])
    slicing.MOST_ELEMENTS["cpu"] = 1 << 30
    _known(whole)
    assert known.slicing is not None
    measured, reference = (each.errors[0]["scale 1"].rmse for each in (judged, whole))
    assert 0.5 < measured / reference < 2


ACROSS_ROWS: dict[str, Any] = {
    "sums along the rows": lambda x: x.cumsum(0),
    "subtracts the mean of everything": lambda x: x - x.mean(),
    "normalises by batch": lambda x: F.batch_norm(x, None, None, training=True),
    "has its shape built in": lambda x: x.view(ROWS, 64) * 2 if x.shape[0] == ROWS else x.view(ROWS, 64),
    "turns the rows round": lambda x: x.flip(0),
}


@pytest.mark.parametrize("name", ACROSS_ROWS)
def test_where_rows_depend_on_one_another_eager_stands_in_and_it_is_said(name: str) -> None:
    function = ACROSS_ROWS[name]
    judged = subject(lambda x: function(x), [torch.randn(ROWS, 64)])
    known, blocks = _known(judged, TRIALS[1])
    assert known.slicing is None
    assert "too large" in known.note
    assert check(known.narrow, known, blocks) is None


def test_flops_count_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(slicing.MOST_ELEMENTS, "cpu", 1 << 30)
    judged = subject(lambda x, w: F.linear(x, w), [torch.randn(ROWS, 64), torch.randn(32, 64)], 1)
    assert _known(judged)[0].slicing is None
    judged.variant["flops"] = 1 << 34
    assert _known(judged)[0].slicing is not None
