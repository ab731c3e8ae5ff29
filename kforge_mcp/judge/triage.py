"""Which configurations of a CUDA candidate are worth timing: by what their cubins use, before anything runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kforge_mcp.candidate.bound import BoundLaunch
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.step_binding import NOMINAL_SM_COUNT, bind_steps
from kforge_mcp.compile.outcome import KernelResources
from kforge_mcp.judge.request import Config, Subject
from kforge_mcp.records.project import DeviceInfo

REGISTERS = 65536
"""Of a multiprocessor, which are also the most that a block may have (CUDA C++ Programming Guide, table of
technical specifications per compute capability, 8.0 to 12.0)."""
_REGISTER_UNIT = 8
"""Registers of a thread are given out in this many at a time, to warps of 32."""
_SHARED_BYTES = {"80": 163 << 10, "86": 99 << 10, "87": 163 << 10, "89": 99 << 10, "120": 99 << 10, "121": 99 << 10}
_MOST_SHARED_BYTES = 227 << 10
"""Shared memory that a block may have, by architecture (same table); of those not listed the most there is."""
_FEW_SPILLS = 32
"""Bytes: a thread that spills no more than a few registers is timed like any other."""


@dataclass(frozen=True)
class Triage:
    """Configurations to time, in their order, and those left out with the reason."""

    kept: list[Subject]
    left_out: list[tuple[Config, str]]

    def notes(self) -> list[str]:
        """What was left out, in a sentence each for at most three reasons."""
        reasons: dict[str, list[Config]] = {}
        for config, reason in self.left_out:
            reasons.setdefault(reason.split(":")[0], []).append(config)
        return [
            f"not timed, {reason}: {len(configs)} configuration{'s' if len(configs) > 1 else ''}, such as "
            + ", ".join(f"{name}={value}" for name, value in configs[0].items())
            for reason, configs in list(reasons.items())[:3]
        ]


def triage(subjects: Sequence[Subject], device: DeviceInfo) -> Triage:
    """Leave out configurations that cannot be launched on the device, and, if others do not, those that spill.

    At least one is kept: if none can be launched, all are, so that the judge says why.
    """
    left_out: list[tuple[Config, str]] = []
    able: list[Subject] = []
    for subject in subjects:
        reason = impossible(subject, device)
        if reason:
            left_out.append((dict(subject.config or {}), reason))
        else:
            able.append(subject)
    if not able:
        return Triage(list(subjects), [])
    spills = [_spilled(subject) for subject in able]
    if min(spills) <= _FEW_SPILLS < max(spills):
        for subject, bytes_ in zip(able, spills, strict=True):
            if bytes_ > _FEW_SPILLS:
                left_out.append((dict(subject.config or {}), f"registers spill: {bytes_} bytes a thread"))
        able = [subject for subject, bytes_ in zip(able, spills, strict=True) if bytes_ <= _FEW_SPILLS]
    return Triage(able, left_out)


def impossible(subject: Subject, device: DeviceInfo) -> str:
    """Why a configuration cannot be launched in one of its variants; empty if it can, as far as its cubin tells."""
    if subject.plan is None or subject.config is None:
        return ""
    for variant in subject.variants:
        sm_count = device.sm_count or NOMINAL_SM_COUNT
        bound = bind_steps(subject.plan, variant, subject.config, sm_count=sm_count, ends_only=True)
        binary = next((one for one in subject.libraries if variant.variant_id in one.variants), None)
        if isinstance(bound, Rejected) or binary is None:
            continue
        kernels = {kernel.kernel: kernel for kernel in binary.kernels}
        for step in bound.steps:
            if isinstance(step, BoundLaunch) and step.kernel_name_expression in kernels:
                reason = _excess(step, kernels[step.kernel_name_expression], device.arch or binary.arch)
                if reason:
                    return reason
    return ""


def _excess(step: BoundLaunch, kernel: KernelResources, arch: str) -> str:
    threads = math.prod(step.block)
    warps = -(-threads // 32)
    registers = -(-kernel.registers // _REGISTER_UNIT) * _REGISTER_UNIT * warps * 32
    if registers > REGISTERS:
        return (
            f"more registers than a block can have: {threads} threads of `{kernel.kernel}` with {kernel.registers} "
            f"each are {registers}, at most {REGISTERS} are there"
        )
    shared = step.shared_bytes + kernel.static_shared_bytes
    most = _SHARED_BYTES.get(arch.removeprefix("sm_").rstrip("af"), _MOST_SHARED_BYTES)
    if shared > most:
        return (
            f"more shared memory than a block can have: {shared} bytes in `{kernel.kernel}`, at most {most} on {arch}"
        )
    return ""


def _spilled(subject: Subject) -> int:
    """Bytes that a thread of the worst kernel stores by spills."""
    return max((k.spill_store_bytes for binary in subject.libraries for k in binary.kernels), default=0)
