"""Policies that climb a landscape: ours, the paper's, and what people do by hand or with other searches."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.search_lab.landscapes import Design, Landscape
from kforge_mcp.search.policy import PolicyName, select, widening_exponent
from kforge_mcp.search.tree import ROOT, Node, Tree


@dataclass
class Attempt:
    """A candidate of one run. `design` is None if it failed; `measured` is what the judge said."""

    parent: int
    """Place of its parent among the attempts, -1 for eager."""
    design: Design | None
    measured: float | None
    true: float
    """The value that it really has; 0 if it failed."""


@dataclass
class Run:
    """One search of one landscape."""

    landscape: Landscape
    dice: random.Random
    attempts: list[Attempt] = field(default_factory=list)
    tree: Tree = field(init=False)
    """The attempts as the product's tree."""

    def __post_init__(self) -> None:
        self.tree = Tree(eager_ms=self.landscape.eager_us / 1000)

    def expand(self, parent: int) -> Attempt:
        """Propose a revision of an attempt, or of eager (-1), and judge it."""
        origin = self.attempts[parent].design if parent >= 0 else None
        design = self.landscape.propose(origin, self.dice)
        measured = None if design is None else self.landscape.measure(design, self.dice)
        true = 0.0 if design is None else max(0.0, self.landscape.value(design))
        attempt = Attempt(parent, design, measured, true)
        self.tree.complete(Node(str(len(self.attempts)), ROOT if parent < 0 else str(parent), measured, 1))
        self.attempts.append(attempt)
        return attempt

    def measured(self) -> list[int]:
        """Attempts that can be revised."""
        return [place for place, one in enumerate(self.attempts) if one.measured is not None]

    def ranked(self) -> list[int]:
        """Attempts that can be revised, the best first, of equal ones the youngest."""
        return sorted(self.measured(), key=lambda place: (self.attempts[place].measured or 0.0, place), reverse=True)


Policy = Callable[[Run], int]
"""Which attempt to revise next; -1 for a first approach."""


def product(policy: PolicyName) -> Policy:
    """The product's own selection."""

    def choose(run: Run) -> int:
        node = select(run.tree, policy)
        return -1 if node == ROOT else int(node)

    return choose


def plain_uct(exploration: float) -> Policy:
    """The paper's search with values relative to the tree's best instead of milliseconds: UCT as it is usually done."""

    def choose(run: Run) -> int:
        tree, name = run.tree, ROOT
        alpha, top = widening_exponent(tree.visits(ROOT)), tree.best(ROOT) or 1.0
        while options := tree.options(name):
            visits = tree.visits(name)
            if tree.expandable(name) and tree.width(name) <= math.floor(visits**alpha):
                break
            bonus = exploration * math.sqrt(math.log(max(1, visits)))
            scores = [(one.best or 0.0) / top + bonus / math.sqrt(one.visits) for one in options]
            name = options[scores.index(max(scores))].candidate_id
        return -1 if name == ROOT else int(name)

    return choose


def greedy(run: Run) -> int:
    """Always the best so far."""
    ranked = run.ranked()
    return ranked[0] if ranked and (run.attempts[ranked[0]].measured or 0.0) > 0 else -1


def beam(width: int) -> Policy:
    """The best few in turn, after as many first approaches."""

    def choose(run: Run) -> int:
        ranked = run.ranked()[:width]
        if len(run.attempts) < width or not ranked:
            return -1
        return ranked[len(run.attempts) % len(ranked)]

    return choose


def uniform(run: Run) -> int:
    """Any attempt that can be revised, or eager, all equally likely."""
    return run.dice.choice([-1, *run.measured()])


def map_elites(run: Run) -> int:
    """A random elite of an archive with a cell for each approach and number of refinements; now and then eager."""
    elites: dict[tuple[int, int], int] = {}
    for place in run.measured():
        design = run.attempts[place].design
        assert design is not None
        cell = (design.family, len(design.applied))
        held = elites.get(cell)
        if held is None or (run.attempts[place].measured or 0.0) > (run.attempts[held].measured or 0.0):
            elites[cell] = place
    if not elites or run.dice.random() < 0.1:
        return -1
    return run.dice.choice(list(elites.values()))


def climb(landscape: Landscape, policy: Policy, iterations: int, seed: int) -> list[float]:
    """True value of the candidate that measures best after each iteration: what a user would ship."""
    run = Run(landscape, random.Random(f"{landscape.name} {seed}"))
    curve: list[float] = []
    best_measured, best_true = 0.0, 0.0
    for _ in range(iterations):
        made = run.expand(policy(run))
        if made.measured is not None and made.measured > best_measured:
            best_measured, best_true = made.measured, made.true
        curve.append(best_true)
    return curve
