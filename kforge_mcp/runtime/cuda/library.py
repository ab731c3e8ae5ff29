"""The functions of libcuda that are used here, as ctypes, and their errors as exceptions.

Names, values and structures are those of the CUDA driver API reference.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint32, c_uint64, c_void_p
from typing import Any

OUT_OF_MEMORY = 2
NO_BINARY_FOR_GPU = 209
NOT_FOUND = 500
LAUNCH_TIMEOUT = 702
INVALID_CLUSTER_SIZE = 912

STICKY = frozenset({700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721})
"""Errors after which the context is lost: the next call of any function reports them again."""

CAUSES = {
    700: "a kernel used an address outside of memory that is there",
    702: "a kernel ran longer than the driver allows",
    710: "an assertion in a kernel failed",
    714: "a kernel overran its stack, or the memory's error correction gave up",
    715: "a kernel met an illegal instruction",
    716: "a kernel used an address that is not a multiple of the access's size",
    717: "a kernel used an address of one memory space in an instruction for another",
    718: "a kernel jumped to an address outside of its code",
    719: "a kernel trapped, or did what the device cannot report closer",
}
"""What errors of running kernels mean."""


class Dim3(ctypes.Structure):
    """A cluster's dimensions."""

    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


class AttributeValue(ctypes.Union):
    """`CUlaunchAttributeValue`: 64 bytes."""

    _fields_ = [("pad", c_ubyte * 64), ("cooperative", c_int), ("cluster", Dim3)]


class LaunchAttribute(ctypes.Structure):
    """`CUlaunchAttribute`."""

    _fields_ = [("id", c_int), ("pad", c_ubyte * 4), ("value", AttributeValue)]


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig`."""

    _fields_ = [
        ("grid_x", c_uint), ("grid_y", c_uint), ("grid_z", c_uint),
        ("block_x", c_uint), ("block_y", c_uint), ("block_z", c_uint),
        ("shared_bytes", c_uint),
        ("stream", c_void_p),
        ("attributes", POINTER(LaunchAttribute)),
        ("attribute_count", c_uint),
    ]  # fmt: skip


ATTRIBUTE_COOPERATIVE = 2
ATTRIBUTE_CLUSTER_DIMENSION = 4

_PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "cuInit": (c_uint,),
    "cuDriverGetVersion": (POINTER(c_int),),
    "cuGetErrorName": (c_int, POINTER(c_char_p)),
    "cuGetErrorString": (c_int, POINTER(c_char_p)),
    "cuDeviceGetCount": (POINTER(c_int),),
    "cuDeviceGet": (POINTER(c_int), c_int),
    "cuDeviceGetName": (c_char_p, c_int, c_int),
    "cuDeviceGetUuid_v2": (c_ubyte * 16, c_int),
    "cuDeviceGetAttribute": (POINTER(c_int), c_int, c_int),
    "cuDevicePrimaryCtxRetain": (POINTER(c_void_p), c_int),
    "cuCtxSetCurrent": (c_void_p,),
    "cuCtxSynchronize": (),
    "cuCtxResetPersistingL2Cache": (),
    "cuMemGetInfo_v2": (POINTER(c_size_t), POINTER(c_size_t)),
    "cuMemsetD8Async": (c_uint64, c_ubyte, c_size_t, c_void_p),
    "cuStreamSynchronize": (c_void_p,),
    "cuModuleLoadData": (POINTER(c_void_p), c_char_p),
    "cuModuleGetFunction": (POINTER(c_void_p), c_void_p, c_char_p),
    "cuFuncGetAttribute": (POINTER(c_int), c_int, c_void_p),
    "cuFuncSetAttribute": (c_void_p, c_int, c_int),
    "cuLaunchKernelEx": (POINTER(LaunchConfig), c_void_p, POINTER(c_void_p), c_void_p),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (POINTER(c_int), c_void_p, c_int, c_size_t),
    "cuOccupancyMaxActiveClusters": (POINTER(c_int), c_void_p, POINTER(LaunchConfig)),
    "cuTensorMapEncodeTiled": (
        c_void_p, c_int, c_uint32, c_uint64, POINTER(c_uint64), POINTER(c_uint64), POINTER(c_uint32),
        POINTER(c_uint32), c_int, c_int, c_int, c_int,
    ),
}  # fmt: skip


class DriverError(Exception):
    """A function of the driver failed. `code` is its `CUresult`, `name` that value's name."""

    def __init__(self, function: str, code: int, name: str, text: str) -> None:
        super().__init__(f"{function}: {name}: {text}")
        self.function = function
        self.code = code
        self.name = name
        self.text = text

    @property
    def sticky(self) -> bool:
        """Whether the context is lost."""
        return self.code in STICKY


class NoDriver(Exception):
    """libcuda is not there or has no device; the message says what is missing."""


class Library:
    """libcuda. Functions are called by name and raise `DriverError`."""

    def __init__(self, path: str = "libcuda.so.1") -> None:
        """Load it. Raises NoDriver."""
        try:
            self._library = ctypes.CDLL(path)
        except OSError as error:
            raise NoDriver(f"there is no NVIDIA driver on this machine: {error}") from error

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; its arguments are as in the reference. Raises DriverError."""
        code = self.function(name)(*arguments)
        if code:
            raise self.error(name, code)

    def function(self, name: str) -> Any:
        """The function itself, for calls that happen often: it returns a `CUresult`. Raises DriverError."""
        try:
            found = getattr(self._library, name)
        except AttributeError:
            text = "this driver is too old for it"
            raise DriverError(name, NOT_FOUND, "CUDA_ERROR_NOT_FOUND", text) from None
        if found.argtypes is None:
            found.argtypes = _PROTOTYPES[name]
            found.restype = c_int
        return found

    def error(self, function: str, code: int) -> DriverError:
        """What a result other than success says."""
        name, text = c_char_p(), c_char_p()
        self.function("cuGetErrorName")(code, ctypes.byref(name))
        self.function("cuGetErrorString")(code, ctypes.byref(text))
        return DriverError(
            function, code, (name.value or b"").decode() or f"CUresult {code}", (text.value or b"unknown").decode()
        )
