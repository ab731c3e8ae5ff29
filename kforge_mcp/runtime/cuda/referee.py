"""The process of one evaluation on a CUDA device: it prepares itself ahead of need, then takes one candidate.

Preparing needs the card only: context, eager, inputs, graphs, and a rehearsal in which eager stands in the
candidate's place, so that nothing is loaded for the first time while a candidate is judged. Rehearsal never draws
the captured sample: no expected output of what the candidate will see exists before the candidate has run.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import torch

from .. import flags
from ..batch import Bound
from ..checks import Finding
from ..examination import adapted
from ..inputs import TRIALS
from ..pairs import Samples, Schedule
from ..reference import load_reference
from ..subject import Subject, in_place
from ..tensors import DTYPES
from ..trials import Policy
from ..validation import validate
from .gpu import Gpu
from .pairs import DeviceTiming
from .places import call_slot
from .program import LaunchError
from .sides import CandidateSide, EagerSide, Failed, StandIn, slots_for
from .trials import DeviceTrials
from .watch import Deadline

Progress = Callable[[str], None]
_REHEARSED = Schedule(pairs=1, first_stage=1, warm_up=0, null=False)
_GRACE_S = 300.0


class Prepared:
    """A variant with its eager side and the slots that wait for a candidate. `timed` is the subject on the inputs that
    it needs: what is timed."""

    def __init__(self, subject: Subject, eager: EagerSide, stand_in: StandIn, memories: list[torch.Tensor]) -> None:
        self.subject = subject
        self.timed = subject
        self.eager = eager
        self.stand_in = stand_in
        self.memories = memories


class CudaReferee:
    """One evaluation. `card` is the part of a request that all candidates of a card share."""

    def __init__(self, card: dict[str, Any], deadline: Deadline, make_gpu: Callable[[int], Gpu] | None = None) -> None:
        self._card = card
        self._deadline = deadline
        self._make_gpu = make_gpu or Gpu
        self._dice = Random(secrets.randbits(64))
        self._prepared: list[Prepared] = []
        self._stages: dict[str, float] = {}
        self._notes: list[str] = []
        self._admissions: dict[str, dict[str, Any]] = {}
        self._valid = False

    def prepare(self) -> Iterator[None]:
        """Get ready, in steps of some tenths of a second at most for small operators."""
        begun = time.monotonic()
        self._gpu = self._make_gpu(self._card["ordinal"])
        self._stages["context_s"] = time.monotonic() - begun
        yield
        torch.set_num_threads(1)
        flags.apply(self._card["backend_flags"])
        self._flags = flags.read()
        reference = load_reference(self._card["reference"], self._card["blob_root"])
        yield
        for index, variant in enumerate(self._card["variants"]):
            self._prepared.append(self._variant(index, variant, reference))
            yield
        by_size = sorted(self._prepared, key=lambda one: one.subject.slot.size)
        for place, prepared in enumerate(by_size):
            # All kinds of trials on the smallest variant: the others need the same kernels.
            yield from self._rehearse(prepared, TRIALS[1:] if place == 0 else ())
        self._gpu.release()
        self._stages["prepare_s"] = time.monotonic() - begun

    def judge(self, request: dict[str, Any], time_alone: Callable[[], None], progress: Progress) -> dict[str, Any]:
        """The evaluation's result: `finding` (None if all is well), samples and notes per variant."""
        begun = time.monotonic()
        self._policy = Policy(1, request["call_timeout_s"], request["nondeterministic"])
        self._mode = request["mode"]
        try:
            finding, samples = self._judge(request, time_alone, progress)
        except Failed as failure:
            finding, samples = failure.finding, {}
        except torch.OutOfMemoryError as error:
            text = str(error).splitlines()[0][:300]
            message = f"the device has too little free memory to judge this card: {text}"
            finding, samples = Finding("device_busy", message), {}
        return {
            "finding": None if finding is None else {"reason": finding.reason, "message": finding.message},
            "valid": self._valid,
            "variants": samples,
            "admissions": self._admissions,
            "variant_notes": {
                one.subject.variant["variant_id"]: one.subject.notes for one in self._prepared if one.subject.notes
            },
            "notes": self._notes,
            "printed": "",
            "device_s": time.monotonic() - begun,
            "stages": self._stages,
        }

    def _judge(
        self, request: dict[str, Any], time_alone: Callable[[], None], progress: Progress
    ) -> tuple[Finding | None, dict[str, Any]]:
        sides: list[CandidateSide | StandIn] = []
        for prepared, entry in zip(self._prepared, request["programs"], strict=True):
            sides.append(prepared.stand_in if self._mode == "null" else self._candidate(prepared, entry, request))
        start = time.monotonic()
        for prepared, side, entry in zip(self._prepared, sides, request["programs"], strict=True):
            progress(f"validating {prepared.subject.label()}")
            finding = self._validate(prepared, side, entry)
            if finding:
                return finding, {}
        self._valid = True
        self._stages["validate_s"] = time.monotonic() - start
        if request["schedule"] is None:
            return None, {}
        start = time.monotonic()
        time_alone()
        self._stages["alone_s"] = time.monotonic() - start
        busy = self._gpu.company()
        if busy:
            return Finding("device_busy", f"{busy}; nothing was timed"), {}
        start = time.monotonic()
        schedule = Schedule(**request["schedule"])
        samples: dict[str, Any] = {}
        for prepared, side in zip(self._prepared, sides, strict=True):
            outcome = self._time(prepared, side, schedule, progress)
            if isinstance(outcome, Finding):
                return outcome, samples
            samples[prepared.subject.variant["variant_id"]] = outcome.as_json()
        self._stages["time_s"] = time.monotonic() - start
        return self._flags_changed(), samples

    def _variant(self, index: int, variant: dict[str, Any], reference: Any) -> Prepared:
        device = str(self._gpu.device)
        slot = call_slot(variant)
        blob_root = self._card["blob_root"]
        owners = in_place(reference, variant, slot, blob_root, device) if self._card["in_place"] else {}
        variant = adapted(variant)
        subject = Subject(index, variant, slot, Bound(index, slot, 0, (), owners), reference, blob_root, device)
        image = subject.fresh.image()
        subject.fresh.compose(image)
        eager = EagerSide(self._gpu, subject, slots_for(self._gpu, slot, self._dice), image, self._dice)
        memories = slots_for(self._gpu, slot, self._dice)
        stand_in = StandIn(self._gpu, subject, memories, image, self._dice)
        if not eager.is_captured:
            subject.note("eager cannot be captured as a CUDA graph: both sides are launched step by step")
        return Prepared(subject, eager, stand_in, memories)

    def _rehearse(self, prepared: Prepared, trials: Sequence[str]) -> Iterator[None]:
        """Run everything once with eager in the candidate's place; learns eager's errors on the way."""
        policy = Policy(1, _GRACE_S, True)
        for name in trials:
            DeviceTrials(prepared.subject, prepared.stand_in, policy).run((name,))
            yield
        prepared.subject.learn_timed_draws()
        yield
        self._policy = policy
        self._time(prepared, prepared.stand_in, _REHEARSED, lambda text: None)
        prepared.subject.notes[:] = [note for note in prepared.subject.notes if "eager" in note]
        yield

    def _candidate(self, prepared: Prepared, entry: dict[str, Any], request: dict[str, Any]) -> CandidateSide:
        """Load and check the program of one variant. Raises `Failed`."""
        bound, label = entry["bound"], prepared.subject.label()
        self._within_budget(bound, request["limits"]["memory_bytes"], label)
        start = time.monotonic()
        with open(entry["cubin"], "rb") as file:
            image = file.read()
        try:
            program = self._gpu.load(image, bound, entry["kernels"])
        except LaunchError as error:
            raise Failed(error.finding.during(label)) from error
        problem = program.check()
        if problem:
            raise Failed(problem.during(label))
        self._stages["load_s"] = self._stages.get("load_s", 0.0) + time.monotonic() - start
        return CandidateSide(
            self._gpu,
            prepared.subject,
            prepared.memories,
            program,
            bound["workspaces"],
            self._dice,
            self._deadline,
            self._policy.call_timeout_s,
        )

    def _within_budget(self, bound: dict[str, Any], limit: int, label: str) -> None:
        wanted = sum(_bytes(one) for one in (*bound["workspaces"], *bound["intermediates"]))
        if wanted <= limit:
            return
        message = (
            f"{label}: workspaces and results of calls take {wanted >> 20} MiB; a candidate has {limit >> 20} MiB "
            "beside the call's own tensors"
        )
        raise Failed(Finding("out_of_memory", message))

    def _validate(self, prepared: Prepared, side: CandidateSide | StandIn, known: dict[str, Any]) -> Finding | None:
        def trials(subject: Subject, **options: Any) -> DeviceTrials:
            return DeviceTrials(subject, side, self._policy, **options)

        # What else was found out about the inputs is in the subject since it was made.
        asked = {"admitted": known["admitted"], "hardness": known.get("hardness", "")}
        found = validate(prepared.subject, asked, self._mode, trials)
        if found.admission:
            self._admissions[prepared.subject.variant["variant_id"]] = found.admission
        if found.finding:
            return found.finding
        if found.subject is not prepared.subject:
            found.subject.learn_timed_draws()
        prepared.timed = found.subject
        if isinstance(side, CandidateSide) and self._mode == "judge" and not self._policy.nondeterministic_allowed:
            image = prepared.timed.fresh.image()
            prepared.timed.fresh.compose(image)
            return side.soak(image)
        return None

    def _time(
        self, prepared: Prepared, side: CandidateSide | StandIn, schedule: Schedule, progress: Progress
    ) -> Samples | Finding:
        subject = prepared.timed
        if isinstance(side, CandidateSide) and prepared.eager.is_captured and not side.capture():
            prepared.eager.drop_graphs()
            prepared.stand_in.drop_graphs()
            subject.note("the candidate cannot be captured as a CUDA graph: both sides are launched step by step")
        timing = DeviceTiming(
            self._gpu, subject, prepared.eager, side, prepared.stand_in, self._policy, self._deadline, self._gpu.slowed
        )
        return timing.run(schedule, lambda done: progress(f"timing {subject.label()}: {done} of {schedule.pairs}"))

    def _flags_changed(self) -> Finding | None:
        now = flags.read()
        changed = [name for name, value in self._flags.items() if now.get(name) != value]
        if not changed:
            return None
        return Finding("state_changed", f"settings of torch changed during the evaluation: {', '.join(changed)}")


def _bytes(space: dict[str, Any]) -> int:
    count = DTYPES[space["dtype"]].itemsize
    for size in space["shape"]:
        count *= size
    return count
