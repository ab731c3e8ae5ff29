"""The tree as the database keeps it: the same as one of all records, whatever happened to them."""

from __future__ import annotations

import random

import pytest

from kforge_mcp.records.base import now
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search import completion
from kforge_mcp.search.leases import active
from kforge_mcp.search.policy import select
from kforge_mcp.search.proposals import next_proposal
from kforge_mcp.search.submission import create_candidate
from kforge_mcp.search.tree import ROOT, Node, Pending, Tree
from kforge_mcp.search.view import CardView, StoredTree
from kforge_mcp.store import candidates
from kforge_mcp.store.workspace import Workspace
from tests.search.building import failed, measured, source, store_card


def grow(workspace: Workspace, card: OperatorCard, speedup: float | None, body: str, parent: str = "") -> str:
    made = create_candidate(workspace, card_id=card.card_id, source=source(body=body), parent_id=parent).candidate
    judge(workspace, card, made.candidate_id, speedup)
    return made.candidate_id


def judge(workspace: Workspace, card: OperatorCard, name: str, speedup: float | None) -> None:
    with workspace.transaction() as session:
        result = failed(name) if speedup is None else measured(card, name, speedup)
        completion.record(session, card, name, [result])


def bests(workspace: Workspace, card: OperatorCard) -> tuple[dict[str, float | None], dict[str, float | None]]:
    """What the records say is best below each candidate, and what their values make of it."""
    with workspace.reading() as session:
        rows = candidates.of_card(session, card.card_id)
    tree = Tree(Node(row.candidate_id, row.parent_id, row.gain, row.visits) for row in rows)
    return {row.candidate_id: row.best for row in rows}, {name: node.best for name, node in tree.nodes.items()}


def test_the_stored_tree_chooses_as_one_of_all_records(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    dice = random.Random(5)
    for number in range(24):
        lease = next_proposal(workspace, card_id=card.card_id).proposals[0]
        made = create_candidate(
            workspace, card_id=card.card_id, source=source(body=f"int a{number};"), lease_id=lease.lease_id
        )
        judge(workspace, card, made.candidate.candidate_id, None if dice.random() < 0.3 else dice.uniform(0.4, 3.0))
    next_proposal(workspace, card_id=card.card_id, count=3)
    with workspace.transaction() as session:
        rows = candidates.of_card(session, card.card_id)
        holding = active(session, card.card_id, now())
        stored = StoredTree(session, card, holding)
        answered = {row.lease_id for row in rows}
        whole = Tree(
            [Node(row.candidate_id, row.parent_id, row.gain, row.visits, row.best, row.pace) for row in rows],
            [Pending(lease.parent_id, lease.lease_id not in answered) for lease in holding],
            eager_ms=card.eager_us / 1000,
        )
        assert select(stored) == select(whole)
        assert select(stored, "paper") == select(whole, "paper")
        assert stored.visits(ROOT) == whole.visits(ROOT) == 24 + len(holding)
    kept, computed = bests(workspace, card)
    assert kept == computed


def test_a_slower_candidate_is_worth_nothing_but_its_gain_is_kept(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    name = grow(workspace, card, 0.5, "int a;")
    with workspace.reading() as session:
        stored = candidates.get(session, name)
    assert stored.value == 0.0
    assert stored.gain == pytest.approx(-0.71, abs=0.01)
    assert stored.best == stored.gain


def test_growth_below_a_candidate_is_its_pace(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    first = grow(workspace, card, 1.1, "int a;")
    grow(workspace, card, 1.4, "int b;", first)
    with workspace.reading() as session:
        assert candidates.get(session, first).pace > 0.1


@pytest.mark.parametrize("again", [0.9, 3.0, None])
def test_a_measurement_that_is_replaced_corrects_what_is_best_above_it(
    workspace: Workspace, again: float | None
) -> None:
    _, card = store_card(workspace)
    first = grow(workspace, card, 1.2, "int a;")
    second = grow(workspace, card, 2.0, "int b;", first)
    grow(workspace, card, 1.5, "int c;", second)
    judge(workspace, card, second, again)
    kept, computed = bests(workspace, card)
    assert kept == computed
    with workspace.reading() as session:
        assert candidates.get(session, first).visits == 3


def test_progress_counts_what_came_after_the_first_best(workspace: Workspace) -> None:
    project, card = store_card(workspace)
    _, other = store_card(workspace, project, name="Other")
    grow(workspace, card, 0.8, "int a;")
    best = grow(workspace, card, 1.5, "int b;")
    grow(workspace, card, 1.5, "int c;")
    grow(workspace, card, None, "int d;")
    create_candidate(workspace, card_id=card.card_id, source=source(body="int open;"))
    grow(workspace, other, 0.9, "int a;")
    with workspace.reading() as session:
        views = CardView.of_project(session, project.project_id, [card, other], now(), writing=False)
    found = views[0].progress
    assert found.best is not None
    assert (found.best.candidate_id, found.completed, found.fruitless) == (best, 4, 2)
    assert (views[1].progress.best, views[1].progress.completed, views[1].progress.fruitless) == (None, 1, 1)


def test_relatives_are_the_latest_in_order(workspace: Workspace) -> None:
    _, card = store_card(workspace)
    names = [grow(workspace, card, None, f"int a{number};") for number in range(15)]
    proposal = next_proposal(workspace).proposals[0]
    assert [step.candidate_id for step in proposal.failed] == names[-12:]
