"""In-model acceptance under CUDA graphs: the workload captured once for each arrangement, and the replays paired."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any

import torch

from .acceptance_clock import DeviceTime
from .acceptance_outputs import Yardstick, tensors_of
from .entry import Workload

_WARM_UPS = 2
_FEWEST_US = 500.0
"""Replays are repeated within one measurement until it is about this long."""

Arrange = Callable[[str], AbstractContextManager[None]]


class Recorded:
    """One arrangement of the workload as a graph, with its inputs and outputs."""

    def __init__(self, workload: Workload) -> None:
        self._calls = workload.prepare()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                workload.execute(workload.prepare())
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._results = workload.execute(self._calls)

    def results(self) -> list[torch.Tensor]:
        """The outputs after one replay."""
        self._graph.replay()
        torch.cuda.synchronize()
        return tensors_of(self._results)

    def timed(self, repeats: int) -> float:
        """Microseconds of one replay."""
        clock = DeviceTime()
        clock.settle()
        start = clock.mark()
        for _ in range(repeats):
            self._graph.replay()
        end = clock.mark()
        clock.settle()
        return clock.between(start, end) / 1e3 / repeats


def measure(
    workload: Workload, cards: list[str], arrange: Arrange, measure_of: Yardstick, *, rounds: int, seed: int
) -> dict[str, Any]:
    """`{"captured", "reason", "outputs", "rounds"}`; each round has the microseconds of every arrangement.

    `arrange` puts the package into an arrangement (`without`, `with`, `off:<card>`). A workload that cannot be captured
    (it reads a value back, its shapes follow from values) is no error: `reason` says what stood against it.
    """
    names = ["without", "with", *(f"off:{card}" for card in cards)]
    recorded: dict[str, Recorded] = {}
    try:
        for name in names:
            with arrange(name):
                recorded[name] = Recorded(workload)
        outputs = measure_of.compare(recorded["with"].results())
        recorded["without"].results()
    except Exception as error:  # noqa: BLE001 - whatever forbids a capture, the eager mode remains
        with suppress(RuntimeError):
            torch.cuda.synchronize()
        return {"captured": False, "reason": f"{type(error).__name__}: {str(error)[:300]}", "rounds": []}
    warm = min(graph.timed(1) for graph in recorded.values())
    repeats = max(1, round(_FEWEST_US / max(warm, 1.0)))
    order = random.Random(seed)
    again = {"without_again": "without", "with_again": "with"}
    found = []
    for _ in range(rounds):
        shuffled = order.sample([*names, *again], len(names) + len(again))
        found.append({name: recorded[again.get(name, name)].timed(repeats) for name in shuffled})
    return {"captured": True, "reason": "", "outputs": outputs, "rounds": found}
