"""Real candidates, a real compiler, real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.evaluate import Claim, Judgement, evaluate, holdout, null_judgement
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings
from kforge_mcp.store.workspace import Workspace


def judged(
    workspace: Workspace, python: str, card: OperatorCard, source: str, folder: Path, **options: object
) -> Judgement:
    ceilings = options.pop("ceilings", None)
    with JobContext.standalone(workspace) as ctx:
        plan = parse_plan(source, card, "cpu")
        assert not isinstance(plan, Rejected), plan
        compiled = compile_candidate(ctx, plan, card, configurations(plan))
        assert isinstance(compiled, Compiled), compiled
        project = cards.project(python, folder, ceilings=ceilings)  # type: ignore[arg-type]
        return evaluate(ctx, project, card, plan, compiled, candidate_id="cand_x", **options)  # type: ignore[arg-type]


def test_an_honest_kernel_is_valid_and_timed(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.RMS_NORM])
    judgement = judged(workspace, model_python, card, kernels.rms_norm(kernels.RMS_ROWS), tmp_path)
    assert judgement.validated.passed, judgement.validated.message
    result = judgement.benchmarked
    assert result is not None and result.status == "ok", result
    assert result.speedup is not None and result.ci_low is not None and result.ci_high is not None
    assert result.ci_low <= result.speedup <= result.ci_high
    assert result.own_kernel_share == 1.0
    assert len(judgement.samples["v1"]["eager_s"]) == result.variants[0].pairs
    assert result.variants[0].pairs in (16, 60)


def test_validation_alone_does_not_time(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.SOFTMAX])
    source = kernels.softmax(kernels.SOFTMAX_ROWS)
    judgement = judged(workspace, model_python, card, source, tmp_path, stages=("validate",))
    assert judgement.validated.passed, judgement.validated.message
    assert judgement.benchmarked is None


def test_code_that_starts_threads_when_imported_is_imported_after_forking(
    workspace: Workspace, model_python: str, tmp_path: Path
) -> None:
    card = cards.card(tmp_path, [cards.THREADED])
    source = kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];")
    judgement = judged(workspace, model_python, card, source, tmp_path)
    assert judgement.benchmarked is not None and judgement.benchmarked.status == "ok", judgement


def test_a_weak_card_is_refused_at_once(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.RELU]).model_copy(update={"weak_oracle": "inputs tell nothing"})
    source = kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];")
    judgement = judged(workspace, model_python, card, source, tmp_path)
    assert judgement.validated.reason == "weak_oracle"


def test_only_claimed_variants_are_judged(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    small = cards.Make("relu", (cards.Tensor("x", (4, 100)),), ((4, 100),))
    card = cards.card(tmp_path, [cards.RELU, small])
    source = kernels.file(
        '["x", "x.numel", "out"]',
        "#include <cstdint>\n"
        'extern "C" void kernel(const float* x, int64_t n, float* y) {\n'
        "  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];\n}\n",
        extra='// where = "x.shape[0] > 10"\n',
    )
    judgement = judged(workspace, model_python, card, source, tmp_path)
    assert judgement.benchmarked is not None, judgement.validated
    claimed = {variant.variant_id: variant.claimed for variant in judgement.benchmarked.variants}
    assert claimed == {"v1": True, "v2": False}


def test_a_sweep_judges_a_configuration_that_works(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.RMS_NORM])
    broken = kernels.rms_norm(f"  if (PART == 2) return;\n{kernels.RMS_ROWS}")
    source = broken.replace("// ///\n#include", "// [tunables]\n// PART = [1, 2, 3]\n// ///\n#include")
    judgement = judged(workspace, model_python, card, source, tmp_path, stages=("validate",))
    assert judgement.validated.passed, judgement.validated.message
    assert judgement.config["PART"] in (1, 3)
    assert any("1 of 3 configurations failed" in note for note in judgement.validated.notes)


def test_a_time_below_the_physical_limit_is_a_fault(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.RMS_NORM])
    slow_memory = Ceilings(bandwidth_gbs={1 << 30: 0.01}, gflops={})
    judgement = judged(
        workspace, model_python, card, kernels.rms_norm(kernels.RMS_ROWS), tmp_path, ceilings=slow_memory
    )
    assert judgement.benchmarked is not None
    assert judgement.benchmarked.reason == "below_speed_of_light"
    assert judgement.benchmarked.verdict is None


def test_inputs_that_tell_nothing_make_a_weak_oracle(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.NEARLY_ONE])
    source = kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = 1 + 1e-7f * std::tanh(x[i]);", "#include <cmath>")
    judgement = judged(workspace, model_python, card, source, tmp_path, stages=("validate",))
    assert judgement.validated.reason == "weak_oracle", judgement.validated
    assert "cannot tell eager from" in judgement.validated.message


def test_eager_in_the_candidates_place_shows_no_large_difference(
    workspace: Workspace, model_python: str, tmp_path: Path
) -> None:
    card = cards.card(tmp_path, [cards.RMS_NORM])
    with JobContext.standalone(workspace) as ctx:
        judgement = null_judgement(ctx, cards.project(model_python, tmp_path), card, pairs=20)
    result = judgement.benchmarked
    assert result is not None and result.status == "ok", judgement.validated
    assert result.speedup is not None and 0.5 < result.speedup < 2
    assert result.variants[0].noise_floor is not None


def test_holdout_measures_in_fresh_processes(workspace: Workspace, model_python: str, tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.RMS_NORM])
    project = cards.project(model_python, tmp_path)
    with JobContext.standalone(workspace) as ctx:
        claims: list[Claim] = []
        for name, body in (("cand_good", kernels.RMS_ROWS), ("cand_bad", "  y[0] = x[0];")):
            plan = parse_plan(kernels.rms_norm(body), card, "cpu")
            assert not isinstance(plan, Rejected)
            compiled = compile_candidate(ctx, plan, card, [{}])
            assert isinstance(compiled, Compiled)
            claims.append(Claim(card, plan, compiled, {}, name))
        good, bad = holdout(ctx, project, claims, processes=3, pairs=6)
    assert len(good.process_medians) == 3
    assert good.joint.speedup is not None and 0 <= good.p_value <= 1
    assert not bad.passed
    assert bad.reason.startswith("wrong_result")


if __name__ == "__main__":
    pytest.main([__file__])
