"""How long each step of a program takes on the device, and how much of that is in the candidate's own kernels."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .program import Program

REPEATS = 15
MOST_STEPS = 64
"""Programs of more steps are timed as a whole only: events between them would be most of what is timed."""
_SLEEP_CYCLES = 400_000
_CYCLES_A_STEP = 40_000


def step_times_us(
    program: Program,
    tensors: Callable[[], tuple[Sequence[Any], Sequence[Any], Sequence[Any]]],
    flush: Callable[[], Any],
) -> list[float]:
    """The median time of each step, from an event to the next, in microseconds; empty for programs of many steps.

    `tensors` gives inputs, outputs and workspaces of a call; `flush` is called before each. A sleep in front hides
    the host's part. Raises LaunchError.
    """
    steps = len(program.kinds)
    if steps > MOST_STEPS:
        return []
    spans: list[list[float]] = []
    for _ in range(REPEATS):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(steps + 1)]
        flush()
        torch.cuda._sleep(_SLEEP_CYCLES + _CYCLES_A_STEP * steps)
        events[0].record()
        program.run(*tensors(), after_step=lambda position, events=events: events[position + 1].record())
        events[-1].synchronize()
        spans.append([a.elapsed_time(b) * 1e3 for a, b in itertools.pairwise(events)])
    return [sorted(times)[REPEATS // 2] for times in zip(*spans, strict=True)]


def own_share(kinds: Sequence[str], times_us: Sequence[float]) -> float | None:
    """Part of the time in launches of own kernels, 0 to 1; None where it was not measured.

    Without operator calls it is 1, without launches 0, whatever the times.
    """
    launches = [kind == "launch" for kind in kinds]
    if all(launches) or not any(launches):
        return float(all(launches))
    total = sum(times_us)
    if len(times_us) != len(kinds) or total <= 0:
        return None
    return sum(time for own, time in zip(launches, times_us, strict=True) if own) / total
