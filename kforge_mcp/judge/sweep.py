"""Which configuration of a candidate's tunables to judge: successive halving on quick timings.

The winner is judged fully afterwards, on fresh inputs: a lucky timing buys a place in the judgement, no verdict.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.judge.request import Subject
from kforge_mcp.judge.session import Evaluators

_FIRST_PAIRS = 4
_LEAST_PAIRS = 8
"""The last round has at least this many pairs: 4 alone would choose by noise."""


@dataclass(frozen=True)
class Swept:
    """Configurations from best to worst, those that failed a quick check last, with what they failed."""

    ranking: list[Subject]
    failures: dict[int, dict[str, str]]
    """Findings by position in the given order."""
    notes: list[str]


def sweep(evaluators: Evaluators, subjects: Sequence[Subject], progress: Callable[[str, float], None]) -> Swept:
    """Rank configurations by time, with a check of every timed output."""
    failures: dict[int, dict[str, str]] = {}
    alive = list(range(len(subjects)))
    eliminated: list[int] = []
    pairs, done = _FIRST_PAIRS, 0
    while len(alive) > 1:
        if len(alive) <= 2:
            pairs = max(pairs, _LEAST_PAIRS)
        scores: dict[int, float] = {}
        for index in alive:
            done += 1
            progress(f"tunables: {len(alive)} of {len(subjects)} configurations left", done / (2 * len(subjects)))
            schedule = {"pairs": pairs, "first_stage": pairs, "warm_up": 1, "null": False}
            answer = evaluators.evaluate(subjects[index], mode="quick", schedule=schedule)
            if isinstance(answer, Rejected):
                failures[index] = {"reason": answer.reason, "message": answer.message}
            elif answer["finding"]:
                failures[index] = answer["finding"]
            else:
                scores[index] = score(subjects[index], answer["variants"])
        order = sorted(scores, key=lambda index: scores[index], reverse=True)
        keep = max(1, len(order) // 2)
        eliminated = [*order[keep:], *eliminated]
        alive = order[:keep]
        pairs *= 2
    ranking = [*alive, *eliminated]
    notes = [f"{len(failures)} of {len(subjects)} configurations failed a quick check"] if failures else []
    return Swept([subjects[index] for index in ranking], failures, notes)


def score(subject: Subject, samples: dict[str, Any]) -> float:
    """The card's log speed-up by medians, variants that this configuration leaves to eager included at 1."""
    eager = candidate = 0.0
    for variant in subject.card.variants:
        times = samples.get(variant.variant_id)
        before = variant.calls * (statistics.median(times["eager_s"]) if times else variant.eager_us * 1e-6)
        after = variant.calls * statistics.median(times["candidate_s"]) if times else before
        eager, candidate = eager + before, candidate + after
    return math.log(eager / candidate) if candidate > 0 else 0.0
