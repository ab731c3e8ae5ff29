"""What kernels written for a card could save beyond the cards inside it: `docs/design/ranking-cards.md`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

HAND_WRITTEN_RATE = 0.25
"""Part of the speed of light that a matrix product written by hand is taken to reach."""
CALL_US = 10.0
"""At most this is taken as what any call of an operator costs, microseconds; the workload's cheapest call may say
less."""
_MOSTLY = 0.5


@dataclass(frozen=True)
class TimedCall:
    """One call of the workload: its time, and its variant's speed of light, both microseconds.

    `parent` is the index of the enclosing call or -1; a parent stands before what it contains. `light_us` is None
    where eager stays. `fastest_us` is the shortest of all calls of the variant, None if only this one is known.
    `is_product` says of an operator that its work is matrix products, by the vendor's library.
    """

    label: str
    us: float
    parent: int
    light_us: float | None = None
    fastest_us: float | None = None
    is_product: bool = False

    @property
    def level(self) -> str:
        """`torch`, `function` or `module`."""
        return self.label.partition(" ")[0]

    @property
    def vendor_us(self) -> float:
        """The part of a product's time that no kernel written by hand makes shorter.

        All of it where the library comes near the speed of light, in the fastest call: a machine that others use
        lengthens the rest.
        """
        if self.light_us is None:
            return self.us
        by_hand_us = self.light_us / HAND_WRITTEN_RATE
        fastest_us = self.us if self.fastest_us is None else min(self.fastest_us, self.us)
        return self.us if fastest_us <= by_hand_us else by_hand_us


@dataclass
class _Node:
    """What is known of a call once its contents are: sums over the operators inside, times in microseconds."""

    operators: int = 0
    """Operators inside that have a card of their own."""
    calls: int = 0
    operators_us: float = 0.0
    vendor_us: float = 0.0
    """The time of matrix products that no kernel written by hand makes shorter."""
    holds_products: bool = False
    operators_saved_us: float = 0.0
    parts_saved_us: float = 0.0
    saved_us: float = 0.0
    is_whole: bool = False
    is_container: bool = False


def headrooms(calls: Sequence[TimedCall], workload_us: float) -> dict[str, float]:
    """Part of the workload's time, by label, that each card could save beyond the cards inside it.

    Added up over cards, no time is counted twice but for calls that two cards have in common (`LayerNorm` and the
    operator that is all it calls).
    """
    calls = _fitted(calls)
    nodes = _nodes(calls)
    claimed = [False] * len(calls)
    saved_us = {call.label: 0.0 for call in calls}
    for index, (call, node) in enumerate(zip(calls, nodes, strict=True)):
        if call.parent >= 0:
            claimed[index] = claimed[call.parent] or nodes[call.parent].is_whole
        if call.light_us is not None and not claimed[index]:
            inside_us = node.parts_saved_us if node.is_container else 0.0
            saved_us[call.label] += max(0.0, node.saved_us - inside_us)
    return {label: min(1.0, us / workload_us) if workload_us > 0 else 0.0 for label, us in saved_us.items()}


def _fitted(calls: Sequence[TimedCall]) -> list[TimedCall]:
    """The calls, none longer than what contains it: operators are timed in other runs, which watching lengthens."""
    fitted: list[TimedCall] = []
    for call in calls:
        limit_us = fitted[call.parent].us if call.parent >= 0 else call.us
        fitted.append(replace(call, us=min(call.us, limit_us)))
    return fitted


def _nodes(calls: Sequence[TimedCall]) -> list[_Node]:
    nodes = [_Node() for _ in calls]
    cheapest = min((call.us for call in calls if call.level == "torch" and call.light_us is not None), default=0.0)
    call_us = min(CALL_US, cheapest)
    # Contents stand after what contains them, so from the end each call's contents are known.
    for call, node in zip(reversed(calls), reversed(nodes), strict=True):
        best_us = _settle(call, node, call_us)
        if call.parent >= 0:
            _add(nodes[call.parent], node, best_us)
    return nodes


def _settle(call: TimedCall, node: _Node, call_us: float) -> float:
    """Fill in what the call could save; returns the most that it, or else its parts, could."""
    if call.level == "torch":
        node.operators, node.operators_us = int(call.light_us is not None), call.us
        if call.is_product:
            node.holds_products = True
            node.vendor_us = call.vendor_us
    several = call.level != "torch" and node.operators > 1
    without_vendor = not node.holds_products or (call.level == "function" and node.vendor_us <= _MOSTLY * call.us)
    node.is_whole = several and without_vendor and call.light_us is not None
    node.is_container = several and not without_vendor
    spent_us = call.us
    if node.is_container:
        # Operators are timed in other runs than what contains them. The difference of two large times is noise,
        # but for what Python needs around each call.
        around_us = max(0.0, call.us - node.operators_us)
        spent_us = node.operators_us + min(around_us, node.calls * call_us)
    node.saved_us = max(0.0, spent_us - max(call.light_us or 0.0, node.vendor_us) - call_us)
    if call.level != "torch" and node.operators == 1:
        node.saved_us = min(node.saved_us, node.operators_saved_us)
    if call.light_us is None and not node.is_container:
        node.saved_us = 0.0
    if call.level == "torch":
        node.operators_saved_us = node.saved_us
    return node.saved_us if node.is_whole else max(node.saved_us, node.parts_saved_us)


def _add(parent: _Node, node: _Node, best_us: float) -> None:
    parent.operators += node.operators
    parent.calls += 1 + node.calls
    parent.operators_us += node.operators_us
    parent.vendor_us += node.vendor_us
    parent.holds_products |= node.holds_products
    parent.operators_saved_us += node.operators_saved_us
    parent.parts_saved_us += best_us
