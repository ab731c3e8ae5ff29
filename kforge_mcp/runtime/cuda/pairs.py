"""Timed pairs of one variant on the device: eager and candidate on the same fresh input, every output checked.

With them, on the same input, goes eager in the candidate's place: eager and it are the A/A pair. The order of the
three is random. An output of eager is marked and overwritten before anything else starts.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from random import Random

from .. import chosen
from ..checks import Finding
from ..pairs import Samples, Schedule, plainly_slower
from ..subject import Subject
from ..trials import Policy
from .gpu import Gpu
from .marks import Mark, Marker
from .program import LaunchError
from .sides import CandidateSide, EagerSide, Failed, Side, StandIn
from .watch import Deadline

_TRIES = 12
"""Of one timing whose start came before all was enqueued."""
_MOST_DROPPED = 60
_KEPT_BYTES = 1 << 30

_COMPARED_AT_ONCE = 16
_LONG_S = 1e-3
"""Of longer operators every second pair has an A/A pair with it: their noise is small, and their time is dear."""
_EAGER, _CANDIDATE, _STAND_IN = "eager", "candidate", "stand-in"

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
        most = max(1, min(chosen.MOST, _KEPT_BYTES // max(len(self._image), 1)))
        self._chosen = chosen.Chosen(subject, self._dice, most)

    def run(self, schedule: Schedule, progress: Callable[[int], None]) -> Samples | Finding:
        """Samples of all pairs, or the first finding."""
        samples = Samples()
        is_long = False
        for _ in range(schedule.warm_up):
            outcome = self._round(schedule.null)
            if isinstance(outcome, Finding):
                return outcome
            is_long = outcome[_EAGER] > _LONG_S
        finding = self._compared()
        if finding:
            return finding
        dropped = 0
        while len(samples.eager_s) < schedule.pairs:
            if len(samples.eager_s) == schedule.first_stage and plainly_slower(samples, schedule):
                break
            outcome = self._round(schedule.null and not (is_long and len(samples.eager_s) % 2))
            if isinstance(outcome, Finding):
                return outcome
            why = self._disturbed()
            if why:
                dropped += 1
                self._subject.note(f"pairs were dropped while the device was slowed down: {why}")
                if dropped > _MOST_DROPPED:
                    return Finding("device_busy", f"{self._subject.label()}: the device is slowed down: {why}")
                continue
            self._add(samples, outcome)
            if len(samples.eager_s) % _COMPARED_AT_ONCE == 0:
                finding = self._compared()
                if finding:
                    return finding
            progress(len(samples.eager_s))
        if isinstance(self._candidate, CandidateSide):
            samples.own_share = self._candidate.own_share(self._image)
        return self._compared() or self._chosen.check() or samples

    def _add(self, samples: Samples, seconds: dict[str, float]) -> None:
        samples.eager_s.append(seconds[_EAGER])
        samples.candidate_s.append(seconds[_CANDIDATE])
        samples.eager_first.append(list(seconds).index(_EAGER) < list(seconds).index(_CANDIDATE))
        if _STAND_IN in seconds:
            samples.null_eager_s.append(seconds[_EAGER])
            samples.null_candidate_s.append(seconds[_STAND_IN])

    def _compared(self) -> Finding | None:
        """What is wrong with the timed outputs since the last look."""
        finding = self._marker.compare()
        return finding.during(f"{self._subject.label()}, timed call") if finding else None

    def _round(self, null: bool) -> dict[str, float] | Finding:
        """Device seconds of all sides on one fresh input, in the random order in which they ran."""
        blocks = self._subject.fresh.compose(self._image)
        question = self._marker.ask(blocks)
        sides: dict[str, Side] = {_EAGER: self._eager, _CANDIDATE: self._candidate}
        if null:
            sides[_STAND_IN] = self._stand_in
        order = self._dice.sample(sorted(sides), len(sides))
        seconds: dict[str, float] = {}
        marks: dict[str, list[Mark]] = {}
        for name in order:
            side = sides[name]
            try:
                seconds[name], number = self._timed(side)
            except Failed as failure:
                return failure.finding.during(f"{self._subject.label()}, timed call")
            if side.is_candidate:
                finding = side.trespass(number, self._image)
                if finding:
                    return finding.during(f"{self._subject.label()}, timed call")
                self._chosen.offer(lambda side=side, number=number: (self._image, side.outputs(number), blocks))
            marks[name] = self._marker.take(side.outputs(number), question)
            # Nobody finds eager's output after this; the candidate's own slot is written anew before its next call.
            if isinstance(side, EagerSide):
                side.overwrite(number)
        for name in order:
            if name != _EAGER:
                self._marker.add(marks[name], marks[_EAGER], question)
        return seconds

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
