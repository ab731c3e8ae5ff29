"""Synthetic landscapes of kernel optimisation, with known optima.

A candidate is a design: a family (one block a row, split over blocks, tensor cores, ...) and the set of its
refinements that are in place. A family's log speed-up over eager grows with its refinements from what a first version
reaches to its ceiling. A proposal revises a parent as a language model does: most often it adds a refinement, now and
then it takes one away, moves to another family, or does not compile. Measured values carry noise.

What makes a landscape hard is written in its fields:

- deceptive: the family with the highest ceiling is proposed rarely, starts slower than eager, and stays behind the
  quick win until most of its refinements are together;
- noisy: timings scatter, so that an equal candidate looks like an improvement;
- failing: most proposals do not compile or are wrong;
- rugged: some refinements hurt unless another is there.

Nothing here knows a policy. The landscapes are generated from fixed seeds; those of even index are for tuning, those
of odd index are held out.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

KINDS = ("plain", "deceptive", "noisy", "failing", "rugged")
SCALES_US = (5.0, 50.0, 500.0, 5000.0)
"""Eager times of the operators."""
INSTANCES = 6
"""Landscapes of each kind and scale; half of them are held out."""


@dataclass(frozen=True)
class Family:
    """One approach to an operator. Values are log speed-ups over eager."""

    first: float
    ceiling: float
    refinements: int
    popularity: float
    """Weight with which a proposal takes this approach."""
    synergy: float
    """Exponent of the share of refinements in place: above 1 the gain comes late, below 1 early."""
    needs: dict[int, int] = field(default_factory=dict)
    """A refinement to the one without which it hurts."""

    def value(self, applied: frozenset[int]) -> float:
        """The true log speed-up with these refinements."""
        helpful = [one for one in applied if self.needs.get(one, one) in applied]
        hurting = len(applied) - len(helpful)
        share = max(0.0, (len(helpful) - hurting) / self.refinements)
        return self.first + (self.ceiling - self.first) * share**self.synergy


@dataclass(frozen=True)
class Design:
    """What a candidate is."""

    family: int
    applied: frozenset[int]


@dataclass(frozen=True)
class Landscape:
    """One operator. Times in microseconds."""

    name: str
    kind: str
    eager_us: float
    families: tuple[Family, ...]
    failure: float
    """Probability that a proposal fails."""
    noise: float
    """Standard deviation of a measured log speed-up."""
    forward: float
    """Probability that a revision adds a missing refinement instead of losing one."""
    rewrite: float
    """Probability that a revision takes another approach."""

    @property
    def optimum(self) -> float:
        """The largest log speed-up."""
        return max(family.ceiling for family in self.families)

    def value(self, design: Design) -> float:
        """The true log speed-up of a design."""
        return self.families[design.family].value(design.applied)

    def scaled(self, factor: float) -> Landscape:
        """The same operator with all times multiplied."""
        return replace(self, eager_us=self.eager_us * factor)

    def propose(self, parent: Design | None, dice: random.Random) -> Design | None:
        """A revision of a parent, or a first approach; None if it fails."""
        failed = dice.random() < self.failure
        if parent is None or dice.random() < self.rewrite:
            weights = [family.popularity for family in self.families]
            (family,) = dice.choices(range(len(self.families)), weights)
            applied = frozenset[int]()
        else:
            family = parent.family
            count = self.families[family].refinements
            missing = [one for one in range(count) if one not in parent.applied]
            adds = dice.random() < self.forward
            if adds and missing:
                applied = parent.applied | {dice.choice(missing)}
            elif not adds and parent.applied:
                applied = parent.applied - {dice.choice(sorted(parent.applied))}
            else:
                applied = parent.applied
        return None if failed else Design(family, applied)

    def measure(self, design: Design, dice: random.Random) -> float:
        """The log speed-up that the judge measures; negative for a candidate that is slower than eager."""
        return self.value(design) + dice.gauss(0, self.noise)


def _family(dice: random.Random, ceiling: float) -> Family:
    return Family(
        first=ceiling * dice.uniform(0.2, 0.6),
        ceiling=ceiling,
        refinements=dice.randint(4, 7),
        popularity=dice.uniform(0.5, 1.5),
        synergy=dice.uniform(0.7, 1.3),
    )


def _make(kind: str, scale: float, index: int) -> Landscape:
    dice = random.Random(f"{kind} {scale} {index}")
    optimum = math.log(dice.uniform(2.0, 16.0))
    others = [_family(dice, optimum * dice.uniform(0.3, 0.75)) for _ in range(dice.randint(2, 4))]
    best = _family(dice, optimum)
    failure, noise, forward = 0.25, 0.01, 0.65
    if kind == "deceptive":
        best = replace(
            best,
            first=-dice.uniform(0.1, 0.7),
            refinements=dice.randint(3, 5),
            popularity=dice.uniform(0.5, 1.0),
            synergy=dice.uniform(1.3, 1.8),
        )
        forward = 0.75
    elif kind == "noisy":
        noise = 0.1
    elif kind == "failing":
        failure = 0.6
    elif kind == "rugged":
        best = replace(best, needs=_needs(dice, best.refinements))
        others = [replace(one, needs=_needs(dice, one.refinements)) for one in others]
    families = [*others, best]
    dice.shuffle(families)
    return Landscape(
        name=f"{kind}, {scale:g} us, {index}",
        kind=kind,
        eager_us=scale * dice.uniform(0.7, 1.4),
        families=tuple(families),
        failure=failure,
        noise=noise,
        forward=forward,
        rewrite=0.08,
    )


def _needs(dice: random.Random, count: int) -> dict[int, int]:
    """For a third of the refinements, an earlier one that each needs: there is an order in which all of them help."""
    return {one: dice.randrange(one) for one in dice.sample(range(1, count), max(1, count // 3))}


def landscapes(held_out: bool) -> list[Landscape]:
    """One half of the landscapes."""
    wanted = 1 if held_out else 0
    return [
        _make(kind, scale, index)
        for kind in KINDS
        for scale in SCALES_US
        for index in range(INSTANCES)
        if index % 2 == wanted
    ]


@dataclass(frozen=True)
class Workload:
    """Several operators of one model; each landscape's eager time is the time of all its calls in one run."""

    name: str
    cards: tuple[Landscape, ...]

    @property
    def eager_us(self) -> float:
        """The time of one run of all cards."""
        return sum(card.eager_us for card in self.cards)


def workloads(held_out: bool) -> list[Workload]:
    """Workloads of eight cards whose shares fall geometrically, in no order of difficulty."""
    made: list[Workload] = []
    for index in range(INSTANCES):
        if index % 2 != (1 if held_out else 0):
            continue
        dice = random.Random(f"workload {index}")
        shares = [0.55**place for place in range(8)]
        dice.shuffle(shares)
        cards = []
        for place, share in enumerate(shares):
            made_card = _make(dice.choice(KINDS), 500.0, 100 + 10 * index + place)
            cards.append(replace(made_card, eager_us=10_000.0 * share))
        made.append(Workload(f"workload {index}", tuple(cards)))
    return made
