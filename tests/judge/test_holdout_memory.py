"""What holds on a GPU is checked for memory accesses and races before it is published."""

from __future__ import annotations

import math
from typing import Any

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile.outcome import Binary, Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge import holdout as module
from kforge_mcp.judge.holdout import Claim, HoldoutResult, holdout
from kforge_mcp.judge.memory_check import MemoryCheck
from kforge_mcp.records.project import DeviceInfo
from kforge_mcp.records.result import Diagnostic
from kforge_mcp.store.workspace import Workspace
from tests.compile.cuda.programs import PLAIN, card
from tests.search.building import make_project

RACE = Diagnostic(severity="error", message="a race in shared memory", line=12)


def held(
    workspace: Workspace, patch: pytest.MonkeyPatch, check: MemoryCheck, *, speedup: float = 2.0, target: Any = "cuda"
) -> tuple[HoldoutResult, list[str]]:
    """The holdout of one claim, with times and a checker that the test decides."""
    asked: list[str] = []

    def measured(*_: Any) -> list[dict[str, Any]]:
        def pairs(factor: float, process: int) -> list[float]:
            return [1e-4 * factor * math.exp(1e-4 * (process + pair)) for pair in range(5)]

        return [
            {
                "v0": {
                    "eager_s": pairs(1.0, 0), "candidate_s": pairs(1 / speedup, process % 2),
                    "null_eager_s": pairs(1.0, 0), "null_candidate_s": pairs(1.0, process % 2),
                }
            }
            for process in range(8)
        ]  # fmt: skip

    def checked(_ctx: Any, _project: Any, _card: Any, plan: Plan, _config: Any) -> MemoryCheck:
        asked.append(plan.source)
        return check

    patch.setattr(module, "_measure", measured)
    patch.setattr(module, "check_memory", checked)
    plan = parse_plan(PLAIN, card(), "cuda")
    assert isinstance(plan, Plan)
    binary = Binary(path="", digest="", config={}, variants=["v0"], entry="", arch="sm_90a")
    claim = Claim(card(), plan, Compiled(binaries=[binary]), {}, "cand_0000000001")
    project = make_project(target=target, device=DeviceInfo(target=target, name="device"))
    with JobContext.standalone(workspace) as ctx:
        (result,) = holdout(ctx, project, [claim])
    return result, asked


def test_a_claim_that_holds_and_is_clean_passes(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    result, asked = held(workspace, monkeypatch, MemoryCheck(("memcheck", "racecheck")))
    assert (result.passed, asked) == (True, [PLAIN])
    assert result.memory_check == "memcheck and racecheck found nothing"


def test_a_race_keeps_a_faster_kernel_out(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    result, _ = held(workspace, monkeypatch, MemoryCheck(("memcheck", "racecheck"), (RACE,)))
    assert not result.passed
    assert result.reason == "compute-sanitizer: line 12: a race in shared memory"


def test_a_machine_without_the_checker_says_so_and_passes(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, _ = held(workspace, monkeypatch, MemoryCheck(not_run=("compute-sanitizer was not found",)))
    assert (result.passed, result.memory_check) == (True, "compute-sanitizer was not found")


def test_what_does_not_hold_or_runs_on_the_cpu_is_not_checked(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, asked = held(workspace, monkeypatch, MemoryCheck(findings=(RACE,)), speedup=1.0)
    assert (slow.passed, asked, slow.memory_check) == (False, [], "")
    cpu, asked = held(workspace, monkeypatch, MemoryCheck(findings=(RACE,)), target="cpu")
    assert (cpu.passed, asked) == (True, [])
