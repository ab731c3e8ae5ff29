"""UCT with progressive widening over a tree of candidates. Pure: values in, a choice out.

The root is eager (`ROOT`, value 0). A lease is a virtual loss: a visit without reward on its node and all ancestors,
until it is used, expires or is given back.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

ROOT = ""
PolicyName = Literal["uct", "paper"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a tree is climbed. Widening exponents follow Kernel Forge (arXiv 2607.24762)."""

    exploration: float = 1.0
    """C: weight of the bonus for what was visited rarely."""
    widening: float = 0.5
    """alpha: another child while children <= floor(visits ** alpha)."""
    head_start: int = 1
    """Children that are allowed beyond floor(visits ** alpha) - 1."""
    widening_fall: float = 0.2
    """How much alpha falls over the first 1000 visits of the root."""
    absolute: bool = False
    """Score by latency in milliseconds, as the paper does, instead of by value relative to the tree's best."""


UCT = Settings()
PAPER = Settings(absolute=True)
SETTINGS: dict[PolicyName, Settings] = {"uct": UCT, "paper": PAPER}


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate as the search sees it. `visits` counts completed visits in its subtree, its own included."""

    candidate_id: str
    parent_id: str
    value: float | None
    """None until measured; failures stay None."""
    visits: int


@dataclass(frozen=True, slots=True)
class Pending:
    """An active lease on `parent_id`; `fresh` until the first candidate came of it, which then is the child."""

    parent_id: str
    fresh: bool = True


def widening_exponent(root_visits: int, settings: Settings = UCT) -> float:
    """alpha after so many visits of the root."""
    return settings.widening - settings.widening_fall * min(1.0, root_visits / 1000)


class Tree:
    """The nodes of one card with what selection needs: children, visits with virtual ones, best value below."""

    def __init__(self, nodes: Iterable[Node], pending: Iterable[Pending] = (), *, eager_ms: float = 1.0) -> None:
        self.eager_ms = eager_ms
        self.nodes = {node.candidate_id: node for node in nodes}
        self.children: dict[str, list[str]] = defaultdict(list)
        for node in self.nodes.values():
            self.children[self._parent(node)].append(node.candidate_id)
        self._virtual: dict[str, int] = defaultdict(int)
        self._fresh: dict[str, int] = defaultdict(int)
        self.best: dict[str, float] = {}
        self._reachable: set[str] = set()
        self._summarise()
        for lease in pending:
            self.lease(lease)

    def _parent(self, node: Node) -> str:
        return node.parent_id if node.parent_id in self.nodes else ROOT

    def _summarise(self) -> None:
        order = [ROOT]
        for current in order:
            order.extend(self.children.get(current, ()))
        for current in reversed(order):
            below = self.children.get(current, ())
            own = self.nodes[current].value if current != ROOT else 0.0
            self.best[current] = max([own or 0.0, *(self.best[child] for child in below)])
            if own is not None or any(child in self._reachable for child in below):
                self._reachable.add(current)

    def lease(self, pending: Pending) -> None:
        """Add a virtual loss on a node and all its ancestors."""
        node = pending.parent_id if pending.parent_id in self.nodes else ROOT
        self._fresh[node] += pending.fresh
        while node != ROOT:
            self._virtual[node] += 1
            node = self._parent(self.nodes[node])
        self._virtual[ROOT] += 1

    def visits(self, node: str) -> int:
        """Completed visits of the subtree plus the virtual ones of its leases."""
        return self.completed(node) + self._virtual[node]

    def completed(self, node: str) -> int:
        """Completed visits of the subtree."""
        if node == ROOT:
            return sum(self.nodes[child].visits for child in self.children.get(ROOT, ()))
        return self.nodes[node].visits

    def width(self, node: str) -> int:
        """Children, and leases that will become one."""
        return len(self.children.get(node, ())) + self._fresh[node]

    def expandable(self, node: str) -> bool:
        """Whether a candidate can be revised: eager and whatever was measured."""
        return node == ROOT or self.nodes[node].value is not None

    def options(self, node: str) -> list[str]:
        """Children below which something can be expanded."""
        return [child for child in self.children.get(node, ()) if child in self._reachable]

    def may_widen(self, node: str, settings: Settings = UCT) -> bool:
        """Progressive widening: another child while children <= floor(visits ** alpha)."""
        alpha = widening_exponent(self.visits(ROOT), settings)
        return self.width(node) < settings.head_start + math.floor(self.visits(node) ** alpha)

    def lineage(self, node: str) -> list[str]:
        """The node and its ancestors, oldest first, without the root."""
        path: list[str] = []
        while node != ROOT:
            path.append(node)
            node = self._parent(self.nodes[node])
        return path[::-1]


def score(tree: Tree, parent: str, child: str, settings: Settings = UCT) -> float:
    """How much `child` deserves the next visit; the largest is taken.

    Best value in the subtree over the tree's best, plus C sqrt(ln N_parent / n); with `absolute` the best latency in
    milliseconds, to be minimised there, hence negated here.
    """
    n = max(1, tree.visits(child))
    bonus = settings.exploration * math.sqrt(math.log(max(1, tree.visits(parent))) / n)
    if settings.absolute:
        return bonus - tree.eager_ms * math.exp(-tree.best[child])
    top = tree.best[ROOT]
    return (tree.best[child] / top if top > 0 else 0.0) + bonus


def select(tree: Tree, settings: Settings = UCT) -> str:
    """The node to revise next: an id, or `ROOT` for a first approach to the operator."""
    node = ROOT
    while True:
        options = tree.options(node)
        if tree.expandable(node) and (not options or tree.may_widen(node, settings)):
            return node
        parent = node
        node = max(options, key=lambda child: score(tree, parent, child, settings))
