"""Selection: UCT, progressive widening, virtual losses."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kforge_mcp.search.tree import PAPER, ROOT, UCT, Node, Pending, Settings, Tree, score, select, widening_exponent


def chain(*values: float | None) -> list[Node]:
    """A path from the root, each node the child of the one before, each visited once."""
    count = len(values)
    return [
        Node(f"n{index}", f"n{index - 1}" if index else ROOT, value, count - index)
        for index, value in enumerate(values)
    ]


def test_an_empty_tree_expands_the_root() -> None:
    assert select(Tree([])) == ROOT


def test_the_root_is_expanded_however_many_leases_are_out_while_nothing_else_can_be() -> None:
    tree = Tree([], [Pending(ROOT)] * 20)
    assert select(tree) == ROOT


def test_widening_allows_children_up_to_the_floor_of_visits_to_alpha() -> None:
    tree = Tree([Node("a", ROOT, 0.1, 1), Node("b", ROOT, 0.2, 1)])
    assert tree.visits(ROOT) == 2
    assert not tree.may_widen(ROOT)
    assert select(tree) == "b"
    wide = Tree([Node("a", ROOT, 0.1, 3), Node("b", ROOT, 0.2, 2)])
    assert wide.may_widen(ROOT)
    assert select(wide) == ROOT


def test_alpha_falls_from_a_half_to_three_tenths_over_a_thousand_visits() -> None:
    assert widening_exponent(0) == 0.5
    assert widening_exponent(500) == pytest.approx(0.4)
    assert widening_exponent(1000) == pytest.approx(0.3)
    assert widening_exponent(5000) == pytest.approx(0.3)


def test_a_failed_leaf_is_never_revised() -> None:
    tree = Tree([Node("a", ROOT, None, 1), Node("b", ROOT, None, 1), Node("c", ROOT, None, 1)])
    assert select(tree) == ROOT


def test_a_repair_below_a_failure_is_reached_through_it() -> None:
    tree = Tree([Node("broken", ROOT, None, 2), Node("repaired", "broken", 0.5, 1), Node("other", ROOT, 0.0, 1)])
    assert select(tree) == "repaired"


def test_the_best_below_counts_for_a_node_not_its_own_value() -> None:
    tree = Tree([Node("a", ROOT, 0.0, 2), Node("a1", "a", 1.0, 1), Node("b", ROOT, 0.4, 2), Node("b1", "b", 0.4, 1)])
    assert tree.best["a"] == 1.0
    assert score(tree, ROOT, "a") > score(tree, ROOT, "b")


def test_score_is_the_published_formula() -> None:
    tree = Tree([Node("a", ROOT, 0.5, 3), Node("b", ROOT, 1.0, 1)], eager_ms=2.0)
    assert score(tree, ROOT, "a") == pytest.approx(0.5 + math.sqrt(math.log(4) / 3))
    assert score(tree, ROOT, "a", PAPER) == pytest.approx(math.sqrt(math.log(4) / 3) - 2.0 * math.exp(-0.5))


def test_a_lease_is_a_visit_without_reward_on_all_ancestors() -> None:
    tree = Tree(chain(0.5, 0.6, 0.7), [Pending("n1")])
    assert [tree.visits(name) for name in (ROOT, "n0", "n1", "n2")] == [4, 4, 3, 1]
    assert tree.completed(ROOT) == 3


def test_leases_send_the_next_proposer_elsewhere() -> None:
    nodes = [Node("a", ROOT, 0.50, 1), Node("b", ROOT, 0.49, 1)]
    tree = Tree(nodes)
    first = select(tree)
    tree.lease(Pending(first))
    assert {first, select(tree)} == {"a", "b"}


@st.composite
def trees(draw: st.DrawFn) -> list[Node]:
    count = draw(st.integers(0, 25))
    parents = [draw(st.integers(-1, index - 1)) for index in range(count)]
    values = [draw(st.none() | st.floats(0, 2)) for _ in range(count)]
    visits = [1] * count
    for index in reversed(range(count)):
        if parents[index] >= 0:
            visits[parents[index]] += visits[index]
    return [
        Node(f"n{index}", f"n{parents[index]}" if parents[index] >= 0 else ROOT, values[index], visits[index])
        for index in range(count)
    ]


@given(trees(), st.lists(st.integers(0, 25), max_size=6), st.sampled_from([UCT, PAPER]))
def test_whatever_is_selected_can_be_revised(nodes: list[Node], leased: list[int], policy: Settings) -> None:
    tree = Tree(nodes, [Pending(f"n{index}") for index in leased])
    assert tree.expandable(select(tree, policy))


@given(trees(), st.sampled_from([0.001, 0.5, 1000.0]))
def test_the_choice_does_not_depend_on_the_scale_of_the_values(nodes: list[Node], factor: float) -> None:
    values = [node.value for node in nodes if node.value]
    if values and min(values) < 1e-6:
        return
    scaled = [
        Node(node.candidate_id, node.parent_id, None if node.value is None else node.value * factor, node.visits)
        for node in nodes
    ]
    one, other = Tree(nodes), Tree(scaled)
    for name, node in one.nodes.items():
        assert score(one, node.parent_id, name) == pytest.approx(score(other, node.parent_id, name))


@given(trees(), st.lists(st.integers(0, 25), max_size=8))
def test_visits_of_a_node_are_its_own_plus_its_childrens(nodes: list[Node], leased: list[int]) -> None:
    tree = Tree(nodes, [Pending(f"n{index}") for index in leased])
    assert tree.visits(ROOT) == len(nodes) + len(leased)
    for name in tree.nodes:
        assert tree.visits(name) == tree.nodes[name].visits + tree._virtual[name]
        assert tree.best[name] >= max((tree.best[child] for child in tree.children.get(name, ())), default=0.0)


class Growth(RuleBasedStateMachine):
    """A tree that is grown by its own selection, with leases out and results of every kind."""

    @initialize()
    def start(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.out: list[str] = []

    def tree(self) -> Tree:
        return Tree(self.nodes.values(), [Pending(parent) for parent in self.out])

    @rule()
    def lease(self) -> None:
        if len(self.out) < 6:
            self.out.append(select(self.tree()))

    @precondition(lambda self: self.out)
    @rule(data=st.data(), value=st.none() | st.floats(0, 3))
    def complete(self, data: st.DataObject, value: float | None) -> None:
        parent = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        name = f"n{len(self.nodes)}"
        self.nodes[name] = Node(name, parent, value, 1)
        while parent != ROOT:
            node = self.nodes[parent]
            self.nodes[parent] = Node(node.candidate_id, node.parent_id, node.value, node.visits + 1)
            parent = node.parent_id

    @precondition(lambda self: self.out)
    @rule()
    def expire(self) -> None:
        before = self.tree().visits(ROOT)
        self.out.pop()
        assert self.tree().visits(ROOT) == before - 1

    @invariant()
    def no_visit_is_lost(self) -> None:
        assert self.tree().visits(ROOT) == len(self.nodes) + len(self.out)

    @invariant()
    def only_eager_and_measured_candidates_have_children(self) -> None:
        for node in self.nodes.values():
            assert node.parent_id == ROOT or self.nodes[node.parent_id].value is not None


TestGrowth = Growth.TestCase
