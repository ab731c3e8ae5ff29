"""Validity of one variant: five trials, each run twice with different poison, held against the oracle."""

from __future__ import annotations

import random
from dataclasses import dataclass

import torch

from .admission import Admission
from .arena import Place
from .batch import Batch
from .checks import Finding, check, same_bits
from .inputs import TRIALS, Blocks, Draw, draws
from .sides import Side
from .subject import Subject

_HARDER_DRAWS = 2


@dataclass(frozen=True)
class Policy:
    """What the judge demands of a side's process. Seconds."""

    threads: int
    call_timeout_s: float
    nondeterministic_allowed: bool = False


class Trials:
    """Runs the validity trials of one variant on a candidate's side."""

    def __init__(
        self, subject: Subject, side: Side | None, policy: Policy, floating_point: str, *, admit: bool = True
    ) -> None:
        self._subject = subject
        self._side = side
        self._policy = policy
        self._floating_point = floating_point
        self._dice = random.Random()
        self._last: list[tuple[Place, torch.Tensor]] = []
        self._left: list[tuple[Place, torch.Tensor]] = []
        """What the latest call, and that of the draw before, left in outputs and workspaces."""
        self._poison_is_calibrated = False
        self._admission = Admission(subject.eager) if admit else None

    def run(self, names: tuple[str, ...] = TRIALS) -> Finding | None:
        """The first finding of any trial, or None. Without a side only eager's errors are learnt."""
        for number, name in enumerate(names, start=1):
            for draw in self._draws(name):
                finding = self._one(draw)
                if finding:
                    return finding.during(f"{self._subject.label()}, trial {number} ({name})")
        return None

    def admit(self) -> list[str]:
        """Impostors that no check caught even on harder inputs: reasons to claim nothing on this card."""
        admission = self._admission
        if admission is None:
            return []
        rounds = 0
        while admission.undecided and rounds < _HARDER_DRAWS:
            rounds += 1
            for name in (TRIALS[2], TRIALS[3]):
                for draw in self._draws(name):
                    image = self._image(_harder(draw, self._subject))
                    known = self._subject.expect(image, draw.blocks)
                    admission.observe(self._subject.inputs_of(image), known, draw.blocks)
        return admission.uncaught()

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
        except (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError) as error:
            self._subject.note(
                f"eager fails on {draw.trial} ({type(error).__name__}: {str(error)[:100]}); that draw is left out"
            )
            return None
        if not self._poison_is_calibrated:
            self._subject.fresh.calibrate_poison(known.narrow)
            self._poison_is_calibrated = True
        if self._admission is not None:
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
                    "bounds, or a race; a kernel that is right but sums in any order declares `nondeterministic = true`",
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
    if state and original and state != original:
        return Finding(
            "state_changed",
            f"the floating-point environment was changed (control words {original} to {state}): rounding or denormal "
            "modes belong to the model's process",
        )
    return None


def _harder(draw: Draw, subject: Subject) -> Draw:
    """The same draw with signs and a wide range of magnitudes in every floating tensor."""
    tensors: list[torch.Tensor] = []
    for tensor, spec in zip(draw.tensors, subject.variant["tensors"], strict=True):
        kind = (spec.get("recipe") or {}).get("kind", "constant")
        if kind == "quantiles" and tensor.is_floating_point() and tensor.numel():
            noise = torch.randn(tensor.shape, generator=subject.generator)
            noise = noise * torch.exp2(torch.randint(-4, 5, tensor.shape, generator=subject.generator).float())
            flat = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
            if all(tensor.stride()) or tensor.ndim == 0:
                tensor = flat.copy_(noise)
        tensors.append(tensor)
    return Draw(draw.trial, tensors, Blocks(draw.blocks.where, draw.blocks.names, draw.blocks.order))
