"""Clocks for in-model acceptance: of the host, or of the device by events on its current stream."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch

_MOST_CALLS_KEPT = 256


class HostTime:
    """Moments of a CPU workload, in nanoseconds."""

    free = True
    """Whether a mark costs nothing to speak of beside what is measured."""

    def mark(self) -> int:
        """Now."""
        return time.perf_counter_ns()

    def between(self, start: int, end: int) -> float:
        """Nanoseconds."""
        return end - start

    def settle(self) -> None:
        """Wait until all that was begun is done."""


class DeviceTime(HostTime):
    """Moments in the order of the GPU's current stream: what a call takes there, waiting for the host included."""

    free = False

    def mark(self) -> Any:
        """An event behind all that was enqueued."""
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, start: Any, end: Any) -> float:
        """Nanoseconds; the events must have been reached."""
        return start.elapsed_time(end) * 1e6

    def settle(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()


class Clock:
    """Times of the calls of one card, in order, with the shapes they were made with; nested calls count once."""

    def __init__(self, time_of: HostTime) -> None:
        self._time = time_of
        self._calls: list[tuple[str, Any, Any]] = []
        self._depth = 0

    def answer(self) -> dict[str, Any]:
        """`us` in all and `calls` as `[shapes, us]`; of very many calls every n-th is kept. Once the work is done."""
        calls = [(shapes, self._time.between(start, end) / 1e3) for shapes, start, end in self._calls]
        step = max(1, len(calls) // _MOST_CALLS_KEPT)
        return {"us": sum(us for _, us in calls), "calls": [list(call) for call in calls[::step]], "count": len(calls)}

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function with this clock around it."""
        mark = self._time.mark

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._depth += 1
            start = mark()
            try:
                return function(*args, **kwargs)
            finally:
                end = mark()
                self._depth -= 1
                if self._depth == 0:
                    self._calls.append((_shapes(args, kwargs), start, end))

        return timed


def _shapes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    tensors = [item for item in (*args, *kwargs.values()) if isinstance(item, torch.Tensor)]
    return " ".join("x".join(map(str, tensor.shape)) for tensor in tensors)
