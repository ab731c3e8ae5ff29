"""The timing pass on a GPU: the device's own times, put down to the calls that launched the work.

Events around calls would also measure the gaps between kernels, and a clock of the host does not see the device. So
the profiler records every kernel, copy and fill with the operation that launched it, and a range around each call,
both by one clock: what an operation launched belongs to the innermost range in which the operation began. The ranges
lengthen the host's part, so wall times come from other runs, without them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler import profile

from .capture_device import synchronize
from .capture_operators import Operator
from .capture_targets import Target, model_functions
from .capture_timing import label
from .capture_watch import observing, unwatched
from .entry import Workload
from .failures import Refusal

_PREFIX = "kforge call "
_RUNTIME_CALL = re.compile(r"cu(da)?[A-Z]")
_LEAST_RUNS, _MOST_RUNS = 3, 6
_LEAST_PLAIN_RUNS, _MOST_PLAIN_RUNS, _PLAIN_PART = 5, 15, 0.25


@dataclass(frozen=True)
class Work:
    """A kernel, copy or fill: when it was launched (host) and when the device did it, nanoseconds of one clock."""

    launched_ns: int
    start_ns: int
    duration_ns: int


@dataclass(frozen=True)
class Recording:
    """What the profiler saw of one run: the ranges by the number of their call, and the device's work."""

    ranges: dict[int, tuple[int, int]]
    work: list[Work]


