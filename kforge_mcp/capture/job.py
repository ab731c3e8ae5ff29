"""The capture job: from an entry to a project with its cards in the workspace."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from kforge_mcp.capture.cards import build_cards, observed_rates
from kforge_mcp.capture.ceilings import allowed, known_or_measured, raised
from kforge_mcp.capture.entries import Entry, placed, resolve_entry
from kforge_mcp.capture.listing import card_row, sort_cards
from kforge_mcp.capture.times import WorkloadTimes, merge_times
from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.interpreter import find_interpreter
from kforge_mcp.engine.processes import RuntimeProcess
from kforge_mcp.errors import RuntimeFailure, UsageError
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.project import DeviceInfo, Interpreter, Project
from kforge_mcp.store import cards as card_store
from kforge_mcp.store import projects as project_store

MAX_SAMPLE_BYTES = 1 << 30
_TIMING_S = 8.0
_CEILINGS_TIMEOUT_S = 120.0
_TOP_CARDS = 10
_LOG_TAIL = 1200
_MUCH_IDLE = 0.5
_MOST_LOST = 6


def capture(
    ctx: JobContext, *, entry: str, name: str, target: str, python: str, project_dir: str, timeout_s: float
) -> dict[str, Any]:
    """Capture a workload and return the result of `capture_model`.

    Raises `UsageError` if the entry, the interpreter or the workload cannot be used, or time runs out.
    """
    environment = ctx.environment
    bases = [project_dir, environment.get("CLAUDE_PROJECT_DIR", ""), ctx.job.cwd]
    found = resolve_entry(entry, bases)
    ctx.progress("looking for the model interpreter")
    folder = project_dir or (str(found.path.parent) if found.path else ctx.job.cwd)
    interpreter = find_interpreter(python, found.path or Path(folder), environment)
    passes = _Passes(ctx, found, interpreter, folder, target, timeout_s)
    with ExitStack() as held:
        timing = passes.time(held)
        device = DeviceInfo(**timing["device"])
        ceilings = known_or_measured(ctx.workspace, device, interpreter, lambda: passes.measure(device))
        if device.target == "cpu":
            held.close()
        # A GPU is kept: whoever timed on it meanwhile would find it busy.
        sampled = passes.sample(str(ctx.workspace.blobs.root))
    times = merge_times(timing, sampled["calls"])
    ceilings = raised(allowed(ceilings, timing["flags"]), observed_rates(sampled, times))
    project = Project(
        project_id=new_id("proj"),
        name=name or found.name,
        entry=entry,
        entry_path=str(found.path or found.text),
        resolved_entry=placed(found) if device.target == "cuda" else found.text,
        project_dir=passes.project_dir,
        target=device.target,
        interpreter=interpreter,
        device=device.model_copy(update={"ceilings": ceilings}),
        workload_us=times.workload_us,
        idle_share=times.idle_share,
        backend_flags=timing["flags"],
        workload_calls=timing["workload_calls"],
        created_at=now(),
        log=passes.keep_log(),
    )
    cards = build_cards(project.project_id, sampled, times, ceilings)
    with ctx.workspace.transaction() as session:
        project_store.save(session, project)
        for card in cards:
            card_store.save(session, card)
    notes = [*sampled["notes"], *_timing_notes(timing, times)]
    return {
        "project_id": project.project_id,
        "name": project.name,
        "target": project.target,
        "device": project.device.name,
        "interpreter": interpreter.model_dump(mode="json"),
        "entry": entry,
        "entry_path": project.entry_path,
        "workload_us": project.workload_us,
        "cards": len(cards),
        "top_cards": [card_row(card) for card in sort_cards(cards)[:_TOP_CARDS]],
        "notes": notes,
    }


def _timing_notes(timing: dict[str, Any], times: WorkloadTimes) -> list[str]:
    notes = []
    if times.idle_share >= _MUCH_IDLE:
        where = "the GPU is idle" if "busy_us" in timing else "passes outside of torch operators"
        notes.append(
            f"{times.idle_share:.0%} of the time {where}: the workload is bound by Python and launches, so cards that "
            "fuse many operators gain most"
        )
    if timing["differing"]:
        notes.append(f"{timing['differing']} timed runs made other calls than the first and are left out")
    if not times.aligned:
        notes.append("the timing pass made other calls than the sampling pass: variants carry their card's mean time")
    return notes


class _Passes:
    """Runs the passes, each in a process of its own, and explains what goes wrong in them."""

    def __init__(
        self, ctx: JobContext, entry: Entry, interpreter: Interpreter, project_dir: str, target: str, timeout_s: float
    ) -> None:
        self._ctx = ctx
        self._entry = entry
        self._interpreter = interpreter
        self.project_dir = project_dir
        self._target = target
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._log = ctx.scratch() / "capture.log"

    def time(self, held: ExitStack) -> dict[str, Any]:
        """The timing pass, with the lock of the workload's device, which `held` then has.

        Which device that is shows when the workload is built; until then the GPU is held that it might use.
        """
        with self._explained("timing"), self._process() as process:
            gpu = self._call(process, "gpu", {"target": self._target})
            key = gpu.get("uuid", "")
            if key:
                held.enter_context(self._ctx.device_lock(key))
            payload = self._payload("timing", budget_s=min(_TIMING_S, self._timeout_s / 6))
            device = self._call(process, "load", payload, 0.05, 0.3)
            if (wanted := device.get("uuid") or device["target"]) != key:
                held.close()
                held.enter_context(self._ctx.device_lock(wanted))
            return self._call(process, "capture", payload, 0.3, 0.4)

    def sample(self, blob_root: str) -> dict[str, Any]:
        """The sampling pass; begun again where a proof cost the GPU, with the variant whose it was."""
        lost: list[str] = []
        payload = self._payload("sampling", blob_root=blob_root, max_bytes=MAX_SAMPLE_BYTES, lost=lost)
        while True:
            try:
                with self._explained("sampling"), self._process() as process:
                    return self._call(process, "capture", payload, 0.5, 0.95)
            except RuntimeFailure as failure:
                if failure.kind != "device_lost":
                    raise
                if len(lost) == _MOST_LOST:
                    calls = ", ".join(dict.fromkeys(lost))
                    raise UsageError(
                        f"capture of {self._entry.text} failed: calls run again on like inputs cost the GPU "
                        f"{len(lost)} times ({calls})"
                    ) from failure
                lost.append(str(failure))

    def measure(self, device: DeviceInfo) -> dict[str, Any]:
        """The ceilings of the device, with the threads that it was used with."""
        self._ctx.progress("measuring the device's ceilings", 0.4)
        with self._ctx.runtime(self._interpreter, log=self._log) as process:
            payload = {"target": device.target, "threads": device.threads}
            return process.call("ceilings", payload, timeout_s=_CEILINGS_TIMEOUT_S)

    def _payload(self, which: str, **extra: Any) -> dict[str, Any]:
        return {
            "pass": which,
            "entry": self._entry.text,
            "project_dir": self.project_dir,
            "target": self._target,
            **extra,
        }

    def _process(self) -> RuntimeProcess:
        return self._ctx.runtime(self._interpreter, cwd=self.project_dir, log=self._log)

    def _call(
        self, process: RuntimeProcess, operation: str, payload: dict[str, Any], start: float = 0.0, end: float = 0.0
    ) -> dict[str, Any]:
        """One request; progress goes from `start` to `end`."""

        def report(event: dict[str, Any]) -> None:
            self._ctx.progress(event["message"], start + (end - start) * event.get("fraction", 0.0))

        left_s = max(1.0, self._deadline - time.monotonic())
        return process.call(operation, payload, timeout_s=left_s, on_event=report)

    def keep_log(self) -> str:
        """What the model's code printed, as a blob."""
        return self._ctx.workspace.blobs.put_file(self._log) if self._log.exists() else ""

    @contextmanager
    def _explained(self, which: str) -> Iterator[None]:
        try:
            yield
        except RuntimeFailure as failure:
            where = f"{self._entry.text} (run by {self._interpreter.executable})"
            if failure.kind == "timed_out":
                raise UsageError(
                    f"capture of {where} did not end within {self._timeout_s:g} s; it was in the {which} pass. Raise "
                    f"timeout_s, or make the workload smaller.{self._tail()}"
                ) from failure
            if failure.kind == "crashed":
                raise UsageError(
                    f"the model's process died during capture of {where}: {failure}. Run the entry's function in that "
                    f"Python to see why.{self._tail()}"
                ) from failure
            if failure.kind in ("user_error", "contract"):
                raise UsageError(f"capture of {where} failed: {failure}") from failure
            raise

    def _tail(self) -> str:
        text = self._log.read_text(errors="replace").strip() if self._log.exists() else ""
        return f"\nThe end of its output:\n{text[-_LOG_TAIL:]}" if text else ""
