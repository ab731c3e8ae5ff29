"""A device without a GPU: torch on the CPU, programs that are Python functions, graphs that remember a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kforge_mcp.runtime.checks import Finding
from kforge_mcp.runtime.cuda.program import LaunchError
from kforge_mcp.runtime.values import flatten

Kernel = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor], Sequence[torch.Tensor]], None]


class FakeProgram:
    """Stands for `runtime.cuda.program.Program`."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    kinds = ("launch",)

    def check(self) -> Finding | None:
        return None

    def run(
        self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor], workspaces: Sequence[torch.Tensor]
    ) -> None:
        self._kernel(inputs, outputs, workspaces)

    run_stepwise = run

    def settle(self) -> None:
        pass


class FakeGpu:
    """Stands for `runtime.cuda.gpu.Gpu`; `kernel` is what every cubin holds, None for one that cannot be loaded."""

    def __init__(self, kernel: Kernel | None = None, *, captures: bool = True) -> None:
        self.device = torch.device("cpu")
        self._kernel = kernel
        self._captures = captures

    def __call__(self, ordinal: int) -> FakeGpu:
        return self

    def load(self, image: bytes, bound: dict[str, Any], kernels: Mapping[str, str]) -> FakeProgram:
        if self._kernel is None:
            raise LaunchError(Finding("launch_failed", "it cannot be loaded"))
        return FakeProgram(self._kernel)

    def slowed(self) -> str:
        return ""

    def company(self) -> str:
        return ""

    def synchronize(self) -> None:
        pass

    def memory(self) -> tuple[int, int]:
        return 1 << 30, 1 << 30

    def release(self) -> None:
        pass

    def pool(self) -> None:
        return None

    def capture(self, call: Callable[[], Any], pool: None) -> tuple[Callable[[], None], Any] | None:
        if not self._captures:
            return None
        first = call()
        kept = [tensor.clone() for tensor in flatten(first)] if first is not None else []
        shared = [tensor.data_ptr() for tensor in flatten(first)] if first is not None else []

        def replay() -> None:
            result = call()
            for mine, new in zip(kept, flatten(result) if result is not None else [], strict=True):
                mine.copy_(new)

        in_place = first if shared and all(t.data_ptr() in shared for t in flatten(call())) else None
        return replay, in_place if in_place is not None else kept

    def time(self, enqueue: Callable[[], None]) -> float | None:
        start = time.perf_counter()
        enqueue()
        return time.perf_counter() - start
