"""The device that a workload runs on: chosen, checked, described."""

from __future__ import annotations

import ctypes
import os
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .entry import Workload
from .failures import Refusal

Emit = Callable[[dict[str, Any]], None]
_FAMILY_SPECIFIC = 90


def gpu(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Facts of the GPU that this process would use for `payload["target"]`; empty if that is the cpu."""
    if payload["target"] == "cpu" or missing_cuda():
        return {}
    return facts(torch.device("cuda", torch.cuda.current_device()))


def missing_cuda() -> str:
    """What this process lacks for running on a GPU, or an empty string."""
    if torch.version.cuda is None:
        return "this torch is built without CUDA"
    if not torch.cuda.is_available():
        return "torch.cuda.is_available() is False: no usable NVIDIA GPU or driver"
    return ""


def require_target(target: str) -> None:
    """Raise `Refusal` where this process cannot run on the target at all."""
    missing = missing_cuda() if target == "cuda" else ""
    if missing:
        raise Refusal(
            "contract",
            f"target_unavailable: target='cuda' was asked for, but {missing}. Pass python= of an environment whose "
            "torch has CUDA, on a machine with an NVIDIA GPU, or target='cpu': there candidates for CUDA compile too.",
        )


def building_device(target: str) -> str:
    """Where a library's model is built, which no code of the user's places."""
    return "cpu" if target == "cpu" or missing_cuda() else "cuda"


def device_of(target: str, workload: Workload) -> torch.device:
    """The one device of a workload: a GPU if any of its tensors is there, else the cpu.

    Raises `Refusal` with what to change if that is not the target, or is more than one device.
    """
    tensors = [*workload.model.parameters(), *workload.model.buffers()]
    tensors += [leaf for leaf in tree_leaves(workload.calls) if isinstance(leaf, torch.Tensor)]
    places = {str(tensor.device): tensor.device for tensor in tensors}
    others = sorted(name for name, place in places.items() if place.type not in ("cpu", "cuda"))
    if others:
        raise Refusal(
            "contract",
            f"target_unavailable: the workload holds tensors on {', '.join(others)}; build it on the cpu or a GPU",
        )
    gpus = sorted(name for name, place in places.items() if place.type == "cuda")
    if len(gpus) > 1:
        raise Refusal(
            "contract",
            f"target_unavailable: the workload's tensors are spread over {', '.join(gpus)}, and capture measures on "
            "one GPU: put model and inputs on one of them",
        )
    if gpus and target == "cpu":
        raise Refusal(
            "contract",
            f"target_unavailable: target='cpu' was asked for, but the workload holds tensors on {gpus[0]}: build model "
            "and inputs on the cpu, or give target='cuda' or 'auto'",
        )
    if not gpus and target == "cuda":
        raise Refusal(
            "contract",
            "target_unavailable: target='cuda' was asked for, but the workload's tensors are on the cpu: build model "
            "and inputs on the GPU (under `with torch.device('cuda'):`, or with .to('cuda')), or give target='cpu'",
        )
    return places[gpus[0]] if gpus else torch.device("cpu")


def facts(device: torch.device) -> dict[str, Any]:
    """The JSON of the control plane's `DeviceInfo`, without ceilings."""
    if device.type == "cpu":
        return {
            "target": "cpu",
            "name": _processor(),
            "threads": torch.get_num_threads(),
            "cpu_capability": torch.backends.cpu.get_cpu_capability(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        }
    properties = torch.cuda.get_device_properties(device)
    return {
        "target": "cuda",
        "name": properties.name,
        "uuid": f"GPU-{properties.uuid}",
        "arch": architecture(properties.major, properties.minor),
        "sm_count": properties.multi_processor_count,
        "l2_bytes": properties.L2_cache_size,
        "memory_bytes": properties.total_memory,
        "driver": _driver(),
    }


def architecture(major: int, minor: int) -> str:
    """The compile target of a compute capability, with the instructions of that very chip from 9.0 on."""
    number = 10 * major + minor
    return f"sm_{number}a" if number >= _FAMILY_SPECIFIC else f"sm_{number}"


def synchronize(device: torch.device) -> None:
    """Wait for what the device was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _driver() -> str:
    """The driver's release if the system tells, and the newest CUDA it knows."""
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        text = ""
    release = re.search(r"\s(\d{3,}\.\d+(?:\.\d+)?)\s", text)
    cuda = f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"
    return f"{release[1]}, {cuda}" if release else cuda


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
