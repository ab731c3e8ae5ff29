"""What is found out about a variant before anything is claimed on it: inputs that eager takes, and an oracle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from kforge_mcp.runtime import blobs
from kforge_mcp.runtime.checks import check
from kforge_mcp.runtime.examination import adapted, examine
from kforge_mcp.runtime.hardening import LEVELS, hardened, levels
from kforge_mcp.runtime.inputs import TRIALS, draws
from kforge_mcp.runtime.oracle import lowered
from kforge_mcp.runtime.recipes import _vary_mask
from kforge_mcp.runtime.subject import Subject
from kforge_mcp.runtime.tensors import to_bytes
from kforge_mcp.runtime.trials import Policy, Trials
from tests.runtime.judged_variants import subject


def _captured(function: Any, tensors: list[torch.Tensor], folder: Path, parameters: int = 0) -> Subject:
    """A subject whose captured values are kept."""
    made = subject(function, tensors, parameters)
    specs = [
        {**spec, "sample": blobs.write(str(folder), to_bytes(tensor))}
        for spec, tensor in zip(made.variant["tensors"], tensors, strict=True)
    ]
    made.blob_root = str(folder)
    return made.with_variant({**made.variant, "tensors": specs})


def test_what_works_is_left_alone(tmp_path: Path) -> None:
    judged = _captured(lambda x: torch.tanh(x), [torch.randn(16, 40)], tmp_path)
    examined, found = examine(judged)
    assert examined is judged
    assert (found.frozen, found.in_range, found.oracle, found.notes, found.problem) == ([], [], "", [], "")


def test_indices_beyond_a_length_keep_their_captured_values_and_the_table_stays_fresh(tmp_path: Path) -> None:
    lengths = torch.tensor([3, 5, 7, 9])
    rows = torch.randint(0, 3, (4, 6))

    def function(x: torch.Tensor, rows: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if not bool((rows < lengths[:, None]).all()):
            raise IndexError("beyond its length")
        return x.gather(1, rows)

    judged = _captured(function, [torch.randn(4, 16), rows, lengths], tmp_path)
    # As if other captured rows had been longer.
    judged.variant["tensors"][1]["recipe"]["high"] = 8
    examined, found = examine(judged)
    assert found.frozen == [1]
    assert "IndexError: beyond its length" in found.notes[0] and "`t1`" in found.notes[0]
    assert examined.variant["tensors"][0]["recipe"]["kind"] == "quantiles"
    again = adapted({**judged.variant, "frozen": found.frozen, "in_range": found.in_range})
    assert again["tensors"] == examined.variant["tensors"]


def test_a_difference_that_must_be_positive_is_repaired(tmp_path: Path) -> None:
    low, width = torch.randn(16, 40), torch.rand(16, 40) + 0.1
    judged = _captured(lambda a, b, c: torch.sqrt(b - a) * c, [low, low + width, torch.randn(16, 40)], tmp_path)
    _, found = examine(judged)
    assert found.problem == ""
    assert found.frozen == [0, 1]
    assert "NaN or infinities in" in found.notes[0]


def test_where_eager_fails_whatever_is_fresh_nothing_is_claimed(tmp_path: Path) -> None:
    factor = torch.randn(12, 12)
    judged = _captured(lambda a: torch.linalg.cholesky(a), [factor @ factor.T + torch.eye(12)], tmp_path)
    _, found = examine(judged)
    assert found.problem.startswith("eager fails on fresh inputs")


def test_probabilities_stay_within_what_was_captured_in_trials_and_timed_calls(tmp_path: Path) -> None:
    tensors = [torch.rand(16, 40), torch.rand(16, 40), torch.randn(16, 40)]
    judged = _captured(lambda p, t, w: F.binary_cross_entropy(p, t, reduction="none") * w, tensors, tmp_path)
    examined, found = examine(judged)
    assert found.in_range == [0, 1, 2]
    trials = Trials(examined, None, Policy(2, 1.0), "")
    assert trials.run() is None
    assert trials.uncaught == []
    examined.learn_timed_draws()
    assert not any("left out" in note for note in examined.notes if TRIALS[4] not in note)


def test_a_float64_run_that_computes_something_else_is_no_oracle(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.dtype is torch.float32 else x * 3

    examined, found = examine(_captured(function, [torch.randn(16, 40)], tmp_path))
    assert found.oracle == "in float64 it computes something else"
    trials = Trials(examined, None, Policy(2, 1.0), "")
    assert trials.run() is None
    assert trials.uncaught == []
    assert any("eager in its own precision stands in" in note for note in examined.notes)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_rounding_alone_is_never_another_result(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.randn(64, 300).to(dtype)
    for function in (lambda x: x.sum(-1), lambda x: F.softmax(x, -1), lambda x: (x - x.mean(-1, keepdim=True)) * x):
        assert examine(_captured(function, [x], tmp_path))[1].oracle == ""


@pytest.mark.parametrize("name", [level.name for level in LEVELS])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_harder_inputs_are_finite_at_every_scale(name: str, dtype: torch.dtype) -> None:
    judged = hardened(subject(lambda x, w: x * w, [torch.rand(16, 40).to(dtype), torch.rand(40).to(dtype)], 1), name)
    for trial in TRIALS[1:4]:
        for draw in draws(trial, judged.variant, judged.where, judged.generator, ""):
            assert all(bool(torch.isfinite(tensor).all()) for tensor in draw.tensors), trial
    signs = {bool((tensor < 0).any()) for tensor in draw.tensors[:1]}
    assert signs == {"signed" in name}


@pytest.mark.parametrize(
    ("function", "hardness"),
    [
        (torch.relu, LEVELS[0].name),  # a negative infinity alone would give the identity away, and nothing else
        (torch.abs, LEVELS[0].name),
        (lambda x: x.clamp(0, 50), ""),
        (torch.tanh, ""),
    ],
)
def test_inputs_on_which_an_operator_is_the_identity_are_made_harder(function: Any, hardness: str) -> None:
    judged = subject(lambda x: function(x), [torch.rand(16, 40)])
    trials = Trials(judged, None, Policy(2, 1.0), "")
    assert trials.run() is None
    assert trials.hardness == hardness
    assert trials.uncaught == []
    assert (trials.subject is judged) == (hardness == "")


def test_what_must_be_positive_is_given_no_signs() -> None:
    judged = subject(lambda x: torch.sqrt(x), [torch.rand(16, 40)])
    assert [name for name, _ in levels(judged)] == [
        level.name for level in LEVELS if not level.signed and not level.parameters
    ]


@pytest.mark.parametrize(
    ("result", "tensor"),
    [
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float16),
        (torch.complex64, torch.complex64),
    ],
)
def test_internals_one_class_lower_are_told_apart_in_every_class(result: torch.dtype, tensor: torch.dtype) -> None:
    x = torch.randn(16, 40, dtype=tensor if tensor.is_complex else torch.float32).to(tensor)
    judged = subject(lambda x: (x * x + x).to(result), [x])
    draw = next(draws(TRIALS[1], judged.variant, judged.where, judged.generator, ""))
    image, blocks = judged.fresh.image(), draw.blocks
    judged.fresh.place_values(image, draw.tensors)
    known = judged.expect(image, blocks)
    outputs = lowered(judged.eager, judged.inputs_of(image), known.narrow)
    assert outputs is not None and outputs[0].dtype is result
    assert check(outputs, known, blocks) is not None
    assert check(known.narrow, known, blocks) is None


def test_values_beyond_the_lower_range_are_kept() -> None:
    mask = torch.full((4, 4), torch.finfo(torch.float32).min).triu(1)
    outputs = lowered(lambda inputs: [inputs[0] * 1], [mask], [mask])
    assert outputs is not None and bool(torch.isfinite(outputs[0]).all())


_CAUSAL = torch.ones(16, 16).tril().bool()
MASKS: dict[str, tuple[Any, torch.Tensor]] = {
    "causal, booleans": (lambda x, m: x.masked_fill(~m, float("-inf")).softmax(-1), _CAUSAL),
    "causal, infinities": (lambda x, m: (x + m).softmax(-1), torch.zeros(16, 16).masked_fill(~_CAUSAL, float("-inf"))),
    "causal, the least number": (
        lambda x, m: (x + m).softmax(-1),
        torch.zeros(16, 16).masked_fill(~_CAUSAL, torch.finfo(torch.float32).min),
    ),
    "nothing is masked": (lambda x, m: x.masked_fill(~m, float("-inf")).softmax(-1), torch.ones(16, 16).bool()),
    "nothing is masked, by the other sign": (lambda x, m: x.masked_fill(m, 0.0), torch.zeros(16, 16).bool()),
    "nothing is masked, integers": (
        lambda x, m: (x * m).sum(-1, keepdim=True) / m.sum(-1, keepdim=True) + x,
        torch.ones(16, 16, dtype=torch.int64),
    ),
    "one row for all": (lambda x, m: x.masked_fill(~m, 0.0), torch.ones(1, 16).bool().expand(16, 16)),
}


@pytest.mark.parametrize("name", MASKS)
def test_a_mask_is_varied_so_that_none_can_be_taken_for_granted(tmp_path: Path, name: str) -> None:
    function, mask = MASKS[name]
    judged = _captured(function, [torch.randn(16, 16), mask], tmp_path)
    examined, found = examine(judged)
    assert found.varied == [1] and found.problem == ""
    assert found.notes == ["`t1` is tried with other values than the captured ones"]
    trials = Trials(examined, None, Policy(2, 1.0), "")
    assert trials.run() is None and trials.uncaught == []
    # A single draw may be all True, which hides what a kernel takes for granted; several are not.
    for trial in TRIALS[1:4]:

        def seen(trial: str = trial) -> bool:
            image = examined.fresh.image()
            draw = next(draws(trial, examined.variant, examined.where, examined.generator, examined.blob_root))
            examined.fresh.place_values(image, draw.tensors)
            known = examined.expect(image, draw.blocks)
            return check([function(draw.tensors[0], mask)], known, draw.blocks) is not None

        assert any(seen() for _ in range(4)), trial

    def seen_when_timed() -> bool:
        subject = examined.with_variant(examined.variant)  # all timed calls of one subject share a mask
        image = subject.fresh.image()
        blocks = subject.fresh.compose(image)
        x, drawn = subject.inputs_of(image)
        wrong = check([function(x.clone(), mask)], subject.expect(image, blocks), blocks)
        return not torch.equal(drawn, mask) and wrong is not None

    assert any(seen_when_timed() for _ in range(4))


POSITIONS: dict[str, tuple[Any, torch.Tensor, list[int]]] = {
    "a single position": (lambda x, p: x * p, torch.tensor([[17]]), [1]),
    "a single token": (lambda x, i: x[i], torch.tensor([3]), [1]),
    "positions of a prompt": (lambda x, p: x * torch.cos(p[:, None] * 0.1), torch.arange(16), [1]),
    "rows by position": (lambda x, p: x[p], torch.arange(5), [1]),
    "all rows there are": (lambda x, p: x[p], torch.arange(16), []),
}


@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_moved_where_eager_allows_it(tmp_path: Path, name: str) -> None:
    function, positions, varied = POSITIONS[name]
    examined, found = examine(_captured(function, [torch.randn(16, 16), positions], tmp_path))
    assert found.varied == varied and found.problem == ""
    drawn = next(draws(TRIALS[1], examined.variant, examined.where, examined.generator, examined.blob_root)).tensors[1]
    assert torch.equal(drawn, positions) != bool(varied)
    image = examined.fresh.image()
    examined.fresh.compose(image)
    assert torch.equal(examined.inputs_of(image)[1], positions) != bool(varied)


def test_every_row_of_a_varied_mask_keeps_a_place() -> None:
    for mask in (torch.ones(200, 4).bool(), torch.zeros(200, 4).bool()):
        values = _vary_mask(mask.clone(), torch.Generator().manual_seed(3))
        assert bool((values == mask).any(-1).all())
        assert not torch.equal(values, mask)


def test_a_mask_that_must_be_as_it_is_stays(tmp_path: Path) -> None:
    def function(x: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
        if not bool(m.all()):
            raise ValueError("only whole batches")
        return torch.tanh(x)

    _, found = examine(_captured(function, [torch.randn(16, 16), torch.ones(16, 16).bool()], tmp_path))
    assert found.varied == []
