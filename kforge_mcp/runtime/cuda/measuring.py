"""Times and residency of a bound program on its device, for a profile: no verdict follows from them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from .driver import DriverError, NoDriver
from .gpu import Gpu, Unavailable
from .program import LaunchError
from .sample import Sample

_REPEATS = 15
_STEPS = 64
"""Programs of more steps are timed as a whole only: events between them would be most of what is timed."""


def measure(
    job: dict[str, Any], emit: Callable[[dict[str, Any]], None], make_gpu: Callable[[int], Gpu] = Gpu
) -> dict[str, Any]:
    """Run one job of `sample.py` and say how long it takes by the judge's stopwatch; times in microseconds.

    `finding` is a fault of the candidate, `error` what this machine lacks; both are null where it was measured.
    """
    del emit
    try:
        gpu = make_gpu(0)
    except (Unavailable, NoDriver, DriverError, RuntimeError) as error:
        return {"error": str(error).splitlines()[0], "finding": None}
    try:
        program = gpu.load(Path(job["cubin"]).read_bytes(), job["bound"], job["kernels"])
        finding = program.check()
        if finding is None:
            sample = Sample(program, job, gpu.device)
            sample.run_stepwise()
            return {"error": None, "finding": None, **_figures(gpu, sample, job["bound"])}
    except LaunchError as error:
        finding = error.finding
    return {"error": None, "finding": vars(finding)}


def _figures(gpu: Gpu, sample: Sample, bound: dict[str, Any]) -> dict[str, Any]:
    one = torch.zeros(1, device=gpu.device)
    return {
        "device_us": _device_us(gpu, sample.run),
        "floor_us": _device_us(gpu, lambda: one.add_(1)),
        "call_us": _call_us(gpu, sample.run),
        "steps_us": _steps_us(gpu, sample),
        "launches": _launches(gpu, sample, bound),
    }


def _device_us(gpu: Gpu, run: Callable[[], Any]) -> float | None:
    """The median time on the device, cold in the L2 cache; None if the host never kept up with it."""
    seconds = [spent for _ in range(2 * _REPEATS) if (spent := gpu.time(run)) is not None]
    return statistics.median(seconds[:_REPEATS]) * 1e6 if seconds else None


def _call_us(gpu: Gpu, run: Callable[[], Any]) -> float:
    """The median time until a call returns."""
    spans = []
    for _ in range(_REPEATS):
        gpu.synchronize()
        start = time.perf_counter()
        run()
        spans.append((time.perf_counter() - start) * 1e6)
    gpu.synchronize()
    return statistics.median(spans)


def _steps_us(gpu: Gpu, sample: Sample) -> list[float]:
    """The median time of each step, from its predecessor's end to its own."""
    count = len(sample.program.kinds)
    if count > _STEPS:
        return []
    spans = [gpu.time_steps(sample.run_telling, count) for _ in range(_REPEATS)]
    return [statistics.median(times) * 1e6 for times in zip(*spans, strict=True)]


def _launches(gpu: Gpu, sample: Sample, bound: dict[str, Any]) -> list[dict[str, Any]]:
    """What the driver says of each launch, in the order of the steps: resident blocks, occupancy, waves."""
    driver = gpu.driver
    described: list[dict[str, Any]] = []
    for step in bound["steps"][:_STEPS]:
        if "kernel_name_expression" not in step:
            described.append({"kernel": "", "operator": step["operator"]})
            continue
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
            }
        )
    return described
