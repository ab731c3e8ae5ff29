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
    keys: dict[str, list[tuple[str, int]]] = {}
    for index, (label, key, _) in enumerate(calls):
        keys.setdefault(label, []).append((key, index))
    places: dict[str, list[int]] = {label: [] for label in [*labels, *keys]}
    for index, label in enumerate(labels):
        places[label].append(index)
    each_us = [median(column) for column in zip(*timing["durations"], strict=True)]
    wall_us = median(timing["observed_us"])
    cards = {}
    seen = [0.0] * len(labels)
    for label, indexes in places.items():
        outer = [index for index in indexes if index in outermost]
        card = cards[label] = _card_times(timing, len(indexes), outer)
        spread_us = sum(each_us[index] for index in outer)
        for index in indexes:
            seen[index] = card.share * each_us[index] / spread_us if spread_us else 0.0
        mean_us = card.eager_us / len(outer) if outer else 0.0
        _time_variants(card, timing, keys.get(label, []), None if aligned else mean_us)
    shares = _fitted(parents, seen)
    own_shares = _own_shares(labels, parents, shares)
    for label, card in cards.items():
        outer = [index for index in places[label] if index in outermost]
        card.share = min(1.0, sum(shares[index] for index in outer))
        card.own_share = min(card.share, sum(own_shares[index] for index in places[label]))
        before = sum(seen[index] for index in outer)
        card.eager_us *= card.share / before if before else 1.0
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


def _card_times(timing: dict[str, Any], calls: int, outer: list[int]) -> CardTimes:
    """The median time, and share of the runs, of a card whose calls in no other call of it are `outer`."""
    totals = [sum(run[index] for index in outer) for run in timing["durations"]]
    share = median(total / wall for total, wall in zip(totals, timing["observed_us"], strict=True))
    return CardTimes(calls=calls, eager_us=median(totals), share=share)


def _time_variants(card: CardTimes, timing: dict[str, Any], keys: list[tuple[str, int]], mean_us: float | None) -> None:
    """Give the variants their times: those of their own calls, or `mean_us` where these are not known."""
    runs = timing["durations"]
    for key in dict.fromkeys(key for key, _ in keys if key):
        own = [index for other, index in keys if other == key]
        card.variant_calls[key] = len(own)
        if mean_us is None:
            card.variant_us[key] = median(median(run[index] for run in runs) for index in own)
            card.variant_fastest_us[key] = min(run[index] for run in runs for index in own)
        else:
            card.variant_us[key] = card.variant_fastest_us[key] = mean_us


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
