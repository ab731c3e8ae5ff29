"""The referee: holds samples, clock and checks; starts the sides and says what became of a candidate.

It runs in a process of its own, forked for one evaluation from a parent that has run no operation.
"""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

from . import candidate_side, flags, sandbox, twin_side
from .arena import Arena, place_call
from .batch import Bound, arena_bytes, bind_arguments
from .checks import Finding
from .pairs import Schedule, Timing, most_calls
from .reference import load_reference
from .sides import LOAD, PREPARE, Side, SideError, start
from .subject import Subject, in_place
from .trials import Policy, Trials, process_changed
from .validation import validate

Progress = Callable[[str], None]
_START_TIMEOUT_S = 120.0


class Referee:
    """One evaluation: `request` as `judge/request.py` of the control plane writes it."""

    def __init__(self, request: dict[str, Any], close: list[int], progress: Progress) -> None:
        self._request = request
        self._close = close
        self._progress = progress
        self._policy = Policy(request["threads"], request["call_timeout_s"], request["nondeterministic"])
        self._notes: list[str] = []
        self._sides: list[Side] = []
        self._admissions: dict[str, dict[str, Any]] = {}
        """What was found out here about the inputs of variants."""
        self._original = ""
        self._valid = False
        """Whether all variants have passed the trials: what is found later is a matter of timing."""
        self._folder = tempfile.mkdtemp(prefix="judge-", dir=request["scratch"])

    def run(self) -> dict[str, Any]:
        """The evaluation's result: `finding` (None if all is well), samples and notes per variant."""
        begun = time.monotonic()
        try:
            result = self._run()
        except SideError as failure:
            result = self._result(failure.finding, {})
        finally:
            printed = next((side.output() for side in self._sides if side.is_candidate), "")
            for side in self._sides:
                side.kill()
            shutil.rmtree(self._folder, ignore_errors=True)
        return {**result, "notes": self._notes, "printed": printed, "device_s": time.monotonic() - begun}

    def _run(self) -> dict[str, Any]:
        request = self._request
        variants = request["variants"]
        slots = [place_call(v, v["workspaces"]) for v in variants]
        size = arena_bytes(slots, [most_calls(slot.size) for slot in slots])
        null = request["mode"] == "null"
        candidate = self._start_twin("stand-in", slots, size) if null else self._start_candidate(size)
        timed = request["schedule"] is not None
        twin = self._start_twin("twin", slots, size) if timed else None
        stand_in = self._start_twin("second twin", slots, size) if timed and request["schedule"]["null"] else None
        for side in self._sides:
            if side is not candidate or null:
                side.first_answer(_START_TIMEOUT_S)
        torch.set_num_threads(request["threads"])
        flags.apply(request["backend_flags"])
        reference = load_reference(request["reference"], request["blob_root"])
        bound = [
            Bound(
                index,
                slot,
                variant["library"],
                bind_arguments(variant["bound"], slot),
                in_place(reference, variant, slot, request["blob_root"]) if variant["in_place"] else {},
            )
            for index, (variant, slot) in enumerate(zip(variants, slots, strict=True))
        ]
        subjects = [
            Subject(index, variant, slots[index], bound[index], reference, request["blob_root"])
            for index, variant in enumerate(variants)
        ]
        if not null:
            self._original = self._state(candidate)
            problem = candidate.order(LOAD, None, self._policy.call_timeout_s).decode(errors="replace")
            if problem:
                return self._result(Finding("launch_failed", f"the shared object could not be loaded: {problem}"), {})
            changed = self._state_changed(candidate)
            if changed:
                return self._result(changed.during("when it was loaded"), {})
        return self._judge(subjects, candidate, twin, stand_in)

    def _judge(
        self, subjects: list[Subject], candidate: Side, twin: Side | None, stand_in: Side | None
    ) -> dict[str, Any]:
        null = self._request["mode"] == "null"
        for index, subject in enumerate(subjects):
            self._progress(f"validating {subject.label()}")
            subjects[index], finding = self._validate(subject, None if null else candidate)
            if finding:
                return self._result(finding, {}, subjects)
        self._valid = True
        results: dict[str, Any] = {}
        if twin is not None:
            schedule = Schedule(**self._request["schedule"])
            for subject in subjects:
                timing = Timing(subject, twin, candidate, stand_in or twin, self._policy, self._original)
                label = subject.label()
                outcome = timing.run(
                    schedule, lambda done, label=label: self._progress(f"timing {label}: {done} of {schedule.pairs}")
                )
                if isinstance(outcome, Finding):
                    return self._result(outcome, results, subjects)
                results[subject.variant["variant_id"]] = outcome.as_json()
        finding = None if null else self._state_changed(candidate)
        return self._result(finding, results, subjects)

    def _validate(self, subject: Subject, side: Side | None) -> tuple[Subject, Finding | None]:
        """The subject to time, on the inputs that it was found to need, and the first finding of its trials."""
        variant = subject.variant

        def trials(subject: Subject, **options: Any) -> Trials:
            return Trials(subject, side, self._policy, self._original, **options)

        found = validate(subject, variant, self._request["mode"], trials)
        if found.admission:
            self._admissions[variant["variant_id"]] = found.admission
        return found.subject, found.finding

    def _state_changed(self, candidate: Side) -> Finding | None:
        return process_changed(candidate, self._policy, self._state(candidate), self._original)

    def _state(self, candidate: Side) -> str:
        """The floating-point state of all threads of the candidate's process that can be asked."""
        return candidate.order(PREPARE, [], self._policy.call_timeout_s).decode(errors="replace")

    def _result(
        self, finding: Finding | None, samples: dict[str, Any], subjects: list[Subject] | None = None
    ) -> dict[str, Any]:
        notes = {s.variant["variant_id"]: s.notes for s in subjects or [] if s.notes}
        return {
            "finding": _finding_json(finding),
            "valid": self._valid,
            "variants": samples,
            "variant_notes": notes,
            "admissions": self._admissions,
        }

    def _start_candidate(self, size: int) -> Side:
        request = self._request
        limits = sandbox.Limits(**request["limits"])
        applied = sandbox.Applied()
        libraries = []
        for item in request["libraries"]:
            with open(item["path"], "rb") as file:
                libraries.append(candidate_side.Library(file.read(), item["entry"]))
        body = functools.partial(
            candidate_side.live,
            libraries=libraries,
            folder=self._folder,
            threads=request["threads"],
            limits=limits,
            applied=applied,
        )
        arena = Arena(size)
        prepare = functools.partial(sandbox.enter_namespaces, applied)
        side = self._start("candidate", body, arena, prepare, limits.memory_bytes)
        self._notes += [f"sandbox: {line}" for line in self._first_answer(side).splitlines()]
        return side

    def _start_twin(self, who: str, slots: list[Any], size: int) -> Side:
        request = self._request
        body = functools.partial(
            twin_side.live,
            reference=request["reference"],
            blob_root=request["blob_root"],
            variants=request["variants"],
            slots=slots,
            threads=request["threads"],
            backend_flags=request["backend_flags"],
        )
        arena = Arena(size)
        prepare = functools.partial(sandbox.enter_namespaces, sandbox.Applied())
        return self._start(who, body, arena, prepare, 1 << 40)

    def _start(self, who: str, body: Any, arena: Arena, prepare: Callable[[], None], memory_bytes: int) -> Side:
        close = [*self._close, *(descriptor for side in self._sides for descriptor in side.descriptors)]
        side = start(who, body, arena, prepare, memory_bytes, close)
        self._sides.append(side)
        return side

    def _first_answer(self, side: Side) -> str:
        return side.first_answer(_START_TIMEOUT_S).decode(errors="replace")


def _finding_json(finding: Finding | None) -> dict[str, str] | None:
    return None if finding is None else {"reason": finding.reason, "message": finding.message}
