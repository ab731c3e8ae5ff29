"""Device times from profiler output: a recording of a GPU, and constructed events."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.autograd import DeviceType

from kforge_mcp.runtime import capture_profile
from kforge_mcp.runtime.capture_profile import Ranges, Recording, Work, busy_ns, combine, inclusive_ns, read
from kforge_mcp.runtime.capture_targets import class_target
from kforge_mcp.runtime.capture_timing import label
from kforge_mcp.runtime.entry import Workload
from kforge_mcp.runtime.failures import Refusal

RECORDED = json.loads(Path(__file__).with_name("profiler_events.json").read_text())


def _event(
    device: str, name: str, correlation: int, linked: int, start: int, end: int, annotation: bool = False
) -> Any:
    values = {
        "device_type": getattr(DeviceType, device),
        "name": name,
        "correlation_id": correlation,
        "linked_correlation_id": linked,
        "start_ns": start,
        "end_ns": end,
        "duration_ns": end - start,
        "is_user_annotation": annotation,
    }
    return SimpleNamespace(**{key: lambda value=value: value for key, value in values.items()})


def _ranges(parents: list[int]) -> Ranges:
    ranges = Ranges()
    ranges.parents = parents
    ranges.subjects = [class_target(nn.Linear) for _ in parents]
    return ranges


def test_a_recording_of_a_gpu_gives_each_call_the_time_of_its_kernels():
    recording = read([_event(*row) for row in RECORDED["events"]])
    times = dict(zip(RECORDED["labels"], inclusive_ns(recording, RECORDED["parents"]), strict=True))
    assert times["torch torch.nn.functional:linear"] == 35_775
    assert times["module torch.nn.modules.linear:Linear"] == 35_775
    assert times["torch torch:mean"] == 4129
    assert times["torch torch:mul"] == 2688
    assert times["module __main__:Norm"] == 1600 + 4129 + 1120 + 1120 + 2784 + 2688
    assert times["module torch.nn.modules.container:Sequential"] == 35_775 + times["module __main__:Norm"]
    # The copy of the inputs was before the first call.
    assert (
        sum(item.duration_ns for item in recording.work) == times["module torch.nn.modules.container:Sequential"] + 1408
    )


def test_work_belongs_to_the_operation_that_launched_it_and_not_to_when_it_ran():
    events = [
        _event("CPU", "kforge call 0", 1, 0, 0, 100),
        _event("CPU", "aten::mul", 2, 0, 10, 20),
        _event("CPU", "cudaLaunchKernel", 70, 2, 12, 18),
        _event("CPU", "kforge call 1", 3, 0, 200, 300),
        _event("CUDA", "kernel", 70, 2, 210, 260),
    ]
    assert inclusive_ns(read(events), [-1, -1]) == [50, 0]


def test_a_launch_outside_of_any_operation_is_placed_by_its_runtime_call():
    events = [
        _event("CPU", "kforge call 0", 1, 0, 0, 100),
        _event("CPU", "cuLaunchKernelEx", 71, 0, 50, 60),
        _event("CUDA", "kernel", 71, 0, 500, 507),
    ]
    assert inclusive_ns(read(events), [-1]) == [7]


def test_annotations_of_the_users_are_no_work():
    events = [
        _event("CPU", "kforge call 0", 1, 0, 0, 100),
        _event("CPU", "mine", 2, 0, 5, 90, True),
        _event("CUDA", "mine", 2, 0, 5, 900, True),
    ]
    assert read(events).work == []


def test_a_replayed_graph_is_one_launch_with_many_kernels():
    events = [
        _event("CPU", "kforge call 0", 1, 0, 0, 100),
        _event("CPU", "cudaGraphLaunch", 9, 1, 10, 20),
        *(_event("CUDA", "kernel", 9, 1, 100 * index, 100 * index + 30) for index in range(1, 4)),
    ]
    assert inclusive_ns(read(events), [-1]) == [90]


def test_a_device_that_does_two_things_at_once_is_busy_once():
    work = [Work(0, 0, 100), Work(0, 50, 100), Work(0, 300, 10), Work(0, 60, 10)]
    assert busy_ns(work) == 160


def test_runs_combine_and_those_with_lost_or_other_calls_are_left_out():
    whole = Recording({0: (0, 100), 1: (10, 20)}, [Work(15, 20, 2000), Work(50, 60, 1000)])
    lost = Recording({0: (0, 100)}, [Work(15, 20, 2000)])
    parents = [-1, 0]
    combined = combine([(_ranges(parents), whole), (_ranges(parents), lost), (_ranges([-1]), lost)])
    assert combined["durations"] == [[3.0, 2.0]]
    assert combined["observed_us"] == [3.0]
    assert combined["busy_us"] == [2.0]
    assert combined["calls"] == [[0, -1], [0, 0]]
    assert combined["differing"] == 2


def test_a_profiler_that_sees_no_work_is_a_refusal_that_says_why():
    with pytest.raises(Refusal, match="CUPTI"):
        combine([(_ranges([-1]), Recording({0: (0, 100)}, []))])


def test_ranges_are_recorded_around_every_call_and_nothing_stays_patched():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    before = nn.Module.__call__
    workload = Workload(model, [((torch.ones(2, 8),), {})])
    ranges, recording = capture_profile._profiled_run(workload, [], torch.device("cpu"))
    names = [label(subject).rpartition(":")[2] for subject in ranges.subjects]
    assert names == ["Sequential", "Linear", "linear", "ReLU", "relu"]
    assert ranges.parents == [-1, 0, 1, 0, 3]
    assert sorted(recording.ranges) == [0, 1, 2, 3, 4]
    for place, parent in enumerate(ranges.parents):
        start, end = recording.ranges[place]
        assert start <= end
        if parent >= 0:
            assert recording.ranges[parent][0] <= start
            assert end <= recording.ranges[parent][1]
    assert nn.Module.__call__ is before
