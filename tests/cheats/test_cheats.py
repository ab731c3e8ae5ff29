"""Every cheat is rejected for the right reason, next to honest kernels that pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.request import subjects
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.store.workspace import Workspace
from tests.cheats.table import CHEATS, HONEST, Cheat
from tests.judge import cards, kernels

_SCHEDULE = {"pairs": 6, "first_stage": 6, "warm_up": 1, "null": False}


class Bench:
    """One parent process for all: each candidate gets a referee and a sandbox of its own."""

    def __init__(self, ctx: JobContext, python: str, folder: Path) -> None:
        self._ctx = ctx
        self._folder = folder
        self._evaluators = Evaluators(ctx, cards.project(python, folder), call_timeout_s=3.0)

    def judge(self, make: cards.Make, source: str, *, timed: bool, in_place: bool = False) -> dict[str, Any]:
        card = cards.card(self._folder, [make])
        plan = parse_plan(source, card, "cpu")
        assert not isinstance(plan, Rejected), plan
        plan = replace(plan, inplace=in_place)
        compiled = compile_candidate(self._ctx, plan, card, [{}])
        assert isinstance(compiled, Compiled), compiled
        (subject,) = subjects(card, plan, compiled)
        schedule = _SCHEDULE if timed else None
        answer = self._evaluators.evaluate(subject, mode="judge", schedule=schedule, admitted=frozenset({"v1"}))
        assert not isinstance(answer, Rejected)
        return answer

    def close(self) -> None:
        self._evaluators.__exit__(None, None, None)


@pytest.fixture(scope="module")
def bench(model_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("cheats")
    workspace = Workspace.open(folder / "workspace")
    with JobContext.standalone(workspace) as ctx:
        bench = Bench(ctx, model_python, folder)
        yield bench
        bench.close()
    workspace.close()


@pytest.mark.parametrize("cheat", CHEATS, ids=[f"row {cheat.row}: {cheat.name}" for cheat in CHEATS])
def test_the_cheat_is_rejected(bench: Bench, cheat: Cheat) -> None:
    finding = bench.judge(cheat.make, cheat.source, timed=cheat.timed)["finding"]
    assert finding is not None, "it got through"
    assert finding["reason"] in cheat.reasons, finding
    assert cheat.says in finding["message"]
    assert len(finding["message"]) <= 600


@pytest.mark.parametrize(("name", "make", "source"), HONEST, ids=[name for name, _, _ in HONEST])
def test_the_honest_kernel_passes(bench: Bench, name: str, make: cards.Make, source: str) -> None:
    answer = bench.judge(make, source, timed=True)
    assert answer["finding"] is None, answer["finding"]["message"]
    assert len(answer["variants"]["v1"]["candidate_s"]) == _SCHEDULE["pairs"]


_IN_PLACE = """#include <cstdint>
extern "C" void kernel(const float* cx, const float* cy, int64_t n) {{
  float* x = const_cast<float*>(cx); float* y = const_cast<float*>(cy);
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
  {more}
}}
"""


def test_an_input_that_eager_changes_may_be_changed_in_place(bench: Bench) -> None:
    source = kernels.file('["x", "y", "x.numel"]', _IN_PLACE.format(more=""))
    answer = bench.judge(cards.ADD_IN_PLACE, source, timed=True, in_place=True)
    assert answer["finding"] is None, answer["finding"]["message"]


def test_in_place_is_no_licence_to_change_other_inputs(bench: Bench) -> None:
    source = kernels.file('["x", "y", "x.numel"]', _IN_PLACE.format(more="y[3] = 0;"))
    answer = bench.judge(cards.ADD_IN_PLACE, source, timed=False, in_place=True)
    assert answer["finding"]["reason"] == "input_mutated"
