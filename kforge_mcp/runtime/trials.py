"""Validity of one variant: five trials, each run twice with different poison, held against the oracle."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .admission import Admission
from .arena import Place
from .batch import Batch
from .checks import Finding, check, same_bits
from .hardening import hardened, levels
from .inputs import TRIALS, Draw, draws
from .sides import Side
from .subject import EAGER_FAILURES, Subject

_STRESS = TRIALS[2:4]
"""The trials that are repeated on harder inputs."""


@dataclass(frozen=True)
class Policy:
    """What the judge demands of a side's process. Seconds."""

    threads: int
    call_timeout_s: float
    nondeterministic_allowed: bool = False


class Trials:
    """Runs the validity trials of one variant on a candidate's side; without a side only eager's errors are learnt.

    `hardness` names the inputs that this variant was found to need (see `hardening.py`); with `admit`, that is found
    out here: known wrong results go through the same checks on every draw.
    """

    def __init__(
        self,
        subject: Subject,
        side: Side | None,
        policy: Policy,
        floating_point: str,
        *,
        admit: bool = True,
        hardness: str = "",
    ) -> None:
        self._subject = subject
        self._side = side
        self._policy = policy
        self._floating_point = floating_point
        self._dice = random.Random()
        self._last: list[tuple[Place, torch.Tensor]] = []
        self._left: list[tuple[Place, torch.Tensor]] = []
        """What the latest call, and that of the draw before, left in outputs and workspaces."""
        self._admission = Admission(subject.eager) if admit else None
        self._hardness = hardness

    @property
    def subject(self) -> Subject:
        """The variant on the inputs that it needs: what is timed."""
        return self._subject

    @property
    def hardness(self) -> str:
        """The name of the inputs that the variant needs, empty if those like the captured ones will do."""
        return self._hardness

    @property
    def uncaught(self) -> list[str]:
        """Known wrong results that no check caught: reasons to claim nothing on this card."""
        return self._admission.uncaught() if self._admission else []

    def run(self, names: Sequence[str] = TRIALS) -> Finding | None:
        """The first finding of any trial, or None. All five trials are followed by those on harder inputs."""
        finding = self._run(names, "")
        if finding or len(names) < len(TRIALS):
            return finding
        if self._admission is None:
            self._subject = hardened(self._subject, self._hardness)
            return self._run(_STRESS, f", {self._hardness}") if self._hardness else None
        usual = self._subject
        for name, subject in levels(usual) if self._admission.undecided else ():
            before = len(self._admission.undecided)
            self._subject = subject
            finding = self._run(_STRESS, f", {name}")
            if finding:
                return finding
            if len(self._admission.undecided) < before:
                usual, self._hardness = subject, name
            if not self._admission.undecided:
                break
        self._subject = usual
        return None

    def _run(self, names: Sequence[str], circumstance: str) -> Finding | None:
        for name in names:
            for draw in self._draws(name):
                finding = self._one(draw)
                if finding:
                    number = TRIALS.index(name) + 1
                    return finding.during(f"{self._subject.label()}, trial {number} ({name}{circumstance})")
        return None

    def _draws(self, name: str) -> list[Draw]:
        subject = self._subject
        return list(draws(name, subject.variant, subject.where, subject.generator, subject.blob_root))

    def _image(self, draw: Draw) -> torch.Tensor:
        image = self._subject.fresh.image()
        self._subject.fresh.place_values(image, draw.tensors)
        self._subject.fresh.renew_surroundings(image)
        return image

    def _one(self, draw: Draw) -> Finding | None:
        """Run the candidate twice, then let the expected output come into being and compare.

        The second run finds in outputs and workspaces what the call on the draw before left there, as it would in a
        model, whose memory is used again and again.
        """
        image = self._image(draw)
        runs: list[list[torch.Tensor]] = []
        for attempt in range(2 if self._side else 0):
            if attempt:
                self._subject.fresh.renew_surroundings(image)
                for place, left in self._left:
                    image[place.start : place.start + place.size] = left
            outputs = self._call(image)
            if isinstance(outputs, Finding):
                return outputs
            runs.append(outputs)
        self._left = self._last
        try:
            known = self._subject.expect(image, draw.blocks)
        except torch.OutOfMemoryError:
            raise
        except EAGER_FAILURES as error:
            self._subject.note(
                f"eager fails on {draw.trial} ({type(error).__name__}: {str(error)[:100]}); that draw is left out"
            )
            return None
        self._subject.fresh.calibrate_poison(known.narrow)
        if self._admission is not None and draw.trial != TRIALS[4]:  # where a NaN alone would give a wrong result away
            self._admission.observe(self._subject.inputs_of(image), known, draw.blocks)
        if not runs:
            return None
        finding = check(runs[0], known, draw.blocks)
        if finding is None and not all(same_bits(a, b) for a, b in zip(*runs, strict=True)):
            finding = check(runs[1], known, draw.blocks)
            if finding is None and self._policy.nondeterministic_allowed:
                self._subject.note("two runs on the same input gave different bits, both within the tolerance")
            elif finding is None:
                finding = Finding(
                    "nondeterministic",
                    "two runs on the same input gave different bits: an output left unwritten, memory read out of "
                    "bounds, or a race; one that is right but sums in any order says `nondeterministic = true`",
                )
        return finding

    def _call(self, image: torch.Tensor) -> list[torch.Tensor] | Finding:
        assert self._side is not None
        batch = Batch(self._side, self._subject.bound, 1, self._dice, self._policy.call_timeout_s)
        state = batch.prepare()
        batch.run([image], watched=True)
        finding = batch.trespass([image]) or process_changed(self._side, self._policy, state, self._floating_point)
        self._last = self._subject.fresh.left_behind(batch.memories[0])
        return finding or [tensor.clone() for tensor in batch.outputs()[0]]


def process_changed(side: Side, policy: Policy, state: str, original: str) -> Finding | None:
    """Threads beyond the OpenMP team, or another floating-point environment than at the start."""
    threads = side.threads()
    if threads > policy.threads:
        return Finding(
            "state_changed",
            f"the candidate's process has {threads} threads after a call, {policy.threads} are its OpenMP team; use "
            "OpenMP without num_threads and start no threads of your own",
        )
    changed = [each for each in state.split(";") if each != original]
    if state and original and changed:
        return Finding(
            "state_changed",
            f"the floating-point environment was changed (control words {original} to {', '.join(changed)}): rounding "
            "or denormal modes belong to the model's process",
        )
    return None
