"""Which node of a tree to revise next. Pure: a tree in, a choice out.

The default treats the first approaches to an operator (the root's children) as rising bandits: an approach is worth
what its best candidate would reach at its present pace. Below an approach it climbs nearly greedily. `paper` is UCT
with progressive widening as Kernel Forge has it (arXiv 2607.24762). Why: docs/design/search-policy.md.
"""

from __future__ import annotations

import math
from typing import Literal

from kforge_mcp.search.tree import ROOT, Node, Tree

PolicyName = Literal["uct", "paper"]

APPROACHES = 0.5
WIDENING = 0.6
"""Another first approach while there are fewer than `APPROACHES * visits ** WIDENING`."""
FAILED_APPROACH = 0.5
"""How much an approach that failed counts among them."""
HORIZON = 10.0
"""Visits over which an approach is taken to go on at its pace."""
EXPLORATION = 2.0
"""C among approaches."""
REFINEMENT = 0.25
"""C below an approach."""

PAPER_EXPLORATION = 1.0
PAPER_WIDENING = 0.5
PAPER_WIDENING_FALL = 0.2
"""How much the paper's alpha falls over the first 1000 visits of the root."""


def select(tree: Tree, policy: PolicyName = "uct") -> str:
    """The node to revise next: an id, or `ROOT` for a first approach to the operator."""
    step = _paper_step if policy == "paper" else _step
    name = ROOT
    while (below := step(tree, name)) is not None:
        name = below
    return name


def projected(tree: Tree, node: Node, scale: float, parent_visits: int, exploration: float) -> float:
    """(best + HORIZON * pace) / scale + C sqrt(ln N_parent / n): how much a node deserves the next visit."""
    reach = ((node.best or 0.0) + HORIZON * node.pace) / scale
    return reach + _bonus(exploration, parent_visits, tree.visits(node.candidate_id))


def _bonus(exploration: float, parent_visits: int, visits: int) -> float:
    return exploration * math.sqrt(math.log(max(2, parent_visits)) / max(1, visits))


def scale_of(tree: Tree) -> float:
    """The value of the tree's best, by which all values are divided; 1 while nothing beats eager."""
    return tree.best(ROOT) or 1.0


def may_approach(tree: Tree) -> bool:
    """Whether there is room for another first approach."""
    children = tree.children(ROOT)
    failed = sum(child.failed for child in children)
    count = len(children) - (1 - FAILED_APPROACH) * failed + tree.fresh(ROOT)
    return count < APPROACHES * tree.visits(ROOT) ** WIDENING


def _step(tree: Tree, name: str) -> str | None:
    """The child to go to, or None to revise this node.

    A node competes with its children: it is an arm of its own value that was pulled once for each child it has.
    """
    options = tree.options(name)
    if not options or (name == ROOT and may_approach(tree)):
        return None
    scale, visits = scale_of(tree), tree.visits(name)
    exploration = EXPLORATION if name == ROOT else REFINEMENT
    score, chosen = max(
        (projected(tree, child, scale, visits, exploration), place) for place, child in enumerate(options)
    )
    own = None if name == ROOT else tree.nodes[name].value
    if own is not None and own / scale + _bonus(REFINEMENT, visits, 1 + tree.width(name)) > score:
        return None
    return options[chosen].candidate_id


def widening_exponent(root_visits: int) -> float:
    """The paper's alpha after so many visits of the root."""
    return PAPER_WIDENING - PAPER_WIDENING_FALL * min(1.0, root_visits / 1000)


def may_widen(tree: Tree, name: str) -> bool:
    """The paper's progressive widening: another child while children <= floor(visits ** alpha)."""
    return tree.width(name) <= math.floor(tree.visits(name) ** widening_exponent(tree.visits(ROOT)))


def paper_score(tree: Tree, parent: str, child: Node) -> float:
    """C sqrt(ln N_parent / n) less the best latency in the subtree, milliseconds: the largest is taken."""
    visits = max(1, tree.visits(child.candidate_id))
    bonus = PAPER_EXPLORATION * math.sqrt(math.log(max(1, tree.visits(parent))) / visits)
    return bonus - tree.eager_ms * math.exp(-(child.best or 0.0))


def _paper_step(tree: Tree, name: str) -> str | None:
    options = tree.options(name)
    if tree.expandable(name) and (not options or may_widen(tree, name)):
        return None
    return max(options, key=lambda child: paper_score(tree, name, child)).candidate_id
