"""The two passes brought together: how long the calls of each card and of each variant took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass
class CardTimes:
    """Times of one card. `eager_us` and `share` count a call inside another call of the same card once.

    `own_share` is the share without what calls of other cards of the same level inside take: these add up to at
    most 1 on each level.
    """

    calls: int
    eager_us: float
    share: float
    own_share: float = 0.0
    variant_us: dict[str, float] = field(default_factory=dict)
    """Median time of one call, by variant key, microseconds."""
    variant_fastest_us: dict[str, float] = field(default_factory=dict)
    """The shortest of all its calls in all runs: others on the machine lengthen a call, nothing shortens it."""
    variant_calls: dict[str, int] = field(default_factory=dict)
    variant_share: dict[str, float] = field(default_factory=dict)


@dataclass
class WorkloadTimes:
    """Times of a workload; `workload_us` is the median plain run. `aligned` is False if the passes saw other calls.

    `idle_share` is the part of the time outside of torch operators, in Python and in waiting for it; of a GPU the
    part in which it does nothing.
    """

    workload_us: float
    aligned: bool
    cards: dict[str, CardTimes]
    idle_share: float = 0.0
    observed_us: float = 0.0
    """The median of the runs in which calls were timed."""
    call_us: list[float] = field(default_factory=list)
    """The time of each call in order, no call shorter than what it contains; empty if not aligned."""


def merge_times(timing: dict[str, Any], calls: list[list[Any]]) -> WorkloadTimes:
    """Assign the timing pass's durations to the variants of the sampling pass's `calls`.

    Both passes run the same program, so their calls pair up in order. Where they do not, a variant gets the mean
    of its card.
    """
    labels = [timing["labels"][label] for label, _ in timing["calls"]]
    parents = [parent for _, parent in timing["calls"]]
    aligned = labels == [label for label, _, _ in calls]
    outermost = _outermost(labels, parents)
    runs, walls = timing["durations"], timing["observed_us"]
    each_us = [median(column) for column in zip(*runs, strict=True)]
    fastest_us = [min(column) for column in zip(*runs, strict=True)]
    wall_us = median(walls)
    places: dict[str, list[int]] = {}
    for index, label in enumerate(labels):
        places.setdefault(label, []).append(index)
    keys: dict[str, list[tuple[str, int]]] = {}
    for index, (label, key, _) in enumerate(calls):
        keys.setdefault(label, []).append((key, index))
    cards = {}
    seen = [0.0] * len(labels)
    for label in dict.fromkeys([*places, *keys]):
        indexes = places.get(label, [])
        outer = [index for index in indexes if index in outermost]
        totals = [sum(run[index] for index in outer) for run in runs]
        card = cards[label] = CardTimes(calls=len(indexes), eager_us=median(totals), share=0.0)
        share = median(total / wall for total, wall in zip(totals, walls, strict=True))
        spread_us = sum(each_us[index] for index in outer)
        for index in indexes:
            seen[index] = share * each_us[index] / spread_us if spread_us else 0.0
        mean_us = card.eager_us / len(outer) if outer else 0.0
        for key in dict.fromkeys(key for key, _ in keys.get(label, []) if key):
            own = [index for other, index in keys[label] if other == key]
            card.variant_calls[key] = len(own)
            card.variant_us[key] = median(each_us[index] for index in own) if aligned else mean_us
            card.variant_fastest_us[key] = min(fastest_us[index] for index in own) if aligned else mean_us
    shares = _fitted(parents, seen)
    own_shares = _own_shares(labels, parents, shares)
    for label, card in cards.items():
        indexes = places.get(label, [])
        card.share = sum(shares[index] for index in indexes if index in outermost)
        card.own_share = sum(own_shares[index] for index in indexes)
        for key in card.variant_calls:
            own = [index for other, index in keys[label] if other == key]
            if aligned:
                card.variant_share[key] = sum(shares[index] for index in own if index in outermost)
            else:
                card.variant_share[key] = card.share * len(own) / len(keys[label])
    workload_us = median(timing["plain_us"])
    if "busy_us" in timing:
        busy = median(timing["busy_us"]) / workload_us
    else:
        busy = sum(card.own_share for label, card in cards.items() if level_of(label) == "torch")
    return WorkloadTimes(
        workload_us=workload_us,
        aligned=aligned,
        cards=cards,
        idle_share=max(0.0, 1.0 - busy),
        observed_us=wall_us,
        call_us=[share * wall_us for share in shares] if aligned else [],
    )


def level_of(label: str) -> str:
    """`torch`, `function` or `module`: how a label begins."""
    return label.partition(" ")[0]


def _fitted(parents: list[int], shares: list[float]) -> list[float]:
    """The shares of calls such that those directly inside a call take no more than it, and all together at most 1.

    Operators are timed in other runs than what contains them, and a disturbed run makes them seem longer than that.
    """
    inside: dict[int, float] = {}
    for parent, share in zip(parents, shares, strict=True):
        inside[parent] = inside.get(parent, 0.0) + share
    factor = {-1: 1.0 / max(1.0, inside.get(-1, 0.0))}
    for index, parent in enumerate(parents):
        # A parent stands before what it contains.
        factor[index] = factor[parent] * min(1.0, shares[index] / inside[index]) if inside.get(index) else 1.0
    return [factor[parent] * share for parent, share in zip(parents, shares, strict=True)]


def _own_shares(labels: list[str], parents: list[int], shares: list[float]) -> list[float]:
    """Each call's share without that of calls of its level inside it."""
    own = list(shares)
    for index, label in enumerate(labels):
        above = parents[index]
        while above >= 0 and level_of(labels[above]) != level_of(label):
            above = parents[above]
        if above >= 0:
            own[above] -= shares[index]
    return [max(0.0, value) for value in own]


def _outermost(labels: list[str], parents: list[int]) -> set[int]:
    """The calls that are not inside another call of the same card."""
    found = set()
    above: list[frozenset[str]] = []
    for index, (label, parent) in enumerate(zip(labels, parents, strict=True)):
        enclosing = above[parent] | {labels[parent]} if parent >= 0 else frozenset()
        above.append(enclosing)
        if label not in enclosing:
            found.add(index)
    return found


def gain_ceiling(saved: float) -> float:
    """The largest factor by which a workload gets faster from one card alone, which saves this share: Amdahl's law."""
    return 1.0 / max(1e-3, 1.0 - saved)


def saved_share(share: float, light_us: float, eager_us: float) -> float:
    """The part of `share` that ends at the speed of light; 0 where eager seems faster than that."""
    return share * max(0.0, 1.0 - light_us / eager_us) if eager_us > 0 else 0.0


def savings(calls: Sequence[tuple[str, float | None, int]]) -> dict[str, float]:
    """What each card could save, by label: the sum over its calls that are in no other call of the card.

    `calls` are `(label, saved, index of the enclosing call or -1)`, a parent before what it contains; `saved` is None
    where eager stays. A call saves no less than any one card inside it does: a kernel for the whole can do what one
    for the part does, even where the speed of light was measured as less than that.
    """
    inside: list[dict[str, float]] = [{} for _ in calls]
    whole: dict[str, float] = {}
    for index in reversed(range(len(calls))):
        label, saved, parent = calls[index]
        sums, inside[index] = inside[index], {}
        if saved is not None:
            sums[label] = max(saved, *sums.values()) if sums else saved
        above = whole if parent < 0 else inside[parent]
        for name, value in sums.items():
            above[name] = above.get(name, 0.0) + value
    return whole
