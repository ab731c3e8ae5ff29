"""The tree: visits, what is best below a node, pace, virtual losses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_mcp.search.tree import ROOT, Node, Pending, Tree, after_visit
from tests.search.trees import chain, trees


def test_the_best_below_counts_for_a_node_not_its_own_value() -> None:
    tree = Tree([Node("a", ROOT, 0.0, 2), Node("a1", "a", 1.0, 1), Node("b", ROOT, 0.4, 2), Node("b1", "b", 0.4, 1)])
    assert (tree.best("a"), tree.best("b"), tree.best(ROOT)) == (1.0, 0.4, 1.0)


def test_slower_than_eager_is_told_apart_below_an_approach_and_never_best_at_the_root() -> None:
    tree = Tree([Node("a", ROOT, -0.5, 2), Node("a1", "a", -0.2, 1)])
    assert (tree.best("a"), tree.best(ROOT)) == (-0.2, 0.0)


def test_a_lease_is_a_visit_without_reward_on_all_ancestors() -> None:
    tree = Tree(chain(0.5, 0.6, 0.7), [Pending("n1")])
    assert [tree.visits(name) for name in (ROOT, "n0", "n1", "n2")] == [4, 4, 3, 1]
    assert tree.completed(ROOT) == 3
    assert tree.best("n0") == 0.7


def test_a_lease_that_was_answered_is_no_second_child() -> None:
    tree = Tree(chain(0.5), [Pending("n0", fresh=False), Pending("n0")])
    assert (tree.visits("n0"), tree.width("n0")) == (3, 1)


def test_the_pace_is_what_the_best_lately_grew_by_a_visit() -> None:
    node = Node("a", ROOT, -0.4, 1, best=-0.4)
    once = after_visit(node, 0.2)
    assert (once.visits, once.best, once.pace) == (2, 0.2, pytest.approx(0.3))
    assert after_visit(once, None).pace == pytest.approx(0.15)
    assert after_visit(once, 0.1).pace == pytest.approx(0.15)
    assert after_visit(once, 0.1).best == 0.2


def test_the_first_measurement_below_a_failure_is_no_growth() -> None:
    broken = Node("a", ROOT, None, 1)
    assert broken.failed
    repaired = after_visit(broken, 1.5)
    assert (repaired.best, repaired.pace, repaired.failed) == (1.5, 0.0, False)


@given(trees(), st.lists(st.integers(0, 25), max_size=8))
def test_visits_of_a_node_are_its_own_plus_its_childrens(nodes: list[Node], leased: list[int]) -> None:
    tree = Tree(nodes, [Pending(f"n{index}") for index in leased])
    assert tree.visits(ROOT) == len(nodes) + len(leased)
    for name in tree.nodes:
        assert tree.completed(name) == 1 + sum(child.visits for child in tree.children(name))
        below = [child.best for child in tree.children(name) if child.best is not None]
        assert not below or tree.best(name) >= max(below)


@given(trees())
def test_a_tree_grown_by_visits_is_the_tree_of_its_nodes(nodes: list[Node]) -> None:
    grown, whole = Tree(), Tree(nodes)
    for node in nodes:
        grown.complete(node)
    assert {name: (node.visits, node.best) for name, node in grown.nodes.items()} == {
        name: (node.visits, node.best) for name, node in whole.nodes.items()
    }
