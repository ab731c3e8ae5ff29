"""The timing pass: the workload with nothing but a clock around each call."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .capture_operators import Operator
from .capture_targets import Target, class_target, model_functions
from .capture_watch import observing, unwatched
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
            if torch.compiler.is_compiling():
                return original(self, *args, **kwargs)
            place = len(events)
            events.append(None)
            with unwatched(self):
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
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            place = len(events)
            events.append(None)
            with unwatched(original):
                start = now()
                try:
                    return original(*args, **kwargs)
                finally:
                    events[place] = (target, start, now())

        return timed

    def on_operator(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch operator's call, timed."""
        events, now = self.events, time.perf_counter_ns
        place = len(events)
        events.append(None)
        start = now()
        try:
            return operator.function(*args, **kwargs)
        finally:
            events[place] = (operator, start, now())

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
    differ from the first run's are left out and counted in `differing`. Modules and functions are timed in runs in
    which operators are not: watching these lengthens everything that contains them.
    """
    functions = model_functions(workload.model, workload.search_path)
    watch = Stopwatch()
    overhead = watch.overhead_ns()
    _timed_run(workload)
    first_us = _timed_run(workload)
    rounds = max(3, min(15, int(budget_s * 1e6 / max(3.5 * first_us, 1.0))))
    plain, observed = [], []
    outer: list[list[Event]] = []
    full: list[list[Event]] = []
    for _ in range(rounds):
        plain.append(_timed_run(workload))
        for operators, runs in ((False, outer), (True, full)):
            watch.events.clear()
            with observing(workload.model, functions, watch, operators=operators):
                wall_us = _timed_run(workload)
            runs.append([event for event in watch.events if event is not None])
            if not operators:
                observed.append(wall_us)
    return {"plain_us": plain, **_read(outer, observed, overhead, full)}


def _timed_run(workload: Workload) -> float:
    calls = workload.prepare()
    start = time.perf_counter_ns()
    results = workload.execute(calls)
    end = time.perf_counter_ns()
    del results
    return (end - start) / 1000


def _read(
    outer: Sequence[list[Event]],
    observed: Sequence[float],
    overhead: tuple[float, float],
    full: Sequence[list[Event]] = (),
) -> dict[str, Any]:
    """Bring together the runs `outer`, without operators, and `full`, with them; the latter may be none."""
    labels: dict[str, int] = {}
    calls: list[list[int]] = []
    durations: list[list[float]] = []
    kept_us = []
    inside, total = overhead
    for run, wall_us, with_operators in zip(outer, observed, full or outer, strict=True):
        _, below = _nest(run)
        own = [
            max(end - start - inside - count * total, 1.0) / 1000
            for (_, start, end), count in zip(run, below, strict=True)
        ]
        parents, _ = _nest(with_operators)
        sequence = [
            [labels.setdefault(label(subject), len(labels)), parent]
            for (subject, _, _), parent in zip(with_operators, parents, strict=True)
        ]
        places = [index for index, event in enumerate(with_operators) if not isinstance(event[0], Operator)]
        if [label(event[0]) for event in run] != [label(with_operators[index][0]) for index in places]:
            continue
        if calls and sequence != calls:
            continue
        calls = sequence
        kept_us.append(max(wall_us - len(run) * total / 1000, 0.001))
        merged = [max(end - start - inside, 1.0) / 1000 for _, start, end in with_operators]
        for index, duration in zip(places, own, strict=True):
            merged[index] = duration
        durations.append(merged)
    return {
        "observed_us": kept_us,
        "labels": list(labels),
        "calls": calls,
        "durations": durations,
        "differing": len(outer) - len(durations),
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


def label(subject: Any) -> str:
    """How the passes name what was called: a torch operator, a target, or a module class."""
    if isinstance(subject, Operator):
        return f"torch {subject.home}"
    return subject.label if isinstance(subject, Target) else class_target(subject).label