class Ranges:
    """Watches a run: what was called in which call, with a profiler range around each."""

    def __init__(self) -> None:
        self.subjects: list[Any] = []
        self.parents: list[int] = []
        self._open: list[int] = []

    def around_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A `nn.Module.__call__` in a range."""
        ranges = self

        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if torch.compiler.is_compiling():
                return original(self, *args, **kwargs)
            with ranges._range(type(self)), unwatched(self):
                return original(self, *args, **kwargs)

        return __call__

    def around_function(self, target: Target) -> Callable[..., Any]:
        """The target's function in a range."""
        original = target.subject

        def ranged(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            with self._range(target), unwatched(original):
                return original(*args, **kwargs)

        return ranged

    def on_operator(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch operator's call in a range."""
        with self._range(operator):
            return operator.function(*args, **kwargs)

    @contextmanager
    def _range(self, subject: Any) -> Iterator[None]:
        place = len(self.subjects)
        self.subjects.append(subject)
        self.parents.append(self._open[-1] if self._open else -1)
        self._open.append(place)
        try:
            # The fast one does not go through the dispatcher, where the workload's own modes would see it.
            with torch._C._profiler._RecordFunctionFast(f"{_PREFIX}{place}"):
                yield
        finally:
            self._open.pop()


def profile_workload(workload: Workload, device: torch.device, budget_s: float) -> dict[str, Any]:
    """Time the workload on a GPU within about `budget_s` seconds: at least three runs of each kind.

    Returns what `time_workload` returns, of the device: `durations` are device times per call, contained calls
    included, `observed_us` the device time of the whole run; and `busy_us`, how long the device was busy in a run.
    `plain_us` is the wall time of runs without a profiler, the device waited for.
    Raises `Refusal` if the profiler sees nothing of the device.
    """
    functions = model_functions(workload.model, workload.search_path)
    # All plain runs come first: once it was used, the profiler stays attached and lengthens launches.
    _timed_run(workload, device)
    first_us = _timed_run(workload, device)
    count = min(max(_LEAST_PLAIN_RUNS, int(_PLAIN_PART * budget_s * 1e6 / first_us)), _MOST_PLAIN_RUNS)
    plain = [_timed_run(workload, device) for _ in range(count)]
    deadline = time.perf_counter() + (1 - _PLAIN_PART) * budget_s
    _profiled_run(workload, functions, device)
    runs: list[tuple[Ranges, Recording]] = []
    while len(runs) < _LEAST_RUNS or (len(runs) < _MOST_RUNS and time.perf_counter() < deadline):
        runs.append(_profiled_run(workload, functions, device))
    return {"plain_us": plain, **combine(runs)}


def _timed_run(workload: Workload, device: torch.device) -> float:
    calls = workload.prepare()
    synchronize(device)
    start = time.perf_counter_ns()
    results = workload.execute(calls)
    synchronize(device)
    end = time.perf_counter_ns()
    del results
    return (end - start) / 1000


def _profiled_run(workload: Workload, functions: Sequence[Target], device: torch.device) -> tuple[Ranges, Recording]:
    calls = workload.prepare()
    synchronize(device)
    ranges = Ranges()
    with profile(use_device="cuda" if device.type == "cuda" else None, use_kineto=True) as profiler:
        with observing(workload.model, functions, ranges):
            results = workload.execute(calls)
        synchronize(device)
    del results
    assert profiler.kineto_results is not None
    return ranges, read(profiler.kineto_results.events())


def read(events: Sequence[Any]) -> Recording:
    """Ranges and work from the profiler's events.

    Work knows the operation that launched it, the innermost one, by correlation; where none did (a launch by the
    driver's interface alone) it knows its launching call of the runtime.
    """
    ranges: dict[int, tuple[int, int]] = {}
    operations: dict[int, int] = {}
    launches: dict[int, int] = {}
    found = []
    for event in events:
        if event.device_type() == DeviceType.CPU:
            name = event.name()
            if name.startswith(_PREFIX):
                ranges[int(name[len(_PREFIX) :])] = (event.start_ns(), event.end_ns())
            if _RUNTIME_CALL.match(name):
                launches[event.correlation_id()] = event.start_ns()
            elif not event.is_user_annotation():
                # The profiler's own doings within an operation bear its number too, and come after it.
                operations.setdefault(event.correlation_id(), event.start_ns())
        elif event.device_type() == DeviceType.CUDA and not event.is_user_annotation():
            found.append(event)
    work = []
    for event in found:
        linked = event.linked_correlation_id()
        launched = operations.get(linked, 0) if linked else launches.get(event.correlation_id(), 0)
        work.append(Work(launched, event.start_ns(), event.duration_ns()))
    return Recording(ranges, work)


def combine(runs: Sequence[tuple[Ranges, Recording]]) -> dict[str, Any]:
    """`labels`, `calls`, `durations`, `observed_us`, `busy_us` and `differing` of several runs of one workload.

    Runs whose calls differ from the first run's, or of whose calls the profiler lost some, are left out.
    """
    labels: dict[str, int] = {}
    calls: list[list[int]] = []
    durations, observed, busy = [], [], []
    for ranges, recording in runs:
        sequence = [
            [labels.setdefault(label(subject), len(labels)), parent]
            for subject, parent in zip(ranges.subjects, ranges.parents, strict=True)
        ]
        if (calls and sequence != calls) or len(recording.ranges) != len(sequence):
            continue
        calls = sequence
        durations.append([time_ns / 1000 for time_ns in inclusive_ns(recording, ranges.parents)])
        observed.append(sum(item.duration_ns for item in recording.work) / 1000)
        busy.append(busy_ns(recording.work) / 1000)
    if not any(observed):
        raise Refusal(
            "contract",
            "target_unavailable: torch's profiler recorded no work of the GPU, by which capture measures: another "
            "profiler is attached, or CUPTI (nvidia-cuda-cupti) is missing or not permitted",
        )
    return {
        "observed_us": observed,
        "busy_us": busy,
        "labels": list(labels),
        "calls": calls,
        "durations": durations,
        "differing": len(runs) - len(durations),
    }


def inclusive_ns(recording: Recording, parents: Sequence[int]) -> list[int]:
    """The device's time for each call and all that it contains."""
    times = [0] * len(parents)
    waiting = sorted(recording.ranges.items(), key=lambda item: (item[1][0], -item[1][1]))
    next_range, open_ranges = 0, []
    for item in sorted(recording.work, key=lambda work: work.launched_ns):
        while next_range < len(waiting) and waiting[next_range][1][0] <= item.launched_ns:
            open_ranges.append(waiting[next_range])
            next_range += 1
        open_ranges = [opened for opened in open_ranges if opened[1][1] >= item.launched_ns]
        if open_ranges:
            times[open_ranges[-1][0]] += item.duration_ns
    for place in reversed(range(len(parents))):
        if parents[place] >= 0:
            times[parents[place]] += times[place]
    return times


def busy_ns(work: Sequence[Work]) -> int:
    """How long at least one kernel, copy or fill was at work."""
    total = end = 0
    for item in sorted(work, key=lambda item: item.start_ns):
        finish = item.start_ns + item.duration_ns
        total += max(0, finish - max(item.start_ns, end))
        end = max(end, finish)
    return total
