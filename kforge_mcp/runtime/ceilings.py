"""The measured limits of this machine: copy bandwidth by working set, matrix rate by dtype. A GPU's are in
`ceilings_cuda.py`."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import torch

from .capture_device import require_target
from .ceilings_cuda import measure_cuda
from .tensors import DTYPES

WORKING_SETS = tuple(1 << power for power in range(18, 27))
_COPY_S = 0.12
_MATRIX_S = 0.5
_MATRICES = (256, 1024, 2048)


def measure(payload: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Measure `payload["target"]`, the cpu with `payload["threads"]` threads, about 4 seconds.

    Returns the JSON of the control plane's `Ceilings`: the best of many repetitions, since a ceiling is what the
    machine can do and not what it did while others used it.
    """
    if payload.get("target", "cpu") == "cuda":
        require_target("cuda")
        return measure_cuda()
    if payload.get("threads"):
        torch.set_num_threads(payload["threads"])
    with torch.no_grad():
        bandwidth = {str(size): _bandwidth(size) for size in WORKING_SETS}
        gflops = {name: _gflops(name) for name in ("fp32", "fp64", "bf16", "fp16")}
    return {"bandwidth_gbs": bandwidth, "gflops": {name: value for name, value in gflops.items() if value > 0}}


def _bandwidth(working_set: int) -> float:
    source = torch.ones(working_set // 8)
    target = torch.empty_like(source)
    return working_set / _best_s(lambda: target.copy_(source), _COPY_S) / 1e9


def _gflops(dtype: str) -> float:
    """The best rate over square matrices that take no longer than the budget; 0 where torch has no such product."""
    best = 0.0
    for size in _MATRICES:
        if best and 2 * size**3 / (best * 1e9) > _MATRIX_S:
            break
        a, b = (torch.randn(size, size).to(DTYPES[dtype]) for _ in range(2))
        out = torch.empty_like(a)
        try:
            best = max(best, 2 * size**3 / _best_s(functools.partial(torch.mm, a, b, out=out), _MATRIX_S / 2) / 1e9)
        except RuntimeError:
            break
    return best


def _best_s(run: Callable[[], Any], budget_s: float) -> float:
    run()
    best = float("inf")
    deadline = time.perf_counter() + budget_s
    for _ in range(5000):
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        best = min(best, end - start)
        if end > deadline:
            break
    return best
