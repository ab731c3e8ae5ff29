"""What a pass needs of memory beyond the workload itself."""

from __future__ import annotations

import resource
from pathlib import Path

import torch


class Peaks:
    """Peaks of memory from now on, beyond those that the workload itself has reached by now."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._host = _host_peak()
        self._on_device = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else 0

    def extra(self) -> dict[str, int]:
        """Bytes more on the host (`host_bytes`), and of torch's allocations on the device (`device_bytes`)."""
        now = torch.cuda.max_memory_allocated(self._device) if self._device.type == "cuda" else 0
        return {"host_bytes": max(0, _host_peak() - self._host), "device_bytes": max(0, now - self._on_device)}


def _host_peak() -> int:
    """The largest resident set of this process so far, bytes, without what it had before it became this program."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        text = ""
    for line in text.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
