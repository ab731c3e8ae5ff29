"""From a source to a node of the tree with a result; compilers are real, verdicts are the test's."""

from __future__ import annotations

import importlib.util
import json
import math
from typing import Any

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import JobCancelled, NotFoundError, RuntimeFailure, UsageError
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.search.budgets import set_limits
from kforge_mcp.search.proposals import next_proposal
from kforge_mcp.search.submission import STAGES, create_candidate, run_submission, target_of
from kforge_mcp.store import budgets, candidates, leases
from kforge_mcp.store.workspace import Workspace
from tests.search.building import failed, source, store_card
from tests.search.judging import FakeJudge

BROKEN = "// /// kforge\n// entry = \n// ///\n"
UNCOMPILABLE = source(body="int x = ;")


def submit(workspace: Workspace, card_id: str, text: str, **arguments: Any) -> Candidate:
    """Create and judge, as the server does through the engine."""
    made = create_candidate(workspace, card_id=card_id, source=text, **arguments)
    if made.needs_judging:
        judge_again(workspace, made.candidate.candidate_id)
    return load(workspace, made.candidate.candidate_id)


def judge_again(workspace: Workspace, candidate_id: str, stages: tuple[str, ...] = STAGES) -> dict[str, Any]:
    with JobContext.standalone(workspace) as ctx:
        return run_submission(ctx, candidate_id=candidate_id, stages=list(stages))


def load(workspace: Workspace, candidate_id: str) -> Candidate:
    with workspace.reading() as session:
        return candidates.get(session, candidate_id)


