"""The device as the referee uses it: waiting, capturing graphs, and the stopwatch of timed calls."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from .device import company
from .driver import Driver
from .nvml import Nvml, NvmlError
from .program import LaunchError, Program

_FIRST_SLEEP_US = 40.0
_LONGEST_SLEEP_US = 50_000.0
_STEPS_SLEEP_US = 2000.0
_USUAL = "power cap"
"""A heavy operator reaches it on its own: eager and candidate alike."""
_FLUSH_CACHES = 1.25
"""Each of the two buffers that flush the L2 cache is this many times its size."""


class Unavailable(Exception):
    """There is no device that torch can use here; the message says why."""


class Gpu:
    """One CUDA device, its primary context made in this process."""

    def __init__(self, ordinal: int) -> None:
        """Raises `Unavailable`, and what torch and the driver raise of a device that does not work."""
        if not torch.backends.cuda.is_built():
            raise Unavailable(f"torch {torch.__version__} of the model interpreter is built without CUDA")
        if not torch.cuda.is_available():
            raise Unavailable("torch finds no CUDA device: is the driver there, and is CUDA_VISIBLE_DEVICES right?")
        torch.cuda.set_device(ordinal)
        torch.cuda.init()
        self.device = torch.device("cuda", ordinal)
        self._stream = torch.cuda.Stream(self.device)
        self.driver = Driver(ordinal)
        size = max(int(_FLUSH_CACHES * self.driver.attribute("l2_bytes")), 1 << 20) // 4
        self._written = torch.empty(size, device=self.device)
        self._read = torch.zeros(size, device=self.device)
        self._total = torch.empty((), device=self.device)
        self._start, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._cycles_per_us = max(self.driver.attribute("clock_khz"), 1_000_000) / 1000
        self._sleep_us = _FIRST_SLEEP_US
        self.uuid = self.driver.uuid()
        try:
            self._nvml: Nvml | None = Nvml(self.uuid)
        except NvmlError:
            self._nvml = None

    def slowed(self) -> str:
        """What slows the device's clocks beyond its usual power management; empty if nothing does, or none tells."""
        if self._nvml is None:
            return ""
        try:
            return ", ".join(one for one in self._nvml.clocks().slowed if one != _USUAL)
        except NvmlError:
            self._nvml = None
            return ""

    def company(self) -> str:
        """Who else uses the device, in a sentence; empty if nobody does."""
        return company(self.uuid).message(f"device {self.uuid}")

    def synchronize(self) -> None:
        """Wait for all that was enqueued; raises the error of a kernel that failed."""
        torch.cuda.synchronize(self.device)

    def memory(self) -> tuple[int, int]:
        """Free and total bytes of the device; what torch's allocator holds unused counts as free."""
        free, total = self.driver.memory()
        return free + torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device), total

    def release(self) -> None:
        """Give memory that is not in use back to the device."""
        torch.cuda.empty_cache()

    def load(self, image: bytes, bound: dict[str, Any], kernels: Mapping[str, str]) -> Program:
        """A candidate's program, loaded. Raises `LaunchError`."""
        return Program(self.driver, image, bound, kernels)

    def pool(self) -> Any:
        """A memory pool that captured graphs may share."""
        return torch.cuda.graph_pool_handle()

    def capture(self, call: Callable[[], Any], pool: Any) -> tuple[Callable[[], None], Any] | None:
        """The call as a CUDA graph: what replays it, and its result in the graph's memory; None if it cannot be one.

        It has run before, so that nothing is loaded or chosen while it is captured.
        """
        graph = torch.cuda.CUDAGraph()
        self.synchronize()
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        result: Any = None
        try:
            with torch.cuda.stream(self._stream), torch.no_grad(), _capturing(graph, pool):
                result = call()
        except (RuntimeError, LaunchError):
            # A call that waits for the device, or draws random numbers by its own generator, cannot be captured.
            self.synchronize()
            return None
        torch.cuda.current_stream(self.device).wait_stream(self._stream)
        return graph.replay, result

    def time(self, enqueue: Callable[[], None]) -> float | None:
        """Device seconds of what `enqueue` enqueues, from a cold L2 cache; None if the host was too slow for it.

        The start is behind a kernel that sleeps until all is enqueued, so the host's own time is no part of it.
        """
        self.driver.reset_persisting_l2()
        self._written.fill_(1.0)
        torch.sum(self._read, dim=0, out=self._total)
        torch.cuda._sleep(int(self._sleep_us * self._cycles_per_us))
        self._start.record()
        enqueue()
        self._end.record()
        late = self._start.query()
        self._end.synchronize()
        if late and self._sleep_us < _LONGEST_SLEEP_US:
            self._sleep_us *= 2
            return None
        return self._start.elapsed_time(self._end) * 1e-3

    def time_steps(self, enqueue: Callable[[Callable[[int], None]], None], count: int) -> list[float]:
        """Device seconds of each of `count` steps; `enqueue` calls what it is given after it enqueued a step."""
        events = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        torch.cuda._sleep(int(_STEPS_SLEEP_US * self._cycles_per_us))
        events[0].record()
        enqueue(lambda step: events[step + 1].record())
        self.synchronize()
        return [before.elapsed_time(after) * 1e-3 for before, after in itertools.pairwise(events)]


@contextlib.contextmanager
def _capturing(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Capture without the garbage collection and cache clearing of `torch.cuda.graph`, which cost more than a trial."""
    graph.capture_begin(pool=pool, capture_error_mode="thread_local")
    try:
        yield
    except BaseException:
        with contextlib.suppress(RuntimeError):
            graph.capture_end()
        raise
    graph.capture_end()
