"""The two passes brought together: how long the calls of each card and of each variant took."""

from __future__ import annotations

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
    """The median time of each call in order, scaled as shares are; empty if not aligned."""


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
    own_us, scale = _own_times(labels, parents, each_us, wall_us)
    places: dict[str, list[int]] = {}
    for index, label in enumerate(labels):
        places.setdefault(label, []).append(index)
    keys: dict[str, list[tuple[str, int]]] = {}
    for index, (label, key, _) in enumerate(calls):
        keys.setdefault(label, []).append((key, index))
    cards = {}
    for label in dict.fromkeys([*places, *keys]):
        indexes = places.get(label, [])
        outer = [index for index in indexes if index in outermost]
        totals = [sum(run[index] for index in outer) for run in runs]
        factor = scale.get(level_of(label), 1.0)
        card = CardTimes(
            calls=len(indexes),
            eager_us=median(totals),
            share=min(1.0, factor * median(total / wall for total, wall in zip(totals, walls, strict=True))),
        )
        card.own_share = min(card.share, factor * sum(own_us[index] for index in indexes) / wall_us)
        cards[label] = card
        mean_us = card.eager_us / len(outer) if outer else 0.0
        for key in dict.fromkeys(key for key, _ in keys.get(label, []) if key):
            own = [index for other, index in keys[label] if other == key]
            card.variant_calls[key] = len(own)
            card.variant_us[key] = median(each_us[index] for index in own) if aligned else mean_us
            card.variant_fastest_us[key] = min(fastest_us[index] for index in own) if aligned else mean_us
            counted = [index for index in own if not aligned or index in outermost]
            spent = sum(each_us[index] for index in counted) if aligned else mean_us * len(counted)
            card.variant_share[key] = factor * spent / wall_us
        # Medians of calls may add up to more than the median of the runs.
        excess = max(1.0, sum(card.variant_share.values()) / card.share if card.share else 1.0)
        card.variant_share = {key: share / excess for key, share in card.variant_share.items()}
    workload_us = median(timing["plain_us"])
    if "busy_us" in timing:
        busy = median(timing["busy_us"]) / workload_us
    else:
        busy = sum(card.own_share for label, card in cards.items() if level_of(label) == "torch")
    scaled = [scale.get(level_of(label), 1.0) * us for label, us in zip(labels, each_us, strict=True)]
    return WorkloadTimes(
        workload_us=workload_us,
        aligned=aligned,
        cards=cards,
        idle_share=max(0.0, 1.0 - busy),
        observed_us=wall_us,
        call_us=scaled if aligned else [],
    )


def level_of(label: str) -> str:
    """`torch`, `function` or `module`: how a label begins."""
    return label.partition(" ")[0]


def _own_times(
    labels: list[str], parents: list[int], each_us: list[float], wall_us: float
) -> tuple[list[float], dict[str, float]]:
    """Each call's time without calls of its level inside it, and per level what makes these fit into the run.

    Operators are timed in other runs than the rest, so a disturbed run may make them seem longer than the whole.
    """
    own = list(each_us)
    for index, label in enumerate(labels):
        above = parents[index]
        while above >= 0 and level_of(labels[above]) != level_of(label):
            above = parents[above]
        if above >= 0:
            own[above] -= each_us[index]
    own = [max(0.0, value) for value in own]
    totals: dict[str, float] = {}
    for label, value in zip(labels, own, strict=True):
        totals[level_of(label)] = totals.get(level_of(label), 0.0) + value
    return own, {level: wall_us / total for level, total in totals.items() if total > wall_us}


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


def gain_ceiling(parts: list[tuple[float, float, float]]) -> float:
    """The largest factor by which a workload gets faster from one card alone: Amdahl's law at the speed of light.

    `parts` holds `(share, speed_of_light_us, eager_us)` of each variant; a part below its speed of light counts 0.
    """
    saved = sum(share * max(0.0, 1.0 - light / eager) for share, light, eager in parts if eager > 0)
    return 1.0 / max(1e-3, 1.0 - saved)
