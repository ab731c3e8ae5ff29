"""Timed pairs of one variant: eager and candidate on the same fresh input, in random order, every output checked.

Each candidate pair is followed by an A/A pair, in which a second twin stands in the candidate's place, so both see
the same state of the machine.
"""

from __future__ import annotations

import math
import os
import secrets
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

import torch

from .batch import Batch
from .checks import Finding
from .chosen import Chosen, wrong
from .fingerprint import Fingerprints
from .inputs import Blocks
from .sides import PREPARE, Side
from .subject import Subject
from .trials import Policy, process_changed

MAXIMUM_CALLS = 100
_CHEAP_BYTES = 4 << 20
_GENEROUS = 2
_CALIBRATIONS = 5
_SLOWER_RANK = 3


@dataclass(frozen=True)
class Schedule:
    """How much is timed. `batch_us` is the least time of a batch on either side; a plainly slower candidate ends
    after `first_stage` pairs, every other has `pairs`."""

    pairs: int = 60
    first_stage: int = 16
    warm_up: int = 3
    batch_us: float = 200.0
    null: bool = True
    """Whether A/A pairs are measured too."""


@dataclass
class Samples:
    """Raw times of one variant in seconds per call, pair by pair."""

    calls_per_batch: int = 1
    eager_s: list[float] = field(default_factory=list)
    candidate_s: list[float] = field(default_factory=list)
    eager_first: list[bool] = field(default_factory=list)
    null_eager_s: list[float] = field(default_factory=list)
    null_candidate_s: list[float] = field(default_factory=list)
    overhead_s: float = 0.0
    """What a batch without calls takes, included in every batch; not subtracted."""
    own_share: float = 1.0
    """Part of the candidate's time in kernels of its own."""

    def as_json(self) -> dict[str, Any]:
        """For the result's JSON."""
        return asdict(self)


