"""The resources of compiled kernels in a few words, for results and logs."""

from __future__ import annotations

from collections.abc import Sequence

from kforge_mcp.compile.outcome import Binary, KernelResources


def resource_line(kernel: KernelResources) -> str:
    """One kernel: registers, spills, stack and shared memory."""
    spills = kernel.spill_store_bytes + kernel.spill_load_bytes
    parts = [f"{kernel.registers} registers", f"{spills} B spilled" if spills else "no spills"]
    if kernel.stack_bytes:
        parts.append(f"{kernel.stack_bytes} B stack")
    if kernel.static_shared_bytes:
        parts.append(f"{kernel.static_shared_bytes} B static shared memory")
    return f"{kernel.kernel}: {', '.join(parts)}"


def resource_notes(binaries: Sequence[Binary]) -> list[str]:
    """One note for each configuration and architecture, equal ones once; those that spill first."""
    notes: dict[str, int] = {}
    for binary in binaries:
        values = "".join(f", {name}={value}" for name, value in binary.config.items())
        spills = sum(kernel.spill_store_bytes + kernel.spill_load_bytes for kernel in binary.kernels)
        if binary.kernels:
            lines = "; ".join(resource_line(kernel) for kernel in binary.kernels)
            notes.setdefault(f"{binary.arch}{values}: {lines}", -spills)
    return sorted(notes, key=lambda note: notes[note])
