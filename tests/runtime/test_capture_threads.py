"""Calls in several threads: the thread of the workload is watched, the others are left alone."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime.capture_targets import model_functions
from kforge_mcp.runtime.capture_timing import Stopwatch
from kforge_mcp.runtime.capture_watch import observing
from kforge_mcp.runtime.entry import load_workload

EXTRA = """
import concurrent.futures
import threading
POOL = concurrent.futures.ThreadPoolExecutor(2)
def inner(x):
    return x * 2.0
def outer(x, barrier):
    barrier.wait(10)
    y = inner(x)
    barrier.wait(10)
    return y + 1.0
def both(x):
    # Each thread's call begins before the other's has ended.
    barrier = threading.Barrier(2)
    other = POOL.submit(outer, x, barrier)
    return outer(x, barrier) + other.result()
class Threaded(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))
    def forward(self, x):
        return sum(POOL.map(self._run, self.parts, [x] * 4))
    @staticmethod
    def _run(part, x):
        with torch.no_grad():
            return part(x)
"""


def test_calls_that_interleave_in_two_threads_keep_their_own_nesting(sample):
    captured = sample("model(lambda self, x: both(x) + inner(x))", extra=EXTRA)
    calls = captured.answer["calls"]
    names = [label.rpartition(":")[2] for label, _, _ in calls]
    parents = {name: names[parent] if parent >= 0 else "" for name, (_, _, parent) in zip(names, calls, strict=True)}
    assert names.count("outer") == 1
    assert names.count("inner") == 2
    assert parents["outer"] == "both"
    assert "2 calls in other threads are left out" in str(captured.answer["notes"])
    assert len(captured.card("inner")["variants"]) == 1


def test_modules_called_by_a_pool_are_part_of_what_waits_for_them(sample):
    captured = sample("model(lambda self, x: self.k(x) + 1, k=Threaded())", extra=EXTRA)
    assert {"Linear", "_run"}.isdisjoint(captured.names())
    assert "8 calls in other threads are left out" in str(captured.answer["notes"])


@pytest.mark.parametrize("operators", [False, True])
def test_both_passes_see_the_same_calls_of_a_threaded_workload(sample, operators):
    captured = sample("model(lambda self, x: both(x) + inner(x))", extra=EXTRA)
    workload = load_workload(f"{captured.module.__file__}:build", "")
    watch = Stopwatch()
    functions = model_functions(workload.model, workload.search_path)
    before = torch.nn.Module.__call__
    with observing(workload.model, functions, watch, operators=operators) as elsewhere:
        workload.run()
    assert elsewhere.calls == 2
    assert torch.nn.Module.__call__ is before
    named = [event[0].name for event in watch.events if event and hasattr(event[0], "sites")]
    assert named == ["both", "outer", "inner", "inner"]