class Timing:
    """Times one variant on three sides: twin, candidate, and the twin that stands in for a candidate."""

    def __init__(
        self, subject: Subject, twin: Side, candidate: Side, stand_in: Side, policy: Policy, state: str
    ) -> None:
        self._subject = subject
        self._twin = twin
        self._candidate = candidate
        self._stand_in = stand_in
        self._policy = policy
        self._state = state
        self._dice = Random(secrets.randbits(64))
        self._images: list[torch.Tensor] = []
        self._fingerprints = Fingerprints(subject.errors, subject.longest, secrets.randbits(63))
        self._chosen = Chosen(subject, self._dice)
        self._processors = os.sched_getaffinity(0)

    def run(self, schedule: Schedule, progress: Callable[[int], None]) -> Samples | Finding:
        """Samples of all pairs, or the first finding."""
        self._subject.learn_timed_draws()
        samples = Samples(overhead_s=self._overhead())
        problem = self._calibrate(schedule, samples.overhead_s)
        if problem:
            return problem
        samples.calls_per_batch = self._subject.calls_per_batch
        for _ in range(schedule.warm_up):
            for other in self._others(schedule):
                outcome = self._pair(other)
                if isinstance(outcome, Finding):
                    return outcome
        for number in range(schedule.pairs):
            if number == schedule.first_stage and plainly_slower(samples, schedule):
                break
            for other in self._others(schedule):
                outcome = self._pair(other)
                if isinstance(outcome, Finding):
                    return outcome
                eager_s, other_s, eager_first = outcome
                if other is self._candidate:
                    samples.eager_s.append(eager_s)
                    samples.candidate_s.append(other_s)
                    samples.eager_first.append(eager_first)
                else:
                    samples.null_eager_s.append(eager_s)
                    samples.null_candidate_s.append(other_s)
            progress(number + 1)
        return self._chosen.check() or samples

    def _others(self, schedule: Schedule) -> list[Side]:
        return [self._candidate, self._stand_in] if schedule.null else [self._candidate]

    def _overhead(self) -> float:
        self._twin.order(PREPARE, [], self._policy.call_timeout_s)
        return statistics.median(self._twin.go(self._policy.call_timeout_s) for _ in range(5))

    def _calibrate(self, schedule: Schedule, overhead_s: float) -> Finding | None:
        """Choose the calls per batch: at least `batch_us` on either side, more where inputs are cheap to make."""
        subject = self._subject
        subject.calls_per_batch = 1
        for _ in range(_CALIBRATIONS):
            times: list[float] = []
            for _ in range(2):
                outcome = self._pair(self._candidate, keep=False)
                if isinstance(outcome, Finding):
                    return outcome
                times.append(min(outcome[0], outcome[1]) * subject.calls_per_batch - overhead_s)
            shortest = max(min(times), 1e-6)
            per_call = shortest / subject.calls_per_batch
            needed = math.ceil(schedule.batch_us * 1e-6 / per_call)
            generous = min(_GENEROUS * needed, _CHEAP_BYTES // subject.slot.size)
            wanted = min(max(needed, generous, 1), self.most_calls(subject))
            if wanted <= subject.calls_per_batch:
                return None
            subject.calls_per_batch = wanted
        return None

    @staticmethod
    def most_calls(subject: Subject) -> int:
        """Calls that a batch of this variant may have."""
        return most_calls(subject.slot.size)

    def _pair(self, other: Side, *, keep: bool = True) -> tuple[float, float, bool] | Finding:
        """Times per call of the twin and of the other side, in seconds, and whether eager went first."""
        subject, policy, count = self._subject, self._policy, self._subject.calls_per_batch
        while len(self._images) < count:
            self._images.append(subject.fresh.image())
        images = self._images[:count]
        blocks = [subject.fresh.compose(image) for image in images]
        eager = Batch(self._twin, subject.bound, count, self._dice, policy.call_timeout_s)
        judged = Batch(other, subject.bound, count, self._dice, policy.call_timeout_s)
        eager.prepare()
        state = judged.prepare()
        self._put_on_one_processor(other)
        eager_first = self._dice.random() < 0.5
        seconds: dict[bool, float] = {}
        for is_eager in (eager_first, not eager_first):
            seconds[is_eager] = (eager if is_eager else judged).run(images)
        if not judged.is_twin:
            finding = judged.trespass(images) or process_changed(other, policy, state, self._state)
            if finding:
                return finding.during(f"{subject.label()}, timed call")
        finding = self._fingerprints.compare(judged.outputs(), eager.outputs(), blocks)
        if finding and (judged.is_twin or self._confirmed(images, judged.outputs(), blocks)):
            return finding.during(f"{subject.label()}, timed call")
        if keep and not judged.is_twin:
            index = self._dice.randrange(count)
            self._chosen.offer(lambda: (images[index], judged.outputs()[index], blocks[index]))
        return seconds[True] / count, seconds[False] / count, eager_first

    def _confirmed(
        self, images: Sequence[torch.Tensor], outputs: Sequence[list[torch.Tensor]], blocks: Sequence[Blocks]
    ) -> bool:
        """Whether the oracle too finds a batch wrong whose outputs are further from eager's than its errors in the
        trials: where an operator is ill-conditioned, an honest error can be far above those."""
        if any(wrong(self._subject, *call) for call in zip(images, outputs, blocks, strict=True)):
            return True
        self._subject.note("in some ill-conditioned timed calls, far from eager, the oracle decided")
        return False

    def _put_on_one_processor(self, other: Side) -> None:
        """Have both sides of a pair use the same processor, another one for each pair.

        Left to itself the kernel gives each process a place of its own and keeps it there; beside a busy neighbour,
        or far from the cache that the inputs lie in, equal code is then half as fast for a whole judgement.
        """
        if len(self._processors) > 1:
            processor = self._dice.choice(sorted(self._processors))
            allowed = [side.pin(processor, self._processors) for side in (self._twin, other)]
            if not all(allowed):
                self._subject.note(
                    "the sides of a pair could not be put on the same processor: the kernel chose where each ran"
                )


def most_calls(slot_bytes: int) -> int:
    """Calls that a batch may have: bounded in number and in memory."""
    return max(1, min(MAXIMUM_CALLS, (256 << 20) // slot_bytes))


def plainly_slower(samples: Samples, schedule: Schedule) -> bool:
    """Whether the first stage shows a candidate to be slower beyond doubt: the third highest of 16 log ratios (99.6 %
    for the median) is below what eager against itself shows, doubled, and below -ln 1.02."""
    ratios = _log_ratios(samples.eager_s, samples.candidate_s)
    null = _log_ratios(samples.null_eager_s, samples.null_candidate_s)
    if len(ratios) < schedule.first_stage or len(ratios) < 2 * _SLOWER_RANK:
        return False
    floor = max(abs(null[_SLOWER_RANK - 1]), abs(null[-_SLOWER_RANK])) if len(null) >= 2 * _SLOWER_RANK else 0.0
    return ratios[-_SLOWER_RANK] < -max(2 * floor, math.log(1.02))


def _log_ratios(eager_s: list[float], other_s: list[float]) -> list[float]:
    return sorted(math.log(e / c) for e, c in zip(eager_s, other_s, strict=True))
