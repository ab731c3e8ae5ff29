"""Selection: approaches as rising bandits, refinement below them, and the paper's UCT."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from benchmarks.search_lab.landscapes import KINDS, landscapes
from benchmarks.search_lab.policies import climb, product
from kforge_mcp.search.policy import (
    PolicyName,
    may_approach,
    may_widen,
    paper_score,
    projected,
    scale_of,
    select,
    widening_exponent,
)
from kforge_mcp.search.tree import ROOT, Node, Pending, Tree
from tests.search.trees import trees

POLICIES: tuple[PolicyName, ...] = ("uct", "paper")


@pytest.mark.parametrize("policy", POLICIES)
def test_the_root_is_expanded_however_many_leases_are_out_while_nothing_else_can_be(policy: PolicyName) -> None:
    assert select(Tree(), policy) == ROOT
    assert select(Tree([], [Pending(ROOT)] * 20), policy) == ROOT
    assert select(Tree([Node(name, ROOT, None, 1) for name in "abc"]), policy) == ROOT


@pytest.mark.parametrize("policy", POLICIES)
def test_a_repair_below_a_failure_is_reached_through_it(policy: PolicyName) -> None:
    tree = Tree([Node("broken", ROOT, None, 2), Node("repaired", "broken", 0.5, 1), Node("other", ROOT, 0.0, 1)])
    assert select(tree, policy) == "repaired"


def test_an_approach_that_rises_is_preferred_to_a_better_one_that_stands_still() -> None:
    still = Node("still", ROOT, 0.5, 4, best=0.5, pace=0.0)
    rising = Node("rising", ROOT, -0.6, 4, best=-0.1, pace=0.1)
    assert select(Tree([still, rising])) == "rising"
    assert select(Tree([still, replace(rising, pace=0.0)])) == "still"


def test_below_an_approach_the_best_is_revised_until_its_children_do_not_improve() -> None:
    nodes = [Node("a", ROOT, 0.5, 3), Node("b", "a", 0.9, 1), Node("c", "a", 0.4, 1)]
    assert select(Tree(nodes)) == "b"
    worse = [Node(f"b{index}", "b", 0.89, 1) for index in range(8)]
    # leases on the root leave no room for another approach
    nodes = [Node("a", ROOT, 0.5, 11), Node("b", "a", 0.9, 9), nodes[2], *worse]
    assert select(Tree(nodes, [Pending(ROOT)] * 4)) in {one.candidate_id for one in worse}


def test_approaches_widen_with_visits_and_a_failed_one_counts_half() -> None:
    assert may_approach(Tree([Node("a", ROOT, 0.5, 4)]))
    assert not may_approach(Tree([Node("a", ROOT, 0.5, 3)]))
    assert may_approach(Tree([Node("a", ROOT, 0.5, 3), Node("b", ROOT, None, 1)])) is False
    assert may_approach(Tree([Node("a", ROOT, 0.5, 6), Node("b", ROOT, None, 1)]))
    assert not may_approach(Tree([Node("a", ROOT, 0.5, 6)], [Pending(ROOT)]))


def test_the_score_is_the_projection_and_the_bonus_of_uct() -> None:
    tree = Tree([Node("a", ROOT, 0.5, 3, best=0.5, pace=0.02), Node("b", ROOT, 1.0, 1)])
    score = projected(tree, tree.nodes["a"], scale_of(tree), 4, 2.0)
    assert score == pytest.approx((0.5 + 10 * 0.02) / 1.0 + 2 * math.sqrt(math.log(4) / 3))


def test_leases_send_the_next_proposer_elsewhere() -> None:
    tree = Tree([Node("a", ROOT, 0.50, 2), Node("b", ROOT, 0.49, 2)])
    first = select(tree)
    tree.lease(Pending(first))
    assert {first, select(tree)} == {"a", "b"}


def test_the_papers_widening_allows_children_up_to_the_floor_of_visits_to_alpha() -> None:
    tree = Tree([Node("a", ROOT, 0.1, 1), Node("b", ROOT, 0.2, 1)])
    assert not may_widen(tree, ROOT)
    assert select(tree, "paper") == "b"
    wide = Tree([Node("a", ROOT, 0.1, 3), Node("b", ROOT, 0.2, 2)])
    assert may_widen(wide, ROOT)
    assert select(wide, "paper") == ROOT


def test_the_papers_alpha_falls_from_a_half_to_three_tenths_over_a_thousand_visits() -> None:
    assert widening_exponent(0) == 0.5
    assert widening_exponent(500) == pytest.approx(0.4)
    assert widening_exponent(1000) == pytest.approx(0.3)
    assert widening_exponent(5000) == pytest.approx(0.3)


def test_the_papers_score_is_in_milliseconds() -> None:
    tree = Tree([Node("a", ROOT, 0.5, 3), Node("b", ROOT, 1.0, 1)], eager_ms=2.0)
    expected = math.sqrt(math.log(4) / 3) - 2.0 * math.exp(-0.5)
    assert paper_score(tree, ROOT, tree.nodes["a"]) == pytest.approx(expected)


@given(trees(), st.lists(st.integers(0, 25), max_size=6), st.sampled_from(POLICIES))
def test_whatever_is_selected_can_be_revised(nodes: list[Node], leased: list[int], policy: PolicyName) -> None:
    tree = Tree(nodes, [Pending(f"n{index}") for index in leased])
    assert tree.expandable(select(tree, policy))


@given(trees(), st.sampled_from([0.001, 0.5, 1000.0]))
def test_scores_do_not_depend_on_the_scale_of_the_values(nodes: list[Node], factor: float) -> None:
    one = Tree(nodes)
    if one.best(ROOT) < 1e-6:
        return
    values = [None if node.value is None else node.value * factor for node in nodes]
    other = Tree(replace(node, value=value) for node, value in zip(nodes, values, strict=True))
    for name in one.nodes:
        scores = [projected(tree, tree.nodes[name], scale_of(tree), 9, 1.0) for tree in (one, other)]
        assert scores[0] == pytest.approx(scores[1])


@pytest.mark.parametrize("kind", KINDS)
def test_times_a_thousand_times_larger_lead_to_the_same_search(kind: str) -> None:
    landscape = next(one for one in landscapes(held_out=False) if one.kind == kind)
    assert climb(landscape, product("uct"), 60, 1) == climb(landscape.scaled(1000), product("uct"), 60, 1)


def test_a_deceptive_landscape_is_climbed_where_the_paper_and_greed_stay_below() -> None:
    deceptive = [one for one in landscapes(held_out=False) if one.kind == "deceptive"]

    def regret(policy: PolicyName) -> float:
        ends = [(one, climb(one, product(policy), 50, seed)[-1]) for one in deceptive for seed in range(6)]
        return sum(1 - end / one.optimum for one, end in ends) / len(ends)

    assert regret("uct") < regret("paper") - 0.1


class Growth(RuleBasedStateMachine):
    """A tree that is grown by its own selection, with leases out and results of every kind."""

    @initialize(policy=st.sampled_from(POLICIES))
    def start(self, policy: PolicyName) -> None:
        self.policy: PolicyName = policy
        self.grown = Tree()
        self.out: list[str] = []

    def tree(self) -> Tree:
        return Tree(self.grown.nodes.values(), [Pending(parent) for parent in self.out])

    @rule()
    def lease(self) -> None:
        if len(self.out) < 6:
            self.out.append(select(self.tree(), self.policy))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), value=st.none() | st.floats(-1, 3))
    def complete(self, data: st.DataObject, value: float | None) -> None:
        parent = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        self.grown.complete(Node(f"n{len(self.grown.nodes)}", parent, value, 1))

    @precondition(lambda self: self.out)
    @rule()
    def expire(self) -> None:
        before = self.tree().visits(ROOT)
        self.out.pop()
        assert self.tree().visits(ROOT) == before - 1

    @invariant()
    def no_visit_is_lost(self) -> None:
        assert self.tree().visits(ROOT) == len(self.grown.nodes) + len(self.out)

    @invariant()
    def only_eager_and_measured_candidates_have_children(self) -> None:
        for node in self.grown.nodes.values():
            assert node.parent_id == ROOT or self.grown.nodes[node.parent_id].value is not None


TestGrowth = Growth.TestCase


def test_many_leases_at_once_are_spread_over_approaches() -> None:
    dice = random.Random(3)
    tree = Tree()
    for number in range(40):
        tree.complete(Node(f"n{number}", select(tree), dice.uniform(0, 1), 1))
    chosen = []
    for _ in range(8):
        chosen.append(select(tree))
        tree.lease(Pending(chosen[-1]))
    assert len(set(chosen)) >= 4
