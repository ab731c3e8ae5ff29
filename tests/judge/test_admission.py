"""Inputs that could not tell a wrong kernel from a right one are made harder, for every candidate of the card."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge import admission
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.evaluate import Judgement, evaluate
from kforge_mcp.judge.request import subjects
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import InputRecipe
from kforge_mcp.server.card_page import card_page
from kforge_mcp.store import cards as card_store
from kforge_mcp.store import projects
from kforge_mcp.store.workspace import Workspace

POSITIVE = InputRecipe(kind="quantiles", quantiles=[0.0, 0.25, 0.5, 0.75, 1.0])
RELU = cards.Make("relu", (cards.Tensor("x", (64, 100), recipe=POSITIVE),), ((64, 100),))
HONEST = kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];")
PASSED_THROUGH = kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = x[i] < -1e30f ? 0 : x[i];")


@pytest.fixture(autouse=True)
def _unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """No verdict on time is looked at here, so nothing need be waited for."""
    monkeypatch.setattr(JobContext, "device_lock", lambda self, key="cpu": contextlib.nullcontext())


class Bench:
    """A stored card, judged as jobs do: read from the store each time."""

    def __init__(self, workspace: Workspace, python: str, folder: Path, make: cards.Make) -> None:
        self.workspace = workspace
        self.project = cards.project(python, folder)
        card = cards.card(folder, [make])
        with workspace.transaction() as session:
            projects.save(session, self.project)
            card_store.save(session, card)
        self._card_id = card.card_id

    @property
    def card(self) -> OperatorCard:
        with self.workspace.transaction() as session:
            return card_store.get(session, self._card_id)

    def judge(self, source: str) -> Judgement:
        card = self.card
        with JobContext.standalone(self.workspace) as ctx:
            plan = parse_plan(source, card, "cpu")
            assert not isinstance(plan, Rejected), plan
            compiled = compile_candidate(ctx, plan, card, configurations(plan))
            assert isinstance(compiled, Compiled), compiled
            return evaluate(ctx, self.project, card, plan, compiled, candidate_id="cand_x", stages=("validate",))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What the referee was asked of the first variant, evaluation by evaluation."""
    seen: list[dict[str, object]] = []
    call = Evaluators._call

    def spy(self: Evaluators, request: dict[str, object], on_progress: object) -> dict[str, object]:
        seen.append(request["variants"][0])  # type: ignore[index]
        return call(self, request, on_progress)  # type: ignore[arg-type]

    monkeypatch.setattr(Evaluators, "_call", spy)
    return seen


def test_harder_inputs_are_used_for_the_first_candidate_and_all_that_follow(
    workspace: Workspace, model_python: str, tmp_path: Path, asked: list[dict[str, object]]
) -> None:
    bench = Bench(workspace, model_python, tmp_path, RELU)
    first = bench.judge(PASSED_THROUGH).validated
    assert first.reason == "wrong_result" and "signed inputs" in first.message, first
    assert bench.judge(HONEST).validated.passed
    found = bench.card.admissions["v1"]
    assert found.hardness.startswith("signed inputs") and found.uncaught == []
    again = bench.judge(PASSED_THROUGH).validated
    assert again.reason == "wrong_result" and "signed inputs" in again.message, again
    assert [variant["admitted"] for variant in asked] == [False, False, True]
    assert any(
        "signed inputs" in line for line in card_page(workspace, bench.card.card_id).version(0, 100, 1, 0)[1].contract
    )


def test_timed_calls_and_sweeps_have_the_harder_inputs_too(
    workspace: Workspace, model_python: str, tmp_path: Path
) -> None:
    bench = Bench(workspace, model_python, tmp_path, RELU)
    assert bench.judge(HONEST).validated.passed
    card = bench.card
    plan = parse_plan(PASSED_THROUGH, card, "cpu")
    assert not isinstance(plan, Rejected)
    with JobContext.standalone(workspace) as ctx, Evaluators(ctx, bench.project) as evaluators:
        compiled = compile_candidate(ctx, plan, card, [{}])
        assert isinstance(compiled, Compiled)
        (subject,) = subjects(card, plan, compiled)
        schedule = {"pairs": 4, "first_stage": 4, "warm_up": 1, "null": False}
        answer = evaluators.evaluate(subject, mode="quick", schedule=schedule)
        assert not isinstance(answer, Rejected) and answer["finding"]["reason"] == "wrong_result"
        easy = card.model_copy(update={"admissions": {}})
        answer = evaluators.evaluate(replace(subject, card=easy), mode="quick", schedule=schedule)
        assert not isinstance(answer, Rejected) and answer["finding"] is None


def test_weakness_is_kept_with_the_card_until_the_judge_changes(
    workspace: Workspace, model_python: str, tmp_path: Path, asked: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(workspace, model_python, tmp_path, cards.NEARLY_ONE)
    source = kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = 1 + 1e-7f * std::tanh(x[i]);", "#include <cmath>")
    assert bench.judge(source).validated.reason == "weak_oracle"
    assert "internals one class lower" in bench.card.admissions["v1"].uncaught
    assert bench.judge(source).validated.reason == "weak_oracle"
    assert len(asked) == 1
    monkeypatch.setattr(admission, "_code", lambda: "another judge")
    assert bench.judge(source).validated.reason == "weak_oracle"
    assert len(asked) == 2


def test_a_recipe_that_makes_eager_fail_is_repaired_and_the_card_says_so(
    workspace: Workspace, model_python: str, tmp_path: Path
) -> None:
    rows = InputRecipe(kind="integers", low=0, high=40)
    make = cards.Make(
        "pick_rows", (cards.Tensor("x", (16, 32)), cards.Tensor("rows", (20,), dtype="int64", recipe=rows)), ((20, 32),)
    )
    bench = Bench(workspace, model_python, tmp_path, make)
    card = bench.card
    (variant,) = card.variants
    blobs = (bytes(16 * 32 * 4), b"".join((i % 16).to_bytes(8, "little") for i in range(20)))
    samples = [workspace.blobs.put(data) for data in blobs]
    tensors = [spec.model_copy(update={"sample": s}) for spec, s in zip(variant.tensors, samples, strict=True)]
    with workspace.transaction() as session:
        changed = variant.model_copy(update={"tensors": tensors})
        card_store.save(session, card.model_copy(update={"variants": [changed]}))
    source = kernels.file(
        '["x", "rows", "rows.numel", "x.shape[1]", "out"]',
        "#include <cstdint>\n"
        'extern "C" void kernel(const float* x, const int64_t* rows, int64_t count, int64_t n, float* y) {\n'
        "  for (int64_t r = 0; r < count; ++r)\n"
        "    for (int64_t i = 0; i < n; ++i) y[r * n + i] = 2 * x[rows[r] * n + i];\n}\n",
    )
    validated = bench.judge(source).validated
    assert validated.passed, validated.message
    found = bench.card.admissions["v1"]
    assert found.frozen == [1]
    assert any("captured values of `rows` are used" in note for note in found.notes)
    assert any("captured values of `rows` are used" in note for note in validated.notes)
    assert bench.judge(source).validated.passed
