"""What libnvidia-ml says of a device: clocks, what slows them, and the processes on it.

Names, values and structures are those of the NVML API reference.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from dataclasses import dataclass
from typing import Any

SLOWED = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""Bits of `nvmlClocksEventReasons` with which clocks are below what the work would get."""
_SM_CLOCK, _MEMORY_CLOCK = 1, 2
_INSUFFICIENT_SIZE = 7
_NOT_AVAILABLE = (1 << 64) - 1


class _Process(ctypes.Structure):
    """`nvmlProcessInfo_t` as version 3 of the listing fills it."""

    _fields_ = [("pid", c_uint), ("memory", c_ulonglong), ("instance", c_uint), ("compute_instance", c_uint)]


_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "nvmlInit_v2": (),
    "nvmlErrorString": (c_int,),
    "nvmlSystemGetDriverVersion": (c_char_p, c_uint),
    "nvmlDeviceGetHandleByUUID": (c_char_p, POINTER(c_void_p)),
    "nvmlDeviceGetClockInfo": (c_void_p, c_int, POINTER(c_uint)),
    "nvmlDeviceGetCurrentClocksThrottleReasons": (c_void_p, POINTER(c_ulonglong)),
    "nvmlDeviceGetComputeRunningProcesses_v3": (c_void_p, POINTER(c_uint), POINTER(_Process)),
}


class NvmlError(Exception):
    """NVML is missing or refuses; the message says which function and why."""


@dataclass(frozen=True)
class Clocks:
    """Clocks at a moment, MHz, and the names of what slows them (of `SLOWED`)."""

    sm_mhz: int
    memory_mhz: int
    slowed: tuple[str, ...]


@dataclass(frozen=True)
class DeviceProcess:
    """A process with a CUDA context on the device. `memory_bytes` is 0 where the driver does not say."""

    pid: int
    memory_bytes: int


class Nvml:
    """One device by its UUID."""

    def __init__(self, uuid: str, path: str = "libnvidia-ml.so.1") -> None:
        """Open the library. Raises NvmlError."""
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise NvmlError(f"NVML is not there: {error}") from error
        self._call("nvmlInit_v2")
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByUUID", uuid.encode(), byref(handle))
        self._handle = handle

    def driver_version(self) -> str:
        """The driver's own version: `580.159.04`."""
        text = ctypes.create_string_buffer(96)
        self._call("nvmlSystemGetDriverVersion", text, len(text))
        return text.value.decode(errors="replace")

    def clocks(self) -> Clocks:
        """Clocks now. Raises NvmlError where the device does not tell."""
        reasons = c_ulonglong()
        self._call("nvmlDeviceGetCurrentClocksThrottleReasons", self._handle, byref(reasons))
        slowed = tuple(name for bit, name in SLOWED.items() if reasons.value & bit)
        return Clocks(self._clock(_SM_CLOCK), self._clock(_MEMORY_CLOCK), slowed)

    def processes(self) -> list[DeviceProcess]:
        """Processes with a context on the device, this one included. Raises NvmlError where it cannot be told."""
        room = 64
        while True:
            count, found = c_uint(room), (_Process * room)()
            code = self._function("nvmlDeviceGetComputeRunningProcesses_v3")(self._handle, byref(count), found)
            if code == _INSUFFICIENT_SIZE:
                room = count.value + 16
                continue
            if code:
                raise self._error("nvmlDeviceGetComputeRunningProcesses_v3", code)
            return [
                DeviceProcess(one.pid, 0 if one.memory == _NOT_AVAILABLE else one.memory)
                for one in found[: count.value]
            ]

    def _clock(self, kind: int) -> int:
        value = c_uint()
        self._call("nvmlDeviceGetClockInfo", self._handle, kind, byref(value))
        return value.value

    def _call(self, name: str, *arguments: Any) -> None:
        code = self._function(name)(*arguments)
        if code:
            raise self._error(name, code)

    def _function(self, name: str) -> Any:
        try:
            found = getattr(self._library, name)
        except AttributeError:
            raise NvmlError(f"{name}: this driver is too old for it") from None
        if found.argtypes is None:
            found.argtypes = _PROTOTYPES[name]
            found.restype = c_char_p if name == "nvmlErrorString" else c_int
        return found

    def _error(self, name: str, code: int) -> NvmlError:
        text = self._function("nvmlErrorString")(code) or b"unknown error"
        return NvmlError(f"{name}: {text.decode(errors='replace')}")
