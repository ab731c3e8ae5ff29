"""The judge on a GPU, from source to verdict: honest kernels, faulty ones, and processes that outlive a candidate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import gpu_cards
from benchmarks.gpu_faults import FAULTS, Fault
from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards, operators
from kforge_mcp.judge.evaluate import Claim, Judgement, evaluate, holdout, null_judgement
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from tests.cheats.cuda_table import CHEATS, HONEST, CudaCheat, CudaHonest


@pytest.fixture(scope="module")
def project(ctx: JobContext, model_python: str, tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("judge")
    return gpu_cards.project(model_python, folder, gpu_cards.device_facts(ctx, model_python, folder))


def judged(ctx: JobContext, project: Project, card: OperatorCard, source: str, **options: Any) -> Judgement:
    plan = parse_plan(source, card, "cuda")
    assert not isinstance(plan, Rejected), plan
    compiled = compile_candidate(ctx, plan, card, configurations(plan), interpreter=project.interpreter)
    assert isinstance(compiled, Compiled), compiled
    return evaluate(ctx, project, card, plan, compiled, candidate_id="cand_x", **options)


def test_a_seed_is_valid_and_timed(ctx: JobContext, project: Project) -> None:
    card = gpu_cards.softmax_card()
    judgement = judged(ctx, project, card, next(gpu_cards.candidates(card)))
    assert judgement.validated.passed, judgement.validated.message
    result = judgement.benchmarked
    assert result is not None
    assert result.status == "ok", result
    assert result.own_kernel_share == 1.0
    assert result.variants[0].pairs in (16, 60)


def test_eager_in_the_candidates_place_shows_no_difference(ctx: JobContext, project: Project) -> None:
    judgement = null_judgement(ctx, project, gpu_cards.softmax_card())
    assert judgement.benchmarked is not None, judgement.validated
    assert judgement.benchmarked.verdict == "no_difference_shown"


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.name for fault in FAULTS])
def test_a_fault_costs_its_own_process_only(ctx: JobContext, project: Project, fault: Fault) -> None:
    card = gpu_cards.softmax_card()
    failed = judged(ctx, project, card, fault.source, call_timeout_s=1.0)
    assert failed.validated.reason in fault.reasons, failed.validated
    after = judged(ctx, project, card, next(gpu_cards.candidates(card)), stages=("validate",))
    assert after.validated.passed, after.validated.message


def test_an_operator_called_alone_is_a_wrapper(ctx: JobContext, project: Project, tmp_path: Path) -> None:
    source = '// /// kforge\n// [[step]]\n// call = "aten::linear"\n// args = ["x", "weight"]\n// out = "out"\n// ///\n'
    judgement = judged(ctx, project, cards.card(tmp_path, [operators.LINEAR]), source)
    assert judgement.benchmarked is not None, judgement.validated
    assert judgement.benchmarked.own_kernel_share == 0.0
    assert judgement.benchmarked.verdict != "faster"


def test_a_sweep_judges_the_best_configuration_and_holdout_measures_it_again(ctx: JobContext, project: Project) -> None:
    card = gpu_cards.group_norm_card([(1, 512, 128, 128)])
    source = gpu_cards.seeds_for(card, "cuda")[0].source
    plan = parse_plan(source, card, "cuda")
    assert not isinstance(plan, Rejected)
    compiled = compile_candidate(ctx, plan, card, configurations(plan), interpreter=project.interpreter)
    assert isinstance(compiled, Compiled)
    judgement = evaluate(ctx, project, card, plan, compiled, candidate_id="cand_x")
    assert judgement.benchmarked is not None, judgement.validated
    claim = Claim(card, plan, compiled, judgement.config, "cand_x")
    (held,) = holdout(ctx, project, [claim], processes=3, pairs=10)
    assert not held.reason or held.reason.startswith("not shown"), held.reason
    assert len(held.process_medians) == 3


@pytest.mark.parametrize("one", CHEATS, ids=[f"row {one.row}: {one.name}" for one in CHEATS])
def test_the_cheat_is_rejected(ctx: JobContext, project: Project, tmp_path: Path, one: CudaCheat) -> None:
    card = cards.card(tmp_path, [one.make, *one.also])
    stages = ("validate", "benchmark") if one.timed else ("validate",)
    judgement = judged(ctx, project, card, one.source, stages=stages, call_timeout_s=2.0)
    result = judgement.benchmarked or judgement.validated
    assert result.reason in one.reasons, result


@pytest.mark.parametrize("one", HONEST, ids=[one.name for one in HONEST])
def test_the_honest_kernel_passes(ctx: JobContext, project: Project, tmp_path: Path, one: CudaHonest) -> None:
    judgement = judged(ctx, project, cards.card(tmp_path, [one.make, *one.also]), one.source)
    assert judgement.benchmarked is not None, judgement.validated
    assert judgement.benchmarked.status == "ok", judgement.benchmarked
