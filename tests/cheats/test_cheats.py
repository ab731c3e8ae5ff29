"""Every cheat is rejected for the right reason, next to honest kernels that pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.adversaries import cpu_kernels as cpu
from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.adversaries.bench import SCHEDULE, Bench
from kforge_mcp.judge.adversaries.table import CHEATS, HONEST, Cheat, Honest
from kforge_mcp.judge.adversaries.table_checks import SLOW_AT_FIRST
from kforge_mcp.store.workspace import Workspace
from tests.cheats.cuda_table import CHEATS as CUDA_CHEATS
from tests.cheats.cuda_table import REFUSED

_ROWS = range(1, 39)
_NOT_OF_THE_SOURCE = {27: "only CUDA has an L2 window", 28: "a matter of the schedule", 30: "of noise", 31: "of time",
                      32: "of inputs"}  # fmt: skip
"""Rows that no candidate's source shows; test_rows.py has them."""


pytestmark = pytest.mark.timeout(1800)
"""The first test waits for the answers to all."""


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, model_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[str, Any]]:
    """The judge's answer to every candidate that a selected test is about."""
    here = [item for item in request.session.items if item.path == request.path]
    entries = [item.callspec.params["entry"] for item in here if hasattr(item, "callspec")]  # pyright: ignore
    folder = tmp_path_factory.mktemp("cheats")
    workspace = Workspace.open(folder / "workspace")
    with JobContext.standalone(workspace) as ctx:
        yield Bench(ctx, model_python, folder).judge(entries)
    workspace.close()


@pytest.mark.parametrize("entry", CHEATS, ids=[f"row {cheat.row}: {cheat.name}" for cheat in CHEATS])
def test_the_cheat_is_rejected(answers: Mapping[str, Any], entry: Cheat) -> None:
    finding = answers[entry.name]["finding"]
    assert finding is not None, "it got through"
    assert finding["reason"] in entry.reasons, finding
    assert entry.says in finding["message"]
    assert len(finding["message"]) <= 600


@pytest.mark.parametrize("entry", HONEST, ids=[one.name for one in HONEST])
def test_the_honest_kernel_passes(answers: Mapping[str, Any], entry: Honest) -> None:
    answer = answers[entry.name]
    assert answer["finding"] is None, answer["finding"]["message"]
    if entry.timed:
        assert all(len(times["candidate_s"]) == SCHEDULE["pairs"] for times in answer["variants"].values())


@pytest.mark.parametrize("entry", [SLOW_AT_FIRST], ids=["row 28"])
def test_slowness_at_first_does_not_change_how_often_is_timed(answers: Mapping[str, Any], entry: Cheat) -> None:
    answer = answers[entry.name]
    assert answer["finding"] is None, answer["finding"]["message"]
    times = answer["variants"]["v1"]
    assert len(times["candidate_s"]) == len(times["eager_s"]) == SCHEDULE["pairs"]


def test_every_row_has_its_cheats_on_the_cpu_and_on_cuda() -> None:
    on_cpu = Counter(cheat.row for cheat in CHEATS)
    on_cuda = Counter(one.row for one in (*CUDA_CHEATS, *REFUSED))
    elsewhere = set(_NOT_OF_THE_SOURCE)
    assert {row for row in _ROWS if not on_cpu[row]} <= elsewhere
    assert {row for row in _ROWS if not on_cuda[row]} <= elsewhere | {19, 35}
    assert len(CHEATS) >= 60 and len(HONEST) >= 60


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(one.name for one in (*CHEATS, *HONEST)).items() if count > 1] == []


def test_an_alias_of_an_input_cannot_be_asked_for_where_eager_makes_a_new_tensor(tmp_path: Path) -> None:
    card = cards.card(tmp_path, [op.RELU])
    plan = parse_plan(cpu.each("    o[i] = x[i];").replace("// args", "// inplace = true\n// args"), card, "cpu")
    assert isinstance(plan, Rejected)
    assert "inplace" in plan.message
