"""A driver that remembers what it is asked, for tests on machines without a GPU; its properties are an H100's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from kforge_mcp.runtime.cuda.driver import DEVICE_ATTRIBUTES, FUNCTION_ATTRIBUTES, Driver
from kforge_mcp.runtime.cuda.library import Library

H100 = {
    "max_threads_per_block": 1024, "max_block_x": 1024, "max_block_y": 1024, "max_block_z": 64,
    "max_grid_x": 2**31 - 1, "max_grid_y": 65535, "max_grid_z": 65535, "sm_count": 132,
    "capability_major": 9, "capability_minor": 0, "shared_bytes_per_block_optin": 227 * 1024,
    "registers_per_sm": 65536, "threads_per_sm": 2048, "shared_bytes_per_sm": 228 * 1024,
    "cooperative_launch": 1, "cluster_launch": 1, "tensor_map_access": 1,
}  # fmt: skip
NAMES = {1: "INVALID_VALUE", 2: "OUT_OF_MEMORY", 209: "NO_BINARY_FOR_GPU", 700: "ILLEGAL_ADDRESS", 719: "LAUNCH_FAILED"}


class FakeLibrary(Library):
    """libcuda without a device. `fail` maps a function's name to the results of its next calls."""

    def __init__(self, device: dict[str, int] | None = None, kernels: dict[str, dict[str, int]] | None = None) -> None:
        self.device = {**H100, **(device or {})}
        self.kernels = kernels or {}
        """Attributes by symbol."""
        self.symbols: list[str] = []
        self.calls: list[tuple[Any, ...]] = []
        self.fail: dict[str, list[int]] = {}
        self.blocks = 2
        self.clusters = 16

    def function(self, name: str) -> Callable[..., int]:
        def run(*arguments: Any) -> int:
            if self.fail.get(name):
                return self.fail[name].pop(0)
            getattr(self, f"_{name}", lambda *_: self.calls.append((name, *arguments)))(*arguments)
            return 0

        return run

    def _cuGetErrorName(self, code: int, name: Any) -> None:  # noqa: N802
        name._obj.value = f"CUDA_ERROR_{NAMES.get(code, code)}".encode()

    def _cuGetErrorString(self, code: int, text: Any) -> None:  # noqa: N802
        text._obj.value = NAMES.get(code, "other").lower().replace("_", " ").encode()

    def _cuDevicePrimaryCtxRetain(self, context: Any, device: int) -> None:  # noqa: N802
        context._obj.value = 1 + device

    def _cuDeviceGetAttribute(self, value: Any, number: int, device: int) -> None:  # noqa: N802
        name = next(name for name, known in DEVICE_ATTRIBUTES.items() if known == number)
        value._obj.value = self.device.get(name, 0)

    def _cuModuleLoadData(self, module: Any, image: bytes) -> None:  # noqa: N802
        self.calls.append(("load", image))
        module._obj.value = 77

    def _cuModuleGetFunction(self, handle: Any, module: int, symbol: bytes) -> None:  # noqa: N802
        self.symbols.append(symbol.decode())
        handle._obj.value = 100 + len(self.symbols)

    def _cuFuncGetAttribute(self, value: Any, number: int, handle: int) -> None:  # noqa: N802
        name = next(name for name, known in FUNCTION_ATTRIBUTES.items() if known == number)
        known = {"max_threads": 1024, "registers": 32, **self.kernels.get(self.symbols[handle - 101], {})}
        value._obj.value = known.get(name, 0)

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, count: Any, *_: Any) -> None:  # noqa: N802
        count._obj.value = self.blocks

    def _cuOccupancyMaxActiveClusters(self, count: Any, *_: Any) -> None:  # noqa: N802
        count._obj.value = self.clusters

    def _cuTensorMapEncodeTiled(self, target: int, kind: int, rank: int, address: int, *rest: Any) -> None:  # noqa: N802
        listed = [list(one)[:rank] if isinstance(one, ctypes.Array) else one for one in rest]
        self.calls.append(("encode", kind, rank, address, *listed))
        ctypes.memset(target, 0x5A, 128)

    def _cuLaunchKernelEx(self, config: Any, handle: int, parameters: Any, _: Any) -> None:  # noqa: N802
        made = config._obj
        attributes = [
            (one.id, (one.value.cluster.x, one.value.cluster.y, one.value.cluster.z))
            for one in made.attributes[: made.attribute_count]
        ]
        grid, block = (made.grid_x, made.grid_y, made.grid_z), (made.block_x, made.block_y, made.block_z)
        self.calls.append(
            ("launch", self.symbols[handle - 101], grid, block, made.shared_bytes, made.stream, attributes, parameters)
        )


def driver(library: FakeLibrary | None = None) -> Driver:
    return Driver(0, library or FakeLibrary())


def read(parameters: Any, position: int, kind: Any) -> Any:
    """What a kernel would find as one of its parameters."""
    return kind.from_address(parameters[position]).value


def argument(kind: str, index: int = 0, name: str = "", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "index": index, "name": name, "scalar_type": "", "value": None, **more}


def scalar(scalar_type: str, value: Any) -> dict[str, Any]:
    return argument("scalar", scalar_type=scalar_type, value=value)


def launch(*arguments: dict[str, Any], kernel: str = "k", **more: Any) -> dict[str, Any]:
    known = {"step": 0, "grid": [4, 1, 1], "block": [128, 1, 1], "shared_bytes": 0, "cluster": [1, 1, 1]}
    known |= {"cooperative": False}
    return {**known, "kernel_name_expression": kernel, "arguments": list(arguments), **more}


def bound(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"workspaces": [], "intermediates": [], "tensor_maps": [], **more, "steps": list(steps)}