def test_a_measured_candidate_has_results_value_logs_and_a_visit(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    candidate = submit(workspace, card.card_id, source(), note="first", author="me", provenance={"model": "m"})
    assert candidate.state == "measured"
    assert candidate.visits == 1
    assert candidate.value == pytest.approx(math.log(1.5 * 0.98))
    assert candidate.compiled is not None
    assert candidate.compiled.passed
    assert candidate.benchmarked is not None
    assert candidate.benchmarked.verdict == "faster"
    assert (candidate.note, candidate.author, candidate.model) == ("first", "me", "m")
    assert "judge's log" in workspace.blobs.get(candidate.log).decode()
    assert json.loads(workspace.blobs.get(candidate.samples)) == {"pairs": [1.0, 2.0]}
    assert candidate.wall_s > 0


def test_a_source_that_cannot_be_read_is_a_failed_node_with_diagnostics(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    made = create_candidate(workspace, card_id=card.card_id, source=BROKEN)
    assert not made.needs_judging
    assert made.candidate.state == "failed"
    assert made.candidate.visits == 1
    result = made.candidate.compiled
    assert result is not None
    assert result.candidate_id == made.candidate.candidate_id
    assert result.reason in ("syntax_error", "contract_error")
    assert result.diagnostics[0].line == 2


def test_a_compiler_error_fails_the_candidate_without_asking_the_judge(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    candidate = submit(workspace, card.card_id, UNCOMPILABLE)
    assert candidate.state == "failed"
    assert candidate.compiled is not None
    assert candidate.compiled.reason == "syntax_error"
    assert candidate.compiled.diagnostics[0].line == 7
    assert judge.asked == []


def test_equal_code_is_one_node(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    first = submit(workspace, card.card_id, source())
    again = create_candidate(
        workspace, card_id=card.card_id, source=source().replace(" = x[i]", "  =  x[i] /* same */")
    )
    assert again.duplicate
    assert not again.needs_judging
    assert again.candidate.candidate_id == first.candidate_id
    with workspace.reading() as session:
        assert len(candidates.of_card(session, card.card_id)) == 1


def test_an_equal_source_that_was_never_judged_is_judged(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    first = create_candidate(workspace, card_id=card.card_id, source=source())
    again = create_candidate(workspace, card_id=card.card_id, source=source())
    assert again.duplicate
    assert again.needs_judging
    assert again.candidate == first.candidate


def test_visits_reach_all_ancestors(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    one = submit(workspace, card.card_id, source(body="// 1\nint a;"))
    two = submit(workspace, card.card_id, source(body="int b;"), parent_id=one.candidate_id)
    judge.verdict = lambda _id: failed("")
    three = submit(workspace, card.card_id, source(body="int c;"), parent_id=two.candidate_id)
    visits = [load(workspace, row.candidate_id).visits for row in (one, two, three)]
    assert visits == [3, 2, 1]
    assert three.state == "failed"


def test_a_repair_keeps_its_lease_and_is_a_child_of_what_it_repairs(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    lease = next_proposal(workspace).proposals[0]
    broken = submit(workspace, card.card_id, UNCOMPILABLE, lease_id=lease.lease_id)
    with workspace.reading() as session:
        held = leases.get(session, lease.lease_id)
    assert (held.state, held.tries_left) == ("active", 2)
    repaired = submit(workspace, card.card_id, source(), lease_id=lease.lease_id)
    assert repaired.parent_id == broken.candidate_id
    assert repaired.lease_id == lease.lease_id
    with workspace.reading() as session:
        assert leases.get(session, lease.lease_id).state == "used"


def test_three_failures_use_a_lease_up_and_a_fourth_is_taken_without_it(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    lease = next_proposal(workspace).proposals[0]
    judge.verdict = lambda _id: failed("")
    for number in range(3):
        submit(workspace, card.card_id, source(body=f"int v{number};"), lease_id=lease.lease_id)
    with workspace.reading() as session:
        assert leases.get(session, lease.lease_id).state == "used"
    fourth = create_candidate(workspace, card_id=card.card_id, source=source(), lease_id=lease.lease_id)
    assert fourth.candidate.lease_id == ""
    assert "used" in fourth.remarks[0]


@pytest.mark.parametrize("reason", ["device_busy", "target_unavailable", "internal_error"])
def test_what_says_nothing_of_the_candidate_leaves_it_open(workspace: Workspace, judge: FakeJudge, reason: str) -> None:
    _, card = store_card(workspace)
    judge.verdict = lambda _id: failed("", reason)
    candidate = submit(workspace, card.card_id, source())
    assert (candidate.state, candidate.visits) == ("open", 0)
    judge.verdict = lambda _id: 1.2
    judge_again(workspace, candidate.candidate_id)
    assert load(workspace, candidate.candidate_id).state == "measured"


def test_judging_again_replaces_the_result_and_counts_no_second_visit(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    candidate = submit(workspace, card.card_id, source())
    judge.verdict = lambda _id: 2.0
    result = judge_again(workspace, candidate.candidate_id, ("benchmark",))
    again = load(workspace, candidate.candidate_id)
    assert result["speedup"] == 2.0
    assert again.visits == 1
    assert again.value is not None
    assert candidate.value is not None
    assert again.value > candidate.value
    with workspace.reading() as session:
        assert budgets.get_or_default(session, card.card_id).spent_iterations == 1


def test_single_stages_complete_no_visit_until_the_benchmark(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    made = create_candidate(workspace, card_id=card.card_id, source=source())
    for stage in ("compile", "validate"):
        result = judge_again(workspace, made.candidate.candidate_id, (stage,))
        assert result["stage"] == stage
        assert result["passed"]
        assert load(workspace, made.candidate.candidate_id).state == "open"
    assert judge.asked == [("validate",)]
    judge_again(workspace, made.candidate.candidate_id, ("benchmark",))
    assert load(workspace, made.candidate.candidate_id).state == "measured"


def test_a_dead_judge_is_an_internal_error_and_a_cancelled_job_leaves_the_node_open(
    workspace: Workspace, judge: FakeJudge
) -> None:
    _, card = store_card(workspace)

    def die(_id: str) -> float:
        raise RuntimeFailure("crashed", "signal SIGKILL", trace="where it died")

    judge.verdict = die
    candidate = submit(workspace, card.card_id, source())
    assert candidate.latest is not None
    assert candidate.latest.reason == "internal_error"
    assert "SIGKILL" in candidate.latest.message

    def stop(_id: str) -> float:
        raise JobCancelled("cancelled")

    judge.verdict = stop
    with pytest.raises(JobCancelled):
        judge_again(workspace, candidate.candidate_id)
    assert load(workspace, candidate.candidate_id).state == "open"


def test_a_budget_that_is_used_up_keeps_the_source_and_judges_it_once_raised(
    workspace: Workspace, judge: FakeJudge
) -> None:
    project, card = store_card(workspace)
    limits = {"gpu_seconds": 0, "cost_usd": 0, "wall_s": 0}
    with workspace.transaction() as session:
        set_limits(session, project.project_id, iterations=1, **limits)
    submit(workspace, card.card_id, source(body="int a;"))
    over = create_candidate(workspace, card_id=card.card_id, source=source(body="int b;"))
    assert not over.needs_judging
    assert over.candidate.latest is not None
    assert over.candidate.latest.reason == "budget_exhausted"
    assert over.candidate.state == "open"
    with workspace.transaction() as session:
        set_limits(session, project.project_id, iterations=2, **limits)
    assert submit(workspace, card.card_id, source(body="int b;")).state == "measured"


def test_ids_that_do_not_fit_are_named(workspace: Workspace) -> None:
    project, card = store_card(workspace)
    _, other = store_card(workspace, project, name="Other")
    stranger = create_candidate(workspace, card_id=other.card_id, source=BROKEN).candidate
    with pytest.raises(NotFoundError, match="card_nothing"):
        create_candidate(workspace, card_id="card_nothing", source=source())
    with pytest.raises(UsageError, match="of the same card"):
        create_candidate(workspace, card_id=card.card_id, source=source(), parent_id=stranger.candidate_id)
    lease = next_proposal(workspace, card_id=other.card_id).proposals[0]
    with pytest.raises(UsageError, match="is for card"):
        create_candidate(workspace, card_id=card.card_id, source=source(), lease_id=lease.lease_id)
    _, closed = store_card(workspace, project, name="Dropout", eligible=False, reason="it draws random numbers.")
    with pytest.raises(UsageError, match="random numbers"):
        create_candidate(workspace, card_id=closed.card_id, source=source())


CUDA = (
    "// /// kforge\n"
    "// [[step]]\n"
    '// kernel = "scaled"\n'
    '// grid = ["hidden_states.shape[0]"]\n'
    '// block = ["256"]\n'
    '// args = ["hidden_states", "hidden_states.shape[1]", "out"]\n'
    "// ///\n"
    "__global__ void scaled(const hidden_states_t* x, long long n, out_t* y) {\n"
    "    for (long long i = threadIdx.x; i < n; i += 256) y[blockIdx.x * n + i] = 2 * x[blockIdx.x * n + i];\n}\n"
)


@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="no NVRTC: pip install 'kforge-mcp[cu13]'")
def test_a_cuda_candidate_of_a_cpu_project_compiles_and_is_not_judged(workspace: Workspace, judge: FakeJudge) -> None:
    _, card = store_card(workspace)
    made = create_candidate(workspace, card_id=card.card_id, source=CUDA)
    assert made.candidate.target == "cuda"
    compiled = judge_again(workspace, made.candidate.candidate_id, ("compile",))
    assert (compiled["stage"], compiled["status"], compiled["passed"]) == ("compile", "ok", True)
    assert compiled["message"].startswith("compiled only: the project was captured on")
    assert any(note.startswith("sm_90a: scaled: ") and "registers, no spills" in note for note in compiled["notes"])
    judged = judge_again(workspace, made.candidate.candidate_id)
    assert (judged["stage"], judged["reason"]) == ("validate", "target_unavailable")
    assert "torch 2.13.0 without CUDA" in judged["message"]
    candidate = load(workspace, made.candidate.candidate_id)
    assert candidate.state == "open"
    assert candidate.compiled is not None
    assert candidate.compiled.passed
    assert "NVRTC" in workspace.blobs.get(candidate.log).decode()


def test_the_target_is_that_of_the_metadata(workspace: Workspace) -> None:
    assert target_of(CUDA, "cpu") == "cuda"
    assert target_of(source(), "cuda") == "cpu"
    assert target_of(BROKEN, "cuda") == "cuda"
