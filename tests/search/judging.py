"""A judge whose verdicts the test decides, in place of the real one."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import StageResult
from tests.search.building import measured


@dataclass
class FakeJudgement:
    validated: StageResult
    benchmarked: StageResult | None
    config: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=lambda: {"pairs": [1.0, 2.0]})
    log: str = "judge's log"
    device_s: float = 0.5


@dataclass
class FakeJudge:
    """`verdict` is asked for the outcome of each candidate: a speed-up, or a failed result."""

    verdict: Callable[[str], float | StageResult] = lambda _id: 1.5
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def evaluate(
        self, ctx: Any, project: Any, card: OperatorCard, plan: Any, compiled: Any, *, stages: Any, candidate_id: str
    ) -> FakeJudgement:
        self.asked.append(tuple(stages))
        outcome = self.verdict(candidate_id)
        if isinstance(outcome, StageResult):
            result = outcome.model_copy(update={"candidate_id": candidate_id})
            if result.stage == "validate":
                return FakeJudgement(result, None)
            passed = StageResult(candidate_id=candidate_id, stage="validate", status="ok", passed=True)
            return FakeJudgement(passed, result)
        passed = StageResult(candidate_id=candidate_id, stage="validate", status="ok", passed=True)
        timed = measured(card, candidate_id, outcome) if "benchmark" in stages else None
        return FakeJudgement(passed, timed)


def install(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    """Put a fake where the submission looks for the judge."""
    fake = FakeJudge()
    module = types.ModuleType("kforge_mcp.judge.evaluate")
    module.evaluate = fake.evaluate  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "kforge_mcp.judge.evaluate", module)
    return fake
