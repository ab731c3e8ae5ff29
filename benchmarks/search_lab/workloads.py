"""Which card of a workload gets the next iteration: the product's allocation, equal budgets, and budgets by share."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.search_lab.landscapes import Landscape, Workload
from benchmarks.search_lab.policies import Policy, Run
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search.allocation import priority

SPEED_OF_LIGHT = 0.7
"""The share of the speed of light that the best design of a landscape reaches: what the allocation is told is the
device's limit, not the optimum."""


@dataclass
class Search:
    """One card's search within a workload."""

    run: Run
    card: OperatorCard
    best: float = 0.0
    """Largest measured value."""
    true: float = 0.0
    """What the candidate that measures best really has."""
    visits: int = 0

    def step(self, policy: Policy) -> None:
        """One iteration."""
        made = self.run.expand(policy(self.run))
        self.visits += 1
        if made.measured is not None and made.measured > self.best:
            self.best, self.true = made.measured, made.true


Allocation = Callable[[Sequence[Search], float], int]
"""The place of the card that is next, from all searches and the workload's time in microseconds."""


def by_remaining_gain(searches: Sequence[Search], workload_us: float) -> int:
    """As the product does."""

    def worth(place: int) -> tuple[float, ...]:
        one = searches[place]
        return priority(one.card, one.best, workload_us, one.visits)

    return max(range(len(searches)), key=worth)


def equally(searches: Sequence[Search], workload_us: float) -> int:
    """In turn."""
    return min(range(len(searches)), key=lambda place: searches[place].visits)


def by_share(searches: Sequence[Search], workload_us: float) -> int:
    """In proportion to the cards' times."""
    return min(range(len(searches)), key=lambda place: (searches[place].visits + 1) / searches[place].card.eager_us)


def spend(workload: Workload, allocation: Allocation, policy: Policy, iterations: int, seed: int) -> list[float]:
    """The share of the workload's time that is saved after each iteration."""
    searches = [
        Search(Run(one, random.Random(f"{one.name} {seed}")), _card(one, workload.eager_us, place))
        for place, one in enumerate(workload.cards)
    ]
    curve: list[float] = []
    for _ in range(iterations):
        searches[allocation(searches, workload.eager_us)].step(policy)
        saved = sum(one.card.eager_us * (1 - math.exp(-one.true)) for one in searches)
        curve.append(saved / workload.eager_us)
    return curve


def _card(landscape: Landscape, workload_us: float, place: int) -> OperatorCard:
    floor_us = SPEED_OF_LIGHT * landscape.eager_us * math.exp(-landscape.optimum)
    return OperatorCard(
        card_id=f"card_{place}",
        project_id="proj_lab",
        level="module",
        name=landscape.name,
        qualified_name="lab:Operator",
        eligible=True,
        calls=1,
        eager_us=landscape.eager_us,
        share=landscape.eager_us / workload_us,
        gain_ceiling=workload_us / (workload_us - landscape.eager_us + floor_us),
        worth_it=True,
        variants=[],
    )
