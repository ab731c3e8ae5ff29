"""Devices that the kernels serve: the CPU, or the GPUs on which attached models are.

A GPU is served once its kernels are loaded, which is done when a model is attached: never in a call, and never while a
CUDA graph is captured, where loading is not allowed.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import torch

from ._library import UnsupportedError, load, load_kernels, manifest


def places(model: torch.nn.Module | None) -> list[torch.device]:
    """The devices that a model is on, of the package's kind; the current one where it is on none."""
    if manifest()["target"] == "cpu":
        return [torch.device("cpu")]
    if not torch.cuda.is_available():
        raise UnsupportedError("the kernels are for CUDA, and this torch finds no usable GPU")
    tensors = [] if model is None else [*model.parameters(), *model.buffers()]
    found = dict.fromkeys(tensor.device for tensor in tensors if tensor.device.type == "cuda")
    return list(found) or [torch.device("cuda", torch.cuda.current_device())]


@functools.cache
def loaded(place: torch.device) -> str:
    """Load the kernels on a device; the answer is why they cannot run there, or nothing."""
    library = load()
    if place.type == "cpu":
        return ""
    if torch.cuda.is_current_stream_capturing():
        raise UnsupportedError("a CUDA graph is being captured: attach the package before")
    content = manifest()
    capability = torch.cuda.get_device_capability(place)
    driver = driver_version()
    arch = best(usable(content, driver), capability)
    if arch is None and best(list(content["architectures"]), capability) is not None:
        needed = " or ".join(f"CUDA {least} ({kind})" for kind, least in content["driver_minimum"].items())
        return f"the driver supports CUDA {driver[0]}.{driver[1]}, the kernels need {needed}"
    if arch is None:
        name = f"{torch.cuda.get_device_name(place)}, compute capability {capability[0]}.{capability[1]}"
        return f"the kernels were compiled for {', '.join(content['architectures'])}, {place} is {name}"

    def choose(kernels: list[dict[str, Any]]) -> dict[str, Any]:
        return next(kernel for kernel in kernels if kernel["arch"] == arch)

    return load_kernels(library, place.index, choose)


def driver_version() -> tuple[int, int]:
    """The newest version of CUDA that the driver supports."""
    number = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    return number.value // 1000, number.value % 1000 // 10


def usable(content: dict[str, Any], driver: tuple[int, int]) -> list[str]:
    """The architectures whose binaries a driver for this version of CUDA takes."""
    least = {kind: tuple(map(int, version.split("."))) for kind, version in content["driver_minimum"].items()}
    return [arch for arch in content["architectures"] if driver >= least[_kind(arch)]]


def best(architectures: list[str], capability: tuple[int, int]) -> str | None:
    """The architecture of those compiled for that a GPU runs fastest: its own, an older one of its generation, PTX.

    A cubin runs on GPUs of its major and at least its minor capability, one for `sm_90a` on 9.0 alone; PTX on any GPU
    not older than itself (CUDA C++ Programming Guide, sections "Binary Compatibility" and "PTX Compatibility").
    """
    fitting = [arch for arch in architectures if _runs(arch, capability)]
    return max(fitting, key=_preference, default=None)


def _runs(arch: str, capability: tuple[int, int]) -> bool:
    number = _number(arch)
    if arch.endswith("a"):
        return number == capability
    if arch.endswith("f") or arch.startswith("sm_"):
        return number[0] == capability[0] and number <= capability
    return number <= capability


def _preference(arch: str) -> tuple[bool, tuple[int, int], bool]:
    return arch.startswith("sm_"), _number(arch), arch[-1] in "af"


def _number(arch: str) -> tuple[int, int]:
    digits = int(arch.partition("_")[2].rstrip("af"))
    return divmod(digits, 10)


def _kind(arch: str) -> str:
    return "ptx" if arch.startswith("compute_") else "cubin"
