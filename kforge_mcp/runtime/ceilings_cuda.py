"""The measured limits of a GPU: copy bandwidth by working set, matrix rate by dtype.

Copies are captured in a graph and replayed, so that the host's part stays out of the time; small working sets then
run in the L2 cache, as they do in a model whose operator reads what the last one wrote. Matrices are random: zeros
need less power and would run faster than real data can.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

WORKING_SETS = tuple(1 << power for power in range(20, 32))
_MEMORY_PART = 0.5
_BYTES_PER_GRAPH = 1 << 32
_MOST_COPIES = 64
_REPLAYS = 5
_MATRICES = (4096, 8192)
_PRODUCTS = 5
_PRODUCT_S = 0.05


def measure_cuda() -> dict[str, Any]:
    """Measure the current GPU, about 2 seconds; the JSON of the control plane's `Ceilings`.

    `gflops` has `tf32` too: products of fp32 where the workload allows TF32. The best of several repetitions, since
    a ceiling is what the device can do.
    """
    free, _ = torch.cuda.mem_get_info()
    sizes = [size for size in WORKING_SETS if size <= _MEMORY_PART * free]
    with torch.no_grad():
        bandwidth = {str(size): _bandwidth(size) for size in sizes}
        products = {
            "bf16": _product(torch.bfloat16),
            "fp16": _product(torch.float16),
            "fp8_e4m3": _product_fp8,
            "tf32": _product(torch.float32, precision="tf32"),
            "fp32": _product(torch.float32, precision="ieee"),
            "fp64": _product(torch.float64),
        }
        gflops = {name: _gflops(make) for name, make in products.items()}
    return {"bandwidth_gbs": bandwidth, "gflops": {name: value for name, value in gflops.items() if value > 0}}


def _bandwidth(working_set: int) -> float:
    source = torch.rand(working_set // 8, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    copies = max(1, min(_MOST_COPIES, _BYTES_PER_GRAPH // working_set))
    best_s = min(
        _replayed_s(functools.partial(target.copy_, source), copies),
        _replayed_s(functools.partial(torch.neg, source, out=target), copies),
    )
    return working_set / best_s / 1e9


def _replayed_s(run: Callable[[], Any], count: int) -> float:
    """Seconds of one of `count` runs in a graph."""
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(count):
            run()
    graph.replay()
    return min(_seconds(graph.replay) for _ in range(_REPLAYS)) / count


def _seconds(run: Callable[[], Any]) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def _product(dtype: torch.dtype, *, precision: str = "") -> Callable[[int], Callable[[], Any]]:
    def make(size: int) -> Callable[[], Any]:
        if precision:
            torch.backends.cuda.matmul.fp32_precision = precision
        a, b = (torch.randn(size, size, dtype=torch.float32, device="cuda").to(dtype) for _ in range(2))
        return functools.partial(torch.mm, a, b, out=torch.empty_like(a))

    return make


def _product_fp8(size: int) -> Callable[[], Any]:
    a, b = (torch.randn(size, size, dtype=torch.float32, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), dtype=torch.float32, device="cuda")
    return functools.partial(torch._scaled_mm, a, b.t(), scale_a=one, scale_b=one, out_dtype=torch.bfloat16)


def _gflops(make: Callable[[int], Callable[[], Any]]) -> float:
    """The best rate over square matrices, the larger only where the smaller was quick; 0 where torch has no such
    product on this device."""
    best = 0.0
    for size in _MATRICES:
        if best and 2 * size**3 / (best * 1e9) > _PRODUCT_S:
            break
        try:
            run = make(size)
            run()
            best = max(best, 2 * size**3 / min(_seconds(run) for _ in range(_PRODUCTS)) / 1e9)
        except RuntimeError:
            break
    return best
