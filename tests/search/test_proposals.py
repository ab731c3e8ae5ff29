"""What is proposed, to whom, and when the search stops."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from datetime import timedelta
from multiprocessing import get_context
from typing import Any

import pytest

from kforge_mcp.errors import NotFoundError, UsageError
from kforge_mcp.records.base import now
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search import completion
from kforge_mcp.search.budgets import set_limits
from kforge_mcp.search.leases import DURATION
from kforge_mcp.search.proposals import next_proposal
from kforge_mcp.search.status import search_status, tree_lines
from kforge_mcp.search.stopping import STAGNATION_VISITS
from kforge_mcp.search.submission import create_candidate
from kforge_mcp.store import leases
from kforge_mcp.store.workspace import Workspace
from tests.search.building import failed, measured, source, store_card


def grow(workspace: Workspace, card: OperatorCard, speedup: float | None, body: str, **arguments: Any) -> str:
    """A candidate with this result, as if it had been judged."""
    made = create_candidate(workspace, card_id=card.card_id, source=source(body=body), **arguments)
    name = made.candidate.candidate_id
    result = failed(name) if speedup is None else measured(card, name, speedup)
    with workspace.transaction() as session:
        completion.record(session, card, name, [result])
    return name


def test_a_fresh_card_gets_a_source_that_compiles_and_directions(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    proposal = next_proposal(workspace, client="tester").proposals[0]
    assert (proposal.card_id, proposal.parent_id, proposal.tries_left) == (card.card_id, "", 3)
    assert proposal.seed is not None
    assert "/// kforge" in proposal.seed.source
    assert 2 <= len(proposal.directions) <= 3
    with workspace.reading() as session:
        assert leases.get(session, proposal.lease_id).client == "tester"


def test_a_revision_comes_with_source_verdict_lineage_and_failed_siblings(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    first = grow(workspace, card, 1.5, "int a;", note="one pass")
    broken = grow(workspace, card, None, "int b;", parent_id=first, note="half the rows")
    proposal = next_proposal(workspace).proposals[0]
    if proposal.parent_id != first:
        proposal = next_proposal(workspace).proposals[0]
    assert proposal.parent_id == first
    assert "int a;" in proposal.parent_source
    assert proposal.parent is not None
    assert proposal.parent.verdict == "faster"
    assert [step.candidate_id for step in proposal.lineage] == [first]
    assert proposal.failed[0].candidate_id == broken
    assert "wrong_result" in proposal.failed[0].outcome
    assert "row 3 differs" in proposal.failed[0].outcome
    assert proposal.best is None
    assert proposal.seed is None


def test_several_leases_in_one_call_differ_and_have_different_directions(workspace: Workspace) -> None:
    store_card(workspace)
    proposals = next_proposal(workspace, count=3).proposals
    assert len({proposal.lease_id for proposal in proposals}) == 3


def test_without_a_card_the_largest_remaining_gain_is_next_and_leases_spread(workspace: Workspace) -> None:
    project, small = store_card(workspace, eager_us=1200.0)
    _, large = store_card(workspace, project, name="Large", eager_us=3600.0)
    order = [proposal.card_id for proposal in next_proposal(workspace, count=5).proposals]
    assert order[:2] == [large.card_id, large.card_id]
    assert small.card_id in order


def test_an_expired_lease_gives_its_virtual_loss_back(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    lease = next_proposal(workspace).proposals[0]
    later = now() + DURATION + timedelta(seconds=1)
    assert search_status(workspace).leases == 1
    assert search_status(workspace, moment=later).leases == 0
    next_proposal(workspace, moment=later)
    with workspace.reading() as session:
        assert leases.get(session, lease.lease_id).state == "expired"
        assert len(leases.of_card(session, card.card_id, state="active")) == 1


def test_iterations_that_are_leased_are_reserved(workspace: Workspace) -> None:
    project, _ = store_card(workspace)
    with workspace.transaction() as session:
        set_limits(session, project.project_id, iterations=2, gpu_seconds=0, cost_usd=0, wall_s=0)
    first = next_proposal(workspace, count=5)
    assert len(first.proposals) == 2
    assert first.proposals[0].iterations_left == 0
    second = next_proposal(workspace)
    assert second.stop is not None
    assert second.stop.reason == "budget"
    assert "set_budget" in second.stop.message


def test_the_search_stops_at_the_speed_of_light(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    grow(workspace, card, 9.5, "int a;")
    stop = next_proposal(workspace, card_id=card.card_id).stop
    assert stop is not None
    assert stop.reason == "speed_of_light"


def test_the_search_stops_when_nothing_improves(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    for number in range(STAGNATION_VISITS + 1):
        grow(workspace, card, 1.4 if number == 0 else 1.2, f"int a{number};")
    stop = next_proposal(workspace).stop
    assert stop is not None
    assert stop.reason == "stagnation"


def test_a_card_that_is_not_worth_it_is_searched_only_with_a_budget_of_its_own(workspace: Workspace) -> None:
    _, card = store_card(workspace, worth_it=False, gain_ceiling=1.001)
    stop = next_proposal(workspace, card_id=card.card_id).stop
    assert stop is not None
    assert stop.reason == "ceiling"
    with workspace.transaction() as session:
        set_limits(session, card.card_id, iterations=3, gpu_seconds=0, cost_usd=0, wall_s=0)
    assert next_proposal(workspace, card_id=card.card_id).proposals


def test_cards_that_cannot_be_replaced_are_not_proposed(workspace: Workspace) -> None:
    store_card(workspace, eligible=False, reason="it draws random numbers")
    stop = next_proposal(workspace).stop
    assert stop is not None
    assert stop.reason == "not_eligible"
    assert "random numbers" in stop.message


def test_unknown_ids_and_an_empty_workspace_are_named(workspace: Workspace) -> None:
    with pytest.raises(UsageError, match="capture_model"):
        next_proposal(workspace)
    with pytest.raises(NotFoundError):
        next_proposal(workspace, "proj_nothing")
    with pytest.raises(NotFoundError):
        next_proposal(workspace, card_id="card_nothing")


def test_status_lists_the_tree_with_the_best_branch_first(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    slow = grow(workspace, card, 1.1, "int a;")
    fast = grow(workspace, card, 1.2, "int b;")
    best = grow(workspace, card, 1.9, "int c;", parent_id=fast)
    state = search_status(workspace).cards[0]
    assert state.best is not None
    assert state.best.candidate_id == best
    assert [(line.candidate_id, line.depth) for line in tree_lines(state.candidates)] == [
        (fast, 0),
        (best, 1),
        (slow, 0),
    ]
    assert 0 < state.remaining_us < card.eager_us


def _take(arguments: tuple[str, int]) -> list[str]:
    root, number = arguments
    workspace = Workspace.open(root)
    try:
        return [next_proposal(workspace).proposals[0].lease_id for _ in range(number)]
    finally:
        workspace.close()


def test_no_lease_is_given_twice_to_processes_and_threads_at_once(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    with ProcessPoolExecutor(3, mp_context=get_context("spawn")) as processes, ThreadPoolExecutor(3) as threads:
        elsewhere = processes.map(_take, [(str(workspace.root), 5)] * 3)
        here = list(threads.map(lambda _: next_proposal(workspace).proposals[0].lease_id, range(10)))
        taken = [lease for batch in elsewhere for lease in batch] + here
    assert len(taken) == len(set(taken)) == 25
    with workspace.reading() as session:
        assert {lease.lease_id for lease in leases.of_card(session, card.card_id, state="active")} == set(taken)


def test_no_visit_is_lost_when_results_arrive_at_once(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    parent = grow(workspace, card, 1.1, "int a;")
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(lambda n: grow(workspace, card, 1.1, f"int b{n};", parent_id=parent), range(12)))
    state = search_status(workspace).cards[0]
    assert next(row for row in state.candidates if row.candidate_id == parent).visits == 13
    assert state.budget.spent_iterations == 13


def rms_norm_card(workspace: Workspace) -> OperatorCard:
    text = (
        "class TinyRMSNorm(nn.Module):\n    def forward(self, hidden_states):\n"
        "        v = hidden_states.pow(2).mean(-1, keepdim=True)\n"
        "        return self.weight * (hidden_states * torch.rsqrt(v + self.eps))\n"
    )
    return store_card(workspace, reference_source=text)[1]


def test_every_seed_is_offered_once_and_parallel_leases_get_different_ones(workspace: Workspace) -> None:
    from kforge_mcp.seeds.catalogue import seeds_for

    card = rms_norm_card(workspace)
    names = [seed.name for seed in seeds_for(card)]
    assert len(names) >= 2
    first, second = next_proposal(workspace, count=2).proposals
    assert first.seed is not None
    assert second.seed is not None
    assert [first.seed.name, second.seed.name] == names[:2]
    create_candidate(workspace, card_id=card.card_id, source=first.seed.source, lease_id=first.lease_id)
    offered = [proposal.seed for proposal in next_proposal(workspace, count=6).proposals]
    assert first.seed.name not in [seed.name for seed in offered if seed]


@pytest.mark.parametrize(
    ("changes", "why"), [({"level": "torch"}, "operator of torch"), ({"mutates": "x"}, "overwrites")]
)
def test_a_card_that_no_package_can_hold_is_searched_only_with_a_budget_of_its_own(
    workspace: Workspace, changes: dict[str, Any], why: str
) -> None:
    _, card = store_card(workspace, parents=["Block"], **changes)
    stop = next_proposal(workspace, card_id=card.card_id).stop
    assert stop is not None
    assert stop.reason == "not_packaged"
    assert why in stop.message
    assert "Block" in stop.message
    with workspace.transaction() as session:
        set_limits(session, card.card_id, iterations=3, gpu_seconds=0, cost_usd=0, wall_s=0)
    assert next_proposal(workspace, card_id=card.card_id).proposals
