"""A device through the driver's API, in the primary context that torch uses too: modules, launches, limits."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import byref, c_int, c_size_t, c_ubyte, c_void_p
from dataclasses import dataclass
from typing import Any

from .library import (
    ATTRIBUTE_CLUSTER_DIMENSION,
    ATTRIBUTE_COOPERATIVE,
    INVALID_CLUSTER_SIZE,
    DriverError,
    LaunchAttribute,
    LaunchConfig,
    Library,
    NoDriver,
)

__all__ = ["DEVICE_ATTRIBUTES", "FUNCTION_ATTRIBUTES", "Driver", "DriverError", "Function", "NoDriver"]

DEVICE_ATTRIBUTES = {
    "max_threads_per_block": 1, "max_block_x": 2, "max_block_y": 3, "max_block_z": 4,
    "max_grid_x": 5, "max_grid_y": 6, "max_grid_z": 7,
    "shared_bytes_per_block": 8, "warp_size": 10, "registers_per_block": 12,
    "clock_khz": 13, "sm_count": 16, "memory_clock_khz": 36, "memory_bus_bits": 37,
    "l2_bytes": 38, "threads_per_sm": 39, "capability_major": 75, "capability_minor": 76,
    "shared_bytes_per_sm": 81, "registers_per_sm": 82, "cooperative_launch": 95,
    "shared_bytes_per_block_optin": 97, "blocks_per_sm": 106, "persisting_l2_bytes": 108,
    "reserved_shared_bytes": 111, "cluster_launch": 120, "tensor_map_access": 127,
}  # fmt: skip
"""`CU_DEVICE_ATTRIBUTE_*` by the names used here. Clocks in kHz, sizes in bytes."""

FUNCTION_ATTRIBUTES = {
    "max_threads": 0, "static_shared_bytes": 1, "local_bytes": 3, "registers": 4,
    "max_dynamic_shared_bytes": 8, "cluster_x": 11, "cluster_y": 12, "cluster_z": 13,
    "non_portable_cluster_size": 14,
}  # fmt: skip
"""`CU_FUNC_ATTRIBUTE_*` by the names used here."""


@dataclass(frozen=True)
class Function:
    """A kernel of a loaded module with what the driver knows of it. Sizes in bytes."""

    handle: int
    max_threads: int
    """Threads of a block that it can be launched with: by its registers, or as it says itself."""
    static_shared_bytes: int
    local_bytes: int
    """Of one thread: stack and spilled registers."""
    registers: int
    cluster: tuple[int, int, int]
    """That it was compiled for; zeros if it says none."""


class Driver:
    """One device. Its primary context is current in the thread that made this object."""

    def __init__(self, ordinal: int = 0, library: Library | None = None) -> None:
        """Make a device's primary context current. Raises NoDriver, DriverError."""
        self.library = library or Library()
        self.ordinal = ordinal
        self._attributes: dict[str, int] = {}
        device, context = c_int(), c_void_p()
        try:
            self.library.call("cuInit", 0)
            self.library.call("cuDeviceGet", byref(device), ordinal)
        except DriverError as error:
            raise NoDriver(f"CUDA device {ordinal} cannot be used: {error}") from error
        self.device = device.value
        self.library.call("cuDevicePrimaryCtxRetain", byref(context), self.device)
        self.library.call("cuCtxSetCurrent", context)
        self._launch = self.library.function("cuLaunchKernelEx")
        self._memset = self.library.function("cuMemsetD8Async")

    def count(self) -> int:
        """Devices that this process may use."""
        value = c_int()
        self.library.call("cuDeviceGetCount", byref(value))
        return value.value

    def attribute(self, name: str) -> int:
        """A property of the device, by its name in `DEVICE_ATTRIBUTES`; 0 where the driver does not know it."""
        if name not in self._attributes:
            value = c_int()
            try:
                self.library.call("cuDeviceGetAttribute", byref(value), DEVICE_ATTRIBUTES[name], self.device)
            except DriverError as error:
                if error.sticky:
                    raise
            self._attributes[name] = value.value
        return self._attributes[name]

    @property
    def capability(self) -> tuple[int, int]:
        """Compute capability: (9, 0)."""
        return self.attribute("capability_major"), self.attribute("capability_minor")

    def name(self) -> str:
        """As the vendor calls the device."""
        text = ctypes.create_string_buffer(256)
        self.library.call("cuDeviceGetName", text, len(text), self.device)
        return text.value.decode(errors="replace")

    def uuid(self) -> str:
        """`GPU-` and the device's UUID, as nvidia-smi writes it."""
        raw = (c_ubyte * 16)()
        self.library.call("cuDeviceGetUuid_v2", raw, self.device)
        text = bytes(raw).hex()
        return "GPU-" + "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def version(self) -> str:
        """The newest CUDA that the driver can run: `13.0`."""
        value = c_int()
        self.library.call("cuDriverGetVersion", byref(value))
        return f"{value.value // 1000}.{value.value % 1000 // 10}"

    def memory(self) -> tuple[int, int]:
        """Free and total memory of the device in bytes."""
        free, total = c_size_t(), c_size_t()
        self.library.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def load(self, image: bytes) -> int:
        """Load a cubin, or PTX text, into the context. Raises DriverError."""
        module = c_void_p()
        self.library.call("cuModuleLoadData", byref(module), image + b"\0")
        assert module.value is not None
        return module.value

    def function(self, module: int, symbol: str) -> Function:
        """A kernel by its name in the module, loaded onto the device. Raises DriverError."""
        handle = c_void_p()
        self.library.call("cuModuleGetFunction", byref(handle), module, symbol.encode())
        assert handle.value is not None
        # Reading an attribute also loads what lazy loading has put off, which must not happen in a graph capture.
        known = {name: self._function_attribute(handle.value, name) for name in FUNCTION_ATTRIBUTES}
        return Function(
            handle=handle.value,
            max_threads=known["max_threads"],
            static_shared_bytes=known["static_shared_bytes"],
            local_bytes=known["local_bytes"],
            registers=known["registers"],
            cluster=(known["cluster_x"], known["cluster_y"], known["cluster_z"]),
        )

    def _function_attribute(self, handle: int, name: str) -> int:
        value = c_int()
        try:
            self.library.call("cuFuncGetAttribute", byref(value), FUNCTION_ATTRIBUTES[name], handle)
        except DriverError as error:
            if name in ("max_threads", "registers") or error.sticky:
                raise
            return 0
        return value.value

    def allow_dynamic_shared(self, function: Function, size_bytes: int) -> None:
        """Let a kernel be launched with this much dynamic shared memory. Raises DriverError beyond the device's."""
        attribute = FUNCTION_ATTRIBUTES["max_dynamic_shared_bytes"]
        self.library.call("cuFuncSetAttribute", function.handle, attribute, size_bytes)

    def allow_large_clusters(self, function: Function) -> None:
        """Let a kernel be launched in clusters of more than 8 blocks. Raises DriverError."""
        attribute = FUNCTION_ATTRIBUTES["non_portable_cluster_size"]
        self.library.call("cuFuncSetAttribute", function.handle, attribute, 1)

    def launch(self, config: LaunchConfig, function: Function, parameters: Any, stream: int) -> None:
        """Enqueue a kernel. `parameters` is an array of addresses of its arguments. Raises DriverError."""
        config.stream = stream
        code = self._launch(byref(config), function.handle, parameters, None)
        if code:
            raise self.library.error("cuLaunchKernelEx", code)

    def zero(self, address: int, size_bytes: int, stream: int) -> None:
        """Enqueue writing zeros. Raises DriverError."""
        code = self._memset(address, 0, size_bytes, stream)
        if code:
            raise self.library.error("cuMemsetD8Async", code)

    def blocks_per_sm(self, function: Function, threads: int, shared_bytes: int) -> int:
        """Blocks of a kernel that one multiprocessor holds at a time; 0 if none fits. `shared_bytes` is dynamic."""
        count = c_int()
        name = "cuOccupancyMaxActiveBlocksPerMultiprocessor"
        self.library.call(name, byref(count), function.handle, threads, shared_bytes)
        return count.value

    def active_clusters(self, function: Function, config: LaunchConfig) -> int:
        """Clusters of a launch that the device holds at a time; 0 if none fits, or none of that size exists."""
        count = c_int()
        try:
            self.library.call("cuOccupancyMaxActiveClusters", byref(count), function.handle, byref(config))
        except DriverError as error:
            if error.code != INVALID_CLUSTER_SIZE:
                raise
        return count.value

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream, or for all that the context does. Raises DriverError for a kernel that failed."""
        if stream is None:
            self.library.call("cuCtxSynchronize")
        else:
            self.library.call("cuStreamSynchronize", stream)

    def reset_persisting_l2(self) -> None:
        """Make all lines that were kept in the L2 cache ordinary again."""
        self.library.call("cuCtxResetPersistingL2Cache")


def launch_config(
    grid: Sequence[int],
    block: Sequence[int],
    shared_bytes: int = 0,
    cluster: Sequence[int] = (1, 1, 1),
    *,
    cooperative: bool = False,
) -> LaunchConfig:
    """A launch as the driver takes it; all dimensions are three."""
    wanted: list[LaunchAttribute] = []
    if tuple(cluster) != (1, 1, 1):
        attribute = LaunchAttribute(id=ATTRIBUTE_CLUSTER_DIMENSION)
        attribute.value.cluster.x, attribute.value.cluster.y, attribute.value.cluster.z = cluster
        wanted.append(attribute)
    if cooperative:
        attribute = LaunchAttribute(id=ATTRIBUTE_COOPERATIVE)
        attribute.value.cooperative = 1
        wanted.append(attribute)
    attributes = (LaunchAttribute * max(len(wanted), 1))(*wanted)
    return LaunchConfig(*grid, *block, shared_bytes, None, attributes, len(wanted))
