"""Times and residency of a bound program on its device, for a profile: no verdict follows from them."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from .driver import Driver, DriverError, NoDriver
from .program import LaunchError
from .sample import Sample
from .shares import MOST_STEPS, REPEATS, step_times_us

_SLEEP_CYCLES = 400_000
_CYCLES_A_STEP = 20_000


def measure(job: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run one job of `sample.py` and say how long it takes, cold in the L2 cache; times in microseconds.

    `finding` is a fault of the candidate, `error` what this machine lacks; both are null where it was measured.
    """
    del emit
    try:
        torch.cuda.init()
        driver = Driver(torch.cuda.current_device())
    except (RuntimeError, AssertionError, NoDriver, DriverError) as error:
        return {"error": str(error).splitlines()[0], "finding": None}
    try:
        sample = Sample(driver, job)
        finding = sample.program.check()
        if finding is None:
            sample.run_stepwise()
            return {"error": None, "finding": None, **_figures(driver, sample, job["bound"])}
    except LaunchError as error:
        finding = error.finding
    return {"error": None, "finding": vars(finding)}


def _figures(driver: Driver, sample: Sample, bound: dict[str, Any]) -> dict[str, Any]:
    flush = torch.zeros(2 * max(driver.attribute("l2_bytes"), 1 << 22), dtype=torch.uint8, device="cuda")
    steps = len(sample.program.kinds)
    cycles = _SLEEP_CYCLES + _CYCLES_A_STEP * steps
    one = torch.zeros(1, device="cuda")
    return {
        "device_us": _device_us(sample.run, flush, cycles),
        "floor_us": _device_us(lambda: one.add_(1), flush, cycles),
        "call_us": _call_us(sample.run),
        "steps_us": step_times_us(
            sample.program, lambda: (sample.inputs, sample.outputs, sample.workspaces), lambda: flush.add_(1)
        ),
        "launches": _launches(driver, sample, bound),
    }


def _device_us(run: Callable[[], Any], flush: torch.Tensor, cycles: int) -> float:
    """The median time on the device; a sleep in front hides the host's part."""
    spans = []
    for _ in range(REPEATS):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        flush.add_(1)
        torch.cuda._sleep(cycles)
        first.record()
        run()
        last.record()
        last.synchronize()
        spans.append(first.elapsed_time(last) * 1e3)
    return sorted(spans)[REPEATS // 2]


def _call_us(run: Callable[[], Any]) -> float:
    """The median time until a call returns."""
    spans = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        run()
        spans.append((time.perf_counter() - start) * 1e6)
    torch.cuda.synchronize()
    return sorted(spans)[REPEATS // 2]


def _launches(driver: Driver, sample: Sample, bound: dict[str, Any]) -> list[dict[str, Any]]:
    """What the driver says of each launch, in the order of the steps: resident blocks, occupancy, waves."""
    described: list[dict[str, Any]] = []
    for position, step in enumerate(bound["steps"]):
        if "kernel_name_expression" not in step:
            described.append({"kernel": "", "operator": step["operator"]})
            continue
        if position >= MOST_STEPS:
            break
        function = sample.program.functions[step["kernel_name_expression"]]
        threads = math.prod(step["block"])
        blocks = driver.blocks_per_sm(function, threads, step["shared_bytes"])
        held = blocks * driver.attribute("sm_count")
        warps = -(-threads // 32) * 32
        described.append(
            {
                "kernel": step["kernel_name_expression"],
                "blocks_per_sm": blocks,
                "occupancy": blocks * warps / max(driver.attribute("threads_per_sm"), 1),
                "waves": math.prod(step["grid"]) / held if held else None,
                "local_bytes": function.local_bytes,
            }
        )
    return described
