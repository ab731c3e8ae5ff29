"""The timing pass: what it records, and arithmetic on constructed events."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kforge_mcp.runtime import capture_timing
from kforge_mcp.runtime.capture_targets import class_target
from kforge_mcp.runtime.capture_timing import time_workload
from kforge_mcp.runtime.ceilings import measure
from kforge_mcp.runtime.entry import Workload
from kforge_mcp.runtime.failures import Refusal

_A, _B = class_target(nn.Linear), class_target(nn.ReLU)


def test_calls_carry_their_enclosing_call_and_lose_the_clocks_own_time():
    run = [(_A, 0, 10_000), (_B, 1_000, 3_000), (_B, 4_000, 5_000), (_A, 11_000, 12_000)]
    read = capture_timing._read([run], [20.0], (100.0, 500.0))
    assert read["labels"] == [_A.label, _B.label]
    assert read["calls"] == [[0, -1], [1, 0], [1, 0], [0, -1]]
    assert read["durations"] == [pytest.approx([8.9, 1.9, 0.9, 0.9])]
    assert read["observed_us"] == [pytest.approx(18.0)]


def test_runs_with_other_calls_are_left_out_and_counted():
    first, other = [(_A, 0, 1000)], [(_B, 0, 1000)]
    read = capture_timing._read([first, other, first], [1.0, 2.0, 3.0], (0.0, 0.0))
    assert read["differing"] == 1
    assert read["observed_us"] == [1.0, 3.0]
    assert len(read["durations"]) == 2


def test_a_workload_is_timed_plainly_and_call_by_call():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    before = torch.nn.Module.__call__
    workload = Workload(model, [((torch.ones(2, 8),), {})], None, None, [])  # type: ignore[arg-type]
    timed = time_workload(workload, budget_s=0.0)
    names = [label.split(":")[1] for label in timed["labels"]]
    assert names == ["Sequential", "Linear", "linear", "ReLU", "relu"]
    assert timed["calls"] == [[0, -1], [1, 0], [2, 1], [3, 0], [4, 3]]
    assert len(timed["plain_us"]) == len(timed["observed_us"]) == len(timed["durations"]) == 3
    assert all(run[0] >= run[1] for run in timed["durations"])
    assert torch.nn.Module.__call__ is before


def test_ceilings_cover_caches_and_memory(monkeypatch):
    monkeypatch.setattr("kforge_mcp.runtime.ceilings._COPY_S", 0.0)
    monkeypatch.setattr("kforge_mcp.runtime.ceilings._MATRIX_S", 0.0)
    found = measure({"target": "cpu"}, lambda event: None)
    assert min(map(int, found["bandwidth_gbs"])) == 256 * 1024
    assert max(map(int, found["bandwidth_gbs"])) == 64 * 1024 * 1024
    assert all(value > 0 for value in found["bandwidth_gbs"].values())
    assert found["gflops"]["fp32"] > 0


def test_ceilings_of_another_target_are_refused():
    with pytest.raises(Refusal, match="cuda"):
        measure({"target": "cuda"}, lambda event: None)
