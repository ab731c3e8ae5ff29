"""The timing pass: the workload with nothing but a clock around each call."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from .capture_targets import Target, class_target, model_functions, observing
from .entry import Workload

Event = tuple[Any, int, int]
_CALIBRATION = 2000


class Stopwatch:
    """Records what was called, when it began and how long it took, in the order of the calls."""

    def __init__(self) -> None:
        self.events: list[Event | None] = []

    def around_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A `nn.Module.__call__` that is timed."""
        events, now = self.events, time.perf_counter_ns

        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            place = len(events)
            events.append(None)
            start = now()
            try:
                return original(self, *args, **kwargs)
            finally:
                events[place] = (type(self), start, now())

        return __call__

    def around_function(self, target: Target) -> Callable[..., Any]:
        """The target's function, timed."""
        events, now, original = self.events, time.perf_counter_ns, target.subject

        def timed(*args: Any, **kwargs: Any) -> Any:
            place = len(events)
            events.append(None)
            start = now()
            try:
                return original(*args, **kwargs)
            finally:
                events[place] = (target, start, now())

        return timed

    def overhead_ns(self) -> tuple[float, float]:
        """What watching adds to a call itself and to whatever contains it, nanoseconds per call."""
        target = Target("function", "nothing", "nothing", lambda: None)
        timed = self.around_function(target)
        for _ in range(_CALIBRATION):
            timed()
        inside = min(end - start for _, start, end in filter(None, self.events))
        start = time.perf_counter_ns()
        for _ in range(_CALIBRATION):
            timed()
        total = (time.perf_counter_ns() - start) / _CALIBRATION
        self.events.clear()
        return float(inside), total


def time_workload(workload: Workload, budget_s: float) -> dict[str, Any]:
    """Time the workload plainly and with a clock around each call, in turns, within about `budget_s` seconds.

    Returns `plain_us` and `observed_us` per run, `labels`, `calls` (label index, index of the enclosing call or
    -1) in the order of the calls, and `durations` (microseconds per call, one list per run). Runs whose calls
    differ from the first run's are left out and counted in `differing`.
    """
    functions = model_functions(workload.model)
    watch = Stopwatch()
    overhead = watch.overhead_ns()
    _timed_run(workload)
    first_us = _timed_run(workload)
    rounds = max(3, min(15, int(budget_s * 1e6 / max(2 * first_us, 1.0))))
    plain, observed = [], []
    recorded: list[list[Event]] = []
    for _ in range(rounds):
        plain.append(_timed_run(workload))
        watch.events.clear()
        with observing(workload.model, functions, watch.around_call, watch.around_function):
            observed.append(_timed_run(workload))
        recorded.append([event for event in watch.events if event is not None])
    return {"plain_us": plain, **_read(recorded, observed, overhead)}


def _timed_run(workload: Workload) -> float:
    calls = workload.prepare()
    start = time.perf_counter_ns()
    results = workload.execute(calls)
    end = time.perf_counter_ns()
    del results
    return (end - start) / 1000


def _read(recorded: list[list[Event]], observed: list[float], overhead: tuple[float, float]) -> dict[str, Any]:
    labels: dict[str, int] = {}
    calls: list[list[int]] = []
    durations: list[list[float]] = []
    kept_us = []
    for run, wall_us in zip(recorded, observed, strict=True):
        parents, below = _nest(run)
        sequence = [
            [labels.setdefault(_label(subject), len(labels)), parent]
            for (subject, _, _), parent in zip(run, parents, strict=True)
        ]
        if calls and sequence != calls:
            continue
        calls = sequence
        kept_us.append(max(wall_us - len(run) * overhead[1] / 1000, 0.001))
        inside, total = overhead
        durations.append(
            [
                max(end - start - inside - count * total, 1.0) / 1000
                for (_, start, end), count in zip(run, below, strict=True)
            ]
        )
    return {
        "observed_us": kept_us,
        "labels": list(labels),
        "calls": calls,
        "durations": durations,
        "differing": len(recorded) - len(durations),
    }


def _nest(run: list[Event]) -> tuple[list[int], list[int]]:
    """Index of the enclosing call, and number of calls contained at any depth, for each call of a run."""
    parents, below = [], [0] * len(run)
    open_calls: list[int] = []
    for index, (_, start, _) in enumerate(run):
        while open_calls and run[open_calls[-1]][2] <= start:
            open_calls.pop()
        parents.append(open_calls[-1] if open_calls else -1)
        for outer in open_calls:
            below[outer] += 1
        open_calls.append(index)
    return parents, below


def _label(subject: Any) -> str:
    return subject.label if isinstance(subject, Target) else class_target(subject).label
