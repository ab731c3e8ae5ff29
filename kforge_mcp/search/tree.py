"""The tree of a card's candidates as its search sees it: visits, what is best below each node, and how fast that grows.

Pure: values in, values out; `policy.py` chooses. The root is eager (`ROOT`, value 0). A lease is a virtual loss: a
visit without reward on its node and all ancestors, until it is used, expires or is given back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

ROOT = ""
PACE_MEMORY = 0.5
"""Weight of the latest visit in a node's pace."""


@dataclass(frozen=True, slots=True)
class Node:
    """A candidate, with what is known of the subtree below it."""

    candidate_id: str
    parent_id: str
    value: float | None
    """ln of its speed-up over eager, negative if it is slower. None until measured; failures stay None."""
    visits: int
    """Completed visits in its subtree, its own included."""
    best: float | None = None
    """The largest value in its subtree; None if nothing there was measured."""
    pace: float = 0.0
    """By how much `best` lately grew per visit."""

    @property
    def failed(self) -> bool:
        """Whether it was judged and nothing in its subtree could be measured."""
        return self.best is None and self.visits > 0


def after_visit(node: Node, value: float | None) -> Node:
    """An ancestor after a visit below it that measured `value`, or nothing.

    The pace is the mean growth per visit while there are few, then an exponential average: a rising bandit's estimate
    from its recent rewards (Heidari, Kearns, Roth, IJCAI 2016; Metelli et al., ICML 2022).
    """
    visits = node.visits + 1
    growth = max(0.0, value - node.best) if value is not None and node.best is not None else 0.0
    best = node.best if value is None else value if node.best is None else max(node.best, value)
    weight = max(PACE_MEMORY, 1.0 / visits)
    return replace(node, visits=visits, best=best, pace=node.pace + weight * (growth - node.pace))


@dataclass(frozen=True, slots=True)
class Pending:
    """An active lease on `parent_id`; `fresh` until the first candidate came of it, which then is the child."""

    parent_id: str
    fresh: bool = True


class Tree:
    """The nodes of one card with what selection needs; `best` of those given is brought up to date by their values."""

    def __init__(self, nodes: Iterable[Node] = (), pending: Iterable[Pending] = (), *, eager_ms: float = 1.0) -> None:
        self.eager_ms = eager_ms
        self.nodes: dict[str, Node] = {}
        self._children: dict[str, list[str]] = defaultdict(list)
        self._virtual: dict[str, int] = defaultdict(int)
        self._fresh: dict[str, int] = defaultdict(int)
        for node in nodes:
            self.nodes[node.candidate_id] = node
        for node in self.nodes.values():
            self._children[self.parent(node)].append(node.candidate_id)
        self._summarise()
        for lease in pending:
            self.lease(lease)

    def _summarise(self) -> None:
        order = [ROOT]
        for current in order:
            order.extend(self._children.get(current, ()))
        for name in reversed(order[1:]):
            node = self.nodes[name]
            found = [node.value, node.best, *(child.best for child in self.children(name))]
            best = max((value for value in found if value is not None), default=None)
            if best != node.best:
                self.nodes[name] = replace(node, best=best)

    def parent(self, node: Node) -> str:
        """The node's parent; the root for one whose parent is not there."""
        return node.parent_id if node.parent_id in self.nodes else ROOT

    def children(self, name: str) -> list[Node]:
        """A node's children, oldest first."""
        return [self.nodes[child] for child in self._children.get(name, ())]

    def complete(self, node: Node) -> None:
        """Add a candidate that was judged, and its visit to all ancestors."""
        self.nodes[node.candidate_id] = replace(node, best=node.value, visits=1)
        name = self.parent(node)
        self._children[name].append(node.candidate_id)
        while name != ROOT:
            self.nodes[name] = after_visit(self.nodes[name], node.value)
            name = self.parent(self.nodes[name])

    def lease(self, pending: Pending) -> None:
        """Add a virtual loss on a node and all its ancestors."""
        name = pending.parent_id if pending.parent_id in self.nodes else ROOT
        self._fresh[name] += pending.fresh
        while name != ROOT:
            self._virtual[name] += 1
            name = self.parent(self.nodes[name])
        self._virtual[ROOT] += 1

    def visits(self, name: str) -> int:
        """Completed visits of the subtree plus the virtual ones of its leases."""
        return self.completed(name) + self._virtual[name]

    def completed(self, name: str) -> int:
        """Completed visits of the subtree."""
        if name == ROOT:
            return sum(child.visits for child in self.children(ROOT))
        return self.nodes[name].visits

    def best(self, name: str) -> float:
        """The largest value in the subtree, and 0 (eager) at least at the root and where nothing was measured."""
        if name == ROOT:
            return max([0.0, *(child.best or 0.0 for child in self.children(ROOT))])
        return self.nodes[name].best or 0.0

    def fresh(self, name: str) -> int:
        """Leases on a node that will become a child of it."""
        return self._fresh[name]

    def width(self, name: str) -> int:
        """Children, and leases that will become one."""
        return len(self.children(name)) + self._fresh[name]

    def expandable(self, name: str) -> bool:
        """Whether a candidate can be revised: eager and whatever was measured."""
        return name == ROOT or self.nodes[name].value is not None

    def options(self, name: str) -> list[Node]:
        """Children below which something can be expanded."""
        return [child for child in self.children(name) if child.best is not None]

    def lineage(self, name: str) -> list[str]:
        """The node and its ancestors, oldest first, without the root."""
        path: list[str] = []
        while name != ROOT:
            path.append(name)
            name = self.parent(self.nodes[name])
        return path[::-1]
