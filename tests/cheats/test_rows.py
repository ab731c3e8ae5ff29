"""Rows of the catalogue that no candidate's source shows: noise, physics and inputs on which everything passes.

Each with the check taken out too: then the cheat gets through.
"""

from __future__ import annotations

import math
import random
import statistics
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile.outcome import Binary, Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge import verdicts
from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.adversaries import cpu_kernels as cpu
from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.evaluate import evaluate
from kforge_mcp.judge.statistics import holm, mean_interval, median_interval, p_value_above, threshold, verdict
from kforge_mcp.judge.verdicts import conclude
from kforge_mcp.records.project import Ceilings
from kforge_mcp.store.workspace import Workspace

_PAIRS, _PROCESSES = 60, 8


def _times(ratio: float, noise: float, seed: int, *, null: float = 0.0) -> dict[str, list[float]]:
    """Seconds of 60 pairs around a true log ratio; `null` is that of eager against itself, where a machine drifts."""
    dice = random.Random(seed)
    eager = [1e-3 * math.exp(dice.gauss(0, noise)) for _ in range(_PAIRS)]
    return {
        "eager_s": eager,
        "candidate_s": [one * math.exp(dice.gauss(0, noise) - ratio) for one in eager],
        "null_eager_s": eager,
        "null_candidate_s": [one * math.exp(dice.gauss(0, noise) - null) for one in eager],
    }


def test_row_30_a_gain_that_eager_shows_against_itself_too_is_no_gain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card, project = cards.card(tmp_path, [op.RELU]), cards.project("python", tmp_path)
    times = {"v1": _times(math.log(1.06), 0.005, 1, null=math.log(1.05))}
    assert conclude(card, project, times).joint.verdict == "no_difference_shown"
    monkeypatch.setattr(verdicts, "verdict", lambda interval, noise: verdict(interval, 0.0))
    assert conclude(card, project, times).joint.verdict == "faster"


def test_row_30_the_luckiest_of_a_hundred_equal_kernels_is_not_published() -> None:
    """A process has luck of its own (where its memory lies), the same in all its pairs: no interval over pairs shows
    it, and the best of a hundred has the most."""
    dice = random.Random(7)

    def measured(luck: float) -> list[float]:
        return [luck + dice.gauss(0, 0.004) for _ in range(_PAIRS)]

    noise = mean_interval([statistics.median(measured(0.0)) for _ in range(_PROCESSES)]).reach
    best = max((measured(dice.gauss(0, 0.02)) for _ in range(100)), key=lambda ratios: median_interval(ratios).low)
    assert verdict(median_interval(best), noise) == "faster"
    again = [statistics.median(measured(dice.gauss(0, 0.02))) for _ in range(_PROCESSES)]
    assert holm([p_value_above(again, threshold(noise))], 0.01) == [False]


def test_row_31_a_time_in_which_the_inputs_cannot_be_read_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card's result does not depend on its input, so a kernel is right without reading its two megabytes."""
    card = cards.card(tmp_path, [op.ONES])
    ceilings = Ceilings(bandwidth_gbs={1 << 24: 20.0}, gflops={})
    project = cards.project("python", tmp_path, ceilings=ceilings)
    possible, too_fast = ({"v1": _times(math.log(gain), 0.005, 1)} for gain in (1.5, 20.0))
    assert conclude(card, project, possible).fault == ""
    assert "never a win" in conclude(card, project, too_fast).fault
    monkeypatch.setattr(verdicts, "impossible", lambda *_: "")
    assert conclude(card, project, too_fast).fault == ""
    assert conclude(card, project, too_fast).joint.verdict == "faster"


def test_row_32_nothing_is_claimed_on_empty_inputs(tmp_path: Path) -> None:
    card = cards.card(tmp_path, [op.NOTHING])
    plan = parse_plan(cpu.each("    o[i] = 7;"), card, "cpu")
    assert isinstance(plan, Plan), plan.message
    compiled = Compiled(binaries=[Binary(path="", digest="", config={}, variants=["v1"], entry="kernel")])
    workspace = Workspace.open(tmp_path / "workspace")
    with JobContext.standalone(workspace) as ctx:
        judgement = evaluate(ctx, cards.project("python", tmp_path), card, plan, compiled, candidate_id="c")
    workspace.close()
    assert not judgement.validated.passed
    assert judgement.validated.reason == "contract_error"
    assert "non-empty output" in judgement.validated.message
