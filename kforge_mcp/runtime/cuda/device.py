"""What a CUDA device is and who else is on it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from .driver import Driver, DriverError, NoDriver
from .nvml import DeviceProcess, Nvml, NvmlError

_OURS = re.compile(rb"kforge_mcp/runtime/__main__\.py")
_LIMITS = (
    "sm_count", "warp_size", "threads_per_sm", "blocks_per_sm", "registers_per_sm", "registers_per_block",
    "shared_bytes_per_sm", "shared_bytes_per_block_optin", "reserved_shared_bytes", "max_threads_per_block",
    "l2_bytes", "persisting_l2_bytes", "clock_khz", "memory_clock_khz", "memory_bus_bits",
)  # fmt: skip


@dataclass(frozen=True)
class Company:
    """Processes of others on a device. `unknown` says why they cannot be told; then `processes` is empty."""

    processes: tuple[DeviceProcess, ...] = ()
    names: dict[int, str] = field(default_factory=dict)
    unknown: str = ""

    def message(self, device: str) -> str:
        """Who is there with how much memory, in a sentence; empty if nobody is."""
        if not self.processes:
            return ""
        several = len(self.processes) > 1
        who = "; ".join(
            f"pid {one.pid}"
            + (f" ({self.names[one.pid]})" if self.names.get(one.pid) else "")
            + (f" with {one.memory_bytes >> 20} MiB" if one.memory_bytes else "")
            for one in self.processes[:4]
        )
        more = f" and {len(self.processes) - 4} more" if len(self.processes) > 4 else ""
        return f"{device} is also used by {'other processes' if several else 'another process'}: {who}{more}"


def architecture(capability: tuple[int, int]) -> str:
    """What to compile for: `sm_90a`, `sm_80`. From 9.0 on with what that device alone can do."""
    number = capability[0] * 10 + capability[1]
    return f"sm_{number}a" if number >= 90 else f"sm_{number}"


def facts(driver: Driver) -> dict[str, Any]:
    """The device as JSON: name, UUID, architecture, driver, memory and limits. Sizes in bytes, clocks in kHz."""
    free, total = driver.memory()
    uuid = driver.uuid()
    try:
        version = Nvml(uuid).driver_version()
    except NvmlError:
        version = ""
    return {
        "ordinal": driver.ordinal,
        "name": driver.name(),
        "uuid": uuid,
        "capability": list(driver.capability),
        "architecture": architecture(driver.capability),
        "cuda": driver.version(),
        "driver": version,
        "memory_bytes": total,
        "free_bytes": free,
        "cooperative_launch": bool(driver.attribute("cooperative_launch")),
        "cluster_launch": bool(driver.attribute("cluster_launch")),
        "tensor_maps": bool(driver.attribute("tensor_map_access")),
        **{name: driver.attribute(name) for name in _LIMITS},
    }


def company(uuid: str, open_nvml: Callable[[str], Nvml] = Nvml) -> Company:
    """Processes on the device that are none of ours: not this one, nor another evaluator or capture of kforge.

    Those wait for the device's lock before they time anything, so they do not disturb.
    """
    try:
        present = open_nvml(uuid).processes()
    except NvmlError as error:
        return Company(unknown=str(error))
    return strangers(present, os.getpid(), _command_line)


def strangers(present: Iterable[DeviceProcess], own: int, command_line: Callable[[int], bytes | None]) -> Company:
    """Those among `present` that are not kforge's; `own` is this process, which holds a context."""
    others = [one for one in present if one.pid != own]
    lines = {one.pid: command_line(one.pid) for one in others}
    if others and all(line is None for line in lines.values()):
        # A container's process sees the numbers of another namespace, its own among them.
        return Company(unknown="the driver numbers processes in another namespace than this one's")
    found = tuple(one for one in others if not _OURS.search(lines[one.pid] or b""))
    return Company(found, {one.pid: _program(lines[one.pid]) for one in found})


def describe(payload: dict[str, Any], emit: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Facts about every usable device, or `error`: what is missing."""
    del payload, emit
    try:
        first = Driver(0)
    except (NoDriver, DriverError) as error:
        return {"devices": [], "error": str(error)}
    devices = [first, *(Driver(ordinal) for ordinal in range(1, first.count()))]
    described = [facts(driver) for driver in devices]
    for entry in described:
        alone = company(entry["uuid"])
        entry["others"] = alone.message(entry["name"])
        entry["others_unknown"] = alone.unknown
    return {"devices": described, "error": ""}


def _command_line(pid: int) -> bytes | None:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return None


def _program(line: bytes | None) -> str:
    """The program's name, and that of the script that a Python runs."""
    words = [os.path.basename(word) for word in (line or b"").decode(errors="replace").split("\0")[:2] if word]
    return " ".join(words)[:60]
