"""Timed pairs of one variant on the device: eager and candidate on the same fresh input, every output checked.

The order within a pair is random. Where eager goes first its output is marked and overwritten before the candidate
starts. Each candidate pair is followed by an A/A pair, in which eager stands in the candidate's place.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from random import Random

import torch

from ..checks import Finding, check
from ..inputs import Blocks
from ..pairs import Samples, Schedule, plainly_slower
from ..subject import Subject
from ..trials import Policy
from .gpu import Gpu
from .marks import Mark, Marker
from .program import LaunchError
from .sides import CandidateSide, EagerSide, Failed, Side, StandIn
from .watch import Deadline

_FULL_CHECKS = 3
_TRIES = 12
"""Of one timing whose start came before all was enqueued."""
_MOST_DROPPED = 60
_KEPT_BYTES = 1 << 30

Disturbed = Callable[[], str]


class DeviceTiming:
    """Times one variant: eager, the candidate, and eager in the candidate's place."""

    def __init__(
        self,
        gpu: Gpu,
        subject: Subject,
        eager: EagerSide,
        candidate: CandidateSide | StandIn,
        stand_in: StandIn,
        policy: Policy,
        deadline: Deadline,
        disturbed: Disturbed,
    ) -> None:
        self._gpu = gpu
        self._subject = subject
        self._eager = eager
        self._candidate = candidate
        self._stand_in = stand_in
        self._policy = policy
        self._deadline = deadline
        self._disturbed = disturbed
        self._dice = Random(secrets.randbits(64))
        self._image = subject.fresh.image()
        outputs = [place.view(self._image) for place in subject.slot.outputs]
        self._marker = Marker(outputs, subject.errors, subject.longest, secrets.randbits(63))
        self._kept: list[tuple[torch.Tensor, list[torch.Tensor], Blocks]] = []
        self._seen = 0

    def run(self, schedule: Schedule, progress: Callable[[int], None]) -> Samples | Finding:
        """Samples of all pairs, or the first finding."""
        samples = Samples()
        for _ in range(schedule.warm_up):
            for other in self._others(schedule):
                outcome = self._pair(other)
                if isinstance(outcome, Finding):
                    return outcome
        dropped = 0
        while len(samples.eager_s) < schedule.pairs:
            if len(samples.eager_s) == schedule.first_stage and plainly_slower(samples, schedule):
                break
            outcomes = [self._pair(other) for other in self._others(schedule)]
            finding = next((outcome for outcome in outcomes if isinstance(outcome, Finding)), None)
            if finding:
                return finding
            why = self._disturbed()
            if why:
                dropped += 1
                note = f"pairs were dropped while the device was slowed down: {why}"
                if note not in self._subject.notes:
                    self._subject.notes.append(note)
                if dropped > _MOST_DROPPED:
                    return Finding("device_busy", f"{self._subject.label()}: the device is slowed down: {why}")
                continue
            self._add(samples, outcomes)
            progress(len(samples.eager_s))
        return self._full_checks() or samples

    def _add(self, samples: Samples, outcomes: list[tuple[float, float, bool] | Finding]) -> None:
        for place, outcome in enumerate(outcomes):
            assert not isinstance(outcome, Finding)
            eager_s, other_s, eager_first = outcome
            if place == 0:
                samples.eager_s.append(eager_s)
                samples.candidate_s.append(other_s)
                samples.eager_first.append(eager_first)
            else:
                samples.null_eager_s.append(eager_s)
                samples.null_candidate_s.append(other_s)

    def _others(self, schedule: Schedule) -> list[CandidateSide | StandIn]:
        return [self._candidate, self._stand_in] if schedule.null else [self._candidate]

    def _pair(self, other: CandidateSide | StandIn) -> tuple[float, float, bool] | Finding:
        """Device seconds of eager and of the other side, and whether eager went first."""
        blocks = self._subject.fresh.compose(self._image)
        question = self._marker.ask(blocks)
        eager_first = self._dice.random() < 0.5
        seconds: dict[bool, float] = {}
        marks: dict[bool, list[Mark]] = {}
        for is_eager in (eager_first, not eager_first):
            side: Side = self._eager if is_eager else other
            try:
                seconds[is_eager], number = self._timed(side)
            except Failed as failure:
                return failure.finding.during(f"{self._subject.label()}, timed call")
            if not is_eager:
                finding = side.trespass(number, self._image)
                if finding:
                    return finding.during(f"{self._subject.label()}, timed call")
                if side.is_candidate:
                    self._keep(side.outputs(number), blocks)
            marks[is_eager] = self._marker.take(side.outputs(number), question)
            if is_eager:
                self._eager.overwrite(number)
        finding = self._marker.compare(marks[False], marks[True], question)
        if finding:
            return finding.during(f"{self._subject.label()}, timed call")
        return seconds[True], seconds[False], eager_first

    def _timed(self, side: Side) -> tuple[float, int]:
        """Device seconds of one call, and the slot it ran on. Raises `Failed` for a candidate that fails."""
        for _ in range(_TRIES):
            number = side.place(self._image)
            if not side.is_candidate:
                seconds = self._gpu.time(lambda number=number: side.enqueue(number))
            else:
                with self._deadline.within(self._policy.call_timeout_s):
                    try:
                        seconds = self._gpu.time(lambda number=number: side.enqueue(number))
                    except LaunchError as error:
                        raise Failed(error.finding) from error
                    except RuntimeError as error:
                        text = str(error).splitlines()[0][:200]
                        raise Failed(Finding("crashed", f"a kernel failed while it was timed: {text}")) from error
            if seconds is not None:
                return seconds, number
        raise RuntimeError("the host was too slow to enqueue a call behind a sleeping kernel")

    def _keep(self, outputs: list[torch.Tensor], blocks: Blocks) -> None:
        """Hold a uniform choice of three timed calls for the full oracle, made after each has run."""
        most = max(1, min(_FULL_CHECKS, _KEPT_BYTES // max(len(self._image), 1)))
        self._seen += 1
        place = len(self._kept) if len(self._kept) < most else self._dice.randrange(self._seen)
        if place < most:
            entry = (self._image.clone(), [tensor.clone() for tensor in outputs], blocks)
            self._kept[place : place + 1] = [entry]

    def _full_checks(self) -> Finding | None:
        for image, outputs, blocks in self._kept:
            finding = check(outputs, self._subject.expect(image, blocks), blocks)
            if finding:
                return finding.during(f"{self._subject.label()}, timed call held against the oracle")
        return None
