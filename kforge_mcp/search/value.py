"""What a measured candidate is worth to its card, on a scale where operators of all sizes are alike."""

from __future__ import annotations

import math

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import StageResult


def candidate_value(card: OperatorCard, benchmarked: StageResult) -> float:
    """ln(sum(calls * t_eager) / sum(calls * min(t_eager, t_candidate))) at the lower end of each interval.

    Falling back to eager is free, so a variant that is slower or unclaimed counts as eager and the value is never
    negative. A candidate that only calls library operators, and any on a card with a weak oracle, is worth nothing.
    """
    return _log_gain(card, benchmarked, fall_back=True)


def candidate_gain(card: OperatorCard, benchmarked: StageResult) -> float:
    """As `candidate_value`, with what a variant loses: negative for a candidate that is slower than eager.

    The value says what a candidate is worth to a user, this how far a revision of it has to go.
    """
    return _log_gain(card, benchmarked, fall_back=False)


def _log_gain(card: OperatorCard, benchmarked: StageResult, *, fall_back: bool) -> float:
    if benchmarked.status != "ok" or card.weak_oracle or benchmarked.own_kernel_share == 0:
        return 0.0
    verdicts = {verdict.variant_id: verdict for verdict in benchmarked.variants}
    eager_us = best_us = 0.0
    for variant in card.variants:
        verdict = verdicts.get(variant.variant_id)
        measured = verdict.eager_us if verdict is not None and verdict.eager_us else variant.eager_us
        gain = verdict.ci_low if verdict is not None and verdict.claimed and verdict.ci_low else 1.0
        eager_us += variant.calls * measured
        best_us += variant.calls * measured / (max(1.0, gain) if fall_back else gain)
    return math.log(eager_us / best_us) if best_us > 0 else 0.0


def card_us(card: OperatorCard, value: float) -> float:
    """Microseconds that the card's calls take in one run of the workload with a candidate of this value."""
    return card.eager_us * math.exp(-value)


def floor_us(card: OperatorCard, workload_us: float) -> float:
    """Least microseconds that the card's calls could take: the speed of light of its variants where measured.

    Without it the card's `gain_ceiling` g tells: W / (W - saved) = g.
    """
    if card.variants and all(variant.speed_of_light_us > 0 for variant in card.variants):
        total = sum(variant.calls * variant.speed_of_light_us for variant in card.variants)
    else:
        total = card.eager_us - workload_us * (1 - 1 / max(1.0, card.gain_ceiling))
    return min(max(total, 0.0), card.eager_us)
