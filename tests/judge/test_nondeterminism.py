"""Results that differ in bits from run to run: a fault, unless the candidate says so and every run is right."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import configurations, parse_plan, source_key
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.evaluate import Judgement, evaluate
from kforge_mcp.store.workspace import Workspace

_DECLARATION = "// nondeterministic = true\n"
# Sums from the other end on every second call, as atomic additions in any order might.
_BOTH_ENDS = """
  static int calls = 0;
  const bool backwards = ++calls % 2;
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float s = 0;
    for (int64_t i = 0; i < n; ++i) { const float v = a[backwards ? n - 1 - i : i]; s += v * v; }
    const float k = 1.0f / std::sqrt(s / n + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = w[i] * (a[i] * k)OFF;
  }
"""


@pytest.fixture(autouse=True)
def _untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is timed here, so nothing need be waited for."""
    monkeypatch.setattr(JobContext, "device_lock", lambda self, key="cpu": contextlib.nullcontext())


def _source(body: str, *, declared: bool) -> str:
    source = kernels.rms_norm(body)
    return source.replace("// ///\n#include", f"{_DECLARATION}// ///\n#include") if declared else source


def _judged(workspace: Workspace, python: str, folder: Path, source: str) -> Judgement:
    card = cards.card(folder, [cards.RMS_NORM])
    with JobContext.standalone(workspace) as ctx:
        plan = parse_plan(source, card, "cpu")
        assert not isinstance(plan, Rejected), plan
        compiled = compile_candidate(ctx, plan, card, configurations(plan))
        assert isinstance(compiled, Compiled), compiled
        project = cards.project(python, folder)
        return evaluate(ctx, project, card, plan, compiled, candidate_id="cand_x", stages=("validate",))


def test_undeclared_it_is_rejected_and_the_message_names_the_key(
    workspace: Workspace, model_python: str, tmp_path: Path
) -> None:
    source = _source(_BOTH_ENDS.replace("OFF", ""), declared=False)
    validated = _judged(workspace, model_python, tmp_path, source).validated
    assert validated.reason == "nondeterministic"
    assert "nondeterministic = true" in validated.message


def test_declared_and_within_tolerance_it_passes_and_the_verdict_says_so(
    workspace: Workspace, model_python: str, tmp_path: Path
) -> None:
    source = _source(_BOTH_ENDS.replace("OFF", ""), declared=True)
    validated = _judged(workspace, model_python, tmp_path, source).validated
    assert validated.passed, validated.message
    assert any(note.startswith("declared nondeterministic") for note in validated.notes)
    assert any("two runs on the same input gave different bits" in note for note in validated.notes)


@pytest.mark.parametrize("odd", ["backwards", "!backwards"])
def test_declared_it_must_still_be_right_in_both_runs(
    workspace: Workspace, model_python: str, tmp_path: Path, odd: str
) -> None:
    source = _source(_BOTH_ENDS.replace("OFF", f" * ({odd} ? 1.001f : 1.0f)"), declared=True)
    assert _judged(workspace, model_python, tmp_path, source).validated.reason == "wrong_result"


def test_the_declaration_makes_another_candidate(tmp_path: Path) -> None:
    card = cards.card(tmp_path, [cards.RMS_NORM])
    plans = [parse_plan(_source(_BOTH_ENDS, declared=declared), card, "cpu") for declared in (False, True)]
    assert not any(isinstance(plan, Rejected) for plan in plans)
    assert [plan.nondeterministic for plan in plans] == [False, True]  # type: ignore[union-attr]
    assert source_key(plans[0]) != source_key(plans[1])  # type: ignore[arg-type]
