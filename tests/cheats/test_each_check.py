"""Each check earns its place: a named cheat, which the whole judge rejects, passes once that check is taken out.

Checks that overlap are taken out together. What timing, holdout and the physics of the machine add is in test_rows.py.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.adversaries.bench import SCHEDULE, Bench, unlocked
from kforge_mcp.judge.adversaries.cheat import Cheat
from kforge_mcp.judge.adversaries.table import CHEATS
from kforge_mcp.judge.adversaries.table_checks import FORGETFUL
from kforge_mcp.judge.request import Subject
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.store.workspace import Workspace
from tests.cheats import weakened


class Without(NamedTuple):
    """`checks`: names in weakened.py."""

    cheat: str
    checks: tuple[str, ...]


PASSES = [
    Without("output never written", ("poison",)),
    Without("the last bit alternates from call to call", ("two runs",)),
    Without("skips what looks done: rows that sum to one", ("what earlier calls left",)),
    Without("skips when its workspace says that the work was done", ("what earlier calls left",)),
    Without("the index in 32 bits", ("poison of any bits",)),
    Without("one element past the end", ("guard zones",)),
    Without("a mebibyte past the end", ("memory far away",)),
    Without("normalises its input in place", ("inputs unchanged",)),
    Without("a thread of its own stays behind", ("threads",)),
    Without("flushes denormals to zero from now on", ("floating-point state",)),
    Without("leaves its work to a thread that is soon done", ("threads", "process stopped")),
    Without("bf16 results off by more than one unit", ("root mean square",)),
    Without("one element a little off", ("every element",)),
    Without("zeros for rows of small values", ("blocks of one style",)),
    Without("NaN swallowed", ("places of NaN",)),
    Without("a boolean of another bit pattern", ("booleans as bytes",)),
    Without("result cached by shape", ("fresh inputs",)),
    Without("weight ignored", ("fresh parameters",)),
    Without("variance as E[x^2] - E[x]^2", ("stress",)),
    Without("no subtraction of the maximum", ("stress", "infinities and NaN")),
    Without("relu that turns NaN into zero", ("infinities and NaN",)),
    Without("uses the addresses of its first call for ever", ("addresses that vary",)),
    Without("one element a little off once checking is over", ("timed positions", "chosen timed calls")),
    Without("a little noise everywhere once checking is over", ("timed projections", "chosen timed calls")),
    Without("off by more than one unit once checking is over", ("chosen timed calls",)),
    Without("passthrough for relu of what is positive, but for infinities", ("admission",)),
    Without("one, whatever the input", ("admission", "uncaught")),
    Without("opens a socket", ("system-call filter",)),
    Without("needs a file of the machine", ("system-call filter", "empty root", "privileges given up")),
    Without("needs to be root", ("system-call filter", "privileges given up")),
    Without("needs a parent", ("system-call filter", "namespace of processes")),
    Without("needs a variable of the environment", ("scrubbed environment",)),
    Without("needs a descriptor that it did not open", ("closed descriptors",)),
    Without("needs more memory than there is", ("limits",)),
]


REPEATS = [Without(FORGETFUL.name, ()), Without(FORGETFUL.name, ("timed values that never repeat",))]


class Weakened(Evaluators):
    """Evaluators whose process leaves out checks; the product's own know no such thing."""

    without: Sequence[str] = ()

    def judge(self, cheat: Cheat, subject: Subject, without: Sequence[str]) -> Any:
        self.without = without
        schedule = SCHEDULE if cheat.timed else None
        admitted = frozenset[str]() if cheat.hard else frozenset({"v1"})
        return self.evaluate(subject, mode="judge", schedule=schedule, admitted=admitted)

    def _call(self, asked: dict[str, Any], on_progress: Any) -> dict[str, Any]:
        return super()._call({**asked, "without": list(self.without)}, on_progress)


pytestmark = pytest.mark.timeout(1800)
"""The first test waits for the answers to all."""


@pytest.fixture(scope="module")
def answers(
    request: pytest.FixtureRequest, model_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Mapping[Without, Any]]:
    """What a judge without the named checks says of each cheat that a selected test is about."""
    here = [item for item in request.session.items if item.path == request.path]
    wanted = [item.callspec.params["one"] for item in here if hasattr(item, "callspec")]  # pyright: ignore
    by_name = {cheat.name: cheat for cheat in (*CHEATS, FORGETFUL)}
    folder = tmp_path_factory.mktemp("weakened")
    interpreter = folder / "python"
    script = f"{shlex.quote(model_python)} -u {shlex.quote(weakened.__file__)}"
    interpreter.write_text(f'#!/bin/sh\nshift\nexec {script} "$@"\n')
    interpreter.chmod(0o755)
    workspace = Workspace.open(folder / "workspace")
    with JobContext.standalone(workspace) as ctx:
        built = Bench(ctx, model_python, folder).build([by_name[one.cheat] for one in wanted])

        def judged(share: Sequence[Without]) -> dict[Without, Any]:
            with unlocked(Weakened(ctx, cards.project(str(interpreter), folder))) as evaluators:
                return {one: evaluators.judge(by_name[one.cheat], built[one.cheat], one.checks) for one in share}

        with ThreadPoolExecutor(2) as pool:
            shares = list(pool.map(judged, (wanted[::2], wanted[1::2])))
        found = {one: answer for share in shares for one, answer in share.items()}
        yield found
    workspace.close()


@pytest.mark.parametrize("one", PASSES, ids=[f"{' and '.join(one.checks)}: {one.cheat}" for one in PASSES])
def test_the_cheat_passes_a_judge_without_the_check(answers: Mapping[Without, Any], one: Without) -> None:
    assert answers[one]["finding"] is None, answers[one]["finding"]


@pytest.mark.parametrize("one", REPEATS, ids=["the whole judge", "the same values in every timed call"])
def test_no_timed_value_comes_twice(answers: Mapping[Without, Any], one: Without) -> None:
    finding = answers[one]["finding"]
    if one.checks:
        assert finding is not None and finding["reason"] == "wrong_result"
    else:
        assert finding is None, finding


def test_every_check_has_a_cheat_that_only_it_catches() -> None:
    assert {check for one in (*PASSES, *REPEATS) for check in one.checks} == set(weakened.CHECKS)
