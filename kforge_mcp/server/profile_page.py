"""A candidate's profile as its reader sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from kforge_mcp.records.job import Job
from kforge_mcp.records.profile import Bound, KernelProfile, Profile
from kforge_mcp.records.result import Reason, Status
from kforge_mcp.server.results import PAGE_LIMIT, Output, clip, figure, first_fitting, rounded
from kforge_mcp.server.unfinished import unfinished


class KernelRow(Output):
    """One kernel. Sizes in bytes, shares 0 to 1; null where this machine does not tell."""

    kernel: str
    registers: int = Field(description="Of a thread (cubin)")
    spill_bytes: int = Field(description="Stored and loaded by spills (cubin)")
    static_shared_bytes: int = Field(description="Static shared memory (cubin)")
    dynamic_shared_bytes: int = 0
    grid: list[int] = Field(default_factory=list)
    block: list[int] = Field(default_factory=list)
    launches: int = 0
    occupancy: float | None = Field(default=None, description="Resident warps over the most there can be (driver)")
    waves: float | None = Field(default=None, description="Blocks over those held at a time (driver)")
    time_share: float | None = Field(default=None, description="Of the candidate's device time (events)")


class CounterRow(Output):
    """A hardware counter of a kernel's first launch (Nsight Compute)."""

    kernel: str
    name: str
    value: float
    unit: str = ""


class ProfileOutput(Output):
    """How a candidate runs in the variant that weighs most. Times in microseconds, shares of ceilings 0 to 1."""

    candidate_id: str = ""
    status: Status
    job_id: str = Field(default="", description="Ask job_status with it while status is queued or running")
    reason: Reason | None = None
    message: str = ""
    variant_id: str = ""
    config: dict[str, Any] = Field(default_factory=dict)
    bound: Bound = Field(default="unknown", description="What limits it; evidence says why")
    evidence: list[str] = Field(default_factory=list)
    candidate_us: float | None = None
    time_source: str = Field(default="", description="benchmark: the judge's; events: this profile's")
    eager_us: float | None = None
    call_us: float | None = Field(default=None, description="Host time of a call")
    bandwidth_gbs: float | None = Field(default=None, description="Bytes of all inputs and outputs over the time")
    bandwidth_share: float | None = Field(default=None, description="Of this device's measured bandwidth")
    gflops: float | None = Field(default=None, description="Matrix products only")
    gflops_share: float | None = None
    kernels: list[KernelRow] = Field(default_factory=list)
    counters: list[CounterRow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list, description="What could not be known here, and why")
    next_step: str = ""


_LEVELS = ((6, 40, 12), (4, 20, 10), (3, 20, 8), (2, 12, 6), (1, 8, 4), (1, 0, 3))
"""How many kernels, counters, and lines of evidence and notes are shown, ever fewer."""


def profile_versions(job: Job, limit: int = PAGE_LIMIT) -> tuple[str, ProfileOutput]:
    """Text and structure of what a profiling job says. Raises `ToolError` if it could not be carried out."""
    if waiting := unfinished(job, ProfileOutput, "the profile"):
        return waiting
    assert job.result is not None
    found = Profile.model_validate(job.result)

    def versions() -> Iterator[tuple[str, ProfileOutput]]:
        for level in _LEVELS:
            output = _output(found, level)
            yield _text(found, output), output

    return first_fitting(versions(), limit)


def _output(found: Profile, level: tuple[int, int, int]) -> ProfileOutput:
    kernels, counters, lines = level
    if found.reason is not None:
        step = "Repair the source and call submit_candidate; get_candidate(part='log') has the compiler's log."
        return ProfileOutput(
            candidate_id=found.candidate_id,
            status="failed",
            reason=found.reason,
            message=clip(found.message, 800),
            next_step=step,
        )
    figures: dict[str, Any] = {
        name: rounded(getattr(found, name))
        for name in (
            "candidate_us", "eager_us", "call_us", "bandwidth_gbs", "bandwidth_share", "gflops", "gflops_share",
        )
    }  # fmt: skip
    return ProfileOutput(
        candidate_id=found.candidate_id,
        status="ok",
        variant_id=found.variant_id,
        config=dict(found.config),
        bound=found.bound,
        evidence=[clip(text, 200) for text in found.evidence[:lines]],
        time_source=found.time_source,
        **figures,
        kernels=[_kernel(one) for one in found.kernels[:kernels]],
        counters=[
            CounterRow(kernel=clip(one.kernel, 60), name=one.name, value=float(f"{one.value:.4g}"), unit=one.unit)
            for one in found.counters[:counters]
        ],
        notes=[clip(text, 250) for text in found.notes[:lines]],
        next_step="Call next_proposal and submit_candidate with what limits it in mind; "
        "get_candidate(part='sass') shows the instructions.",
    )


def _kernel(one: KernelProfile) -> KernelRow:
    return KernelRow(
        kernel=clip(one.kernel, 100),
        registers=one.registers,
        spill_bytes=one.spill_bytes,
        static_shared_bytes=one.static_shared_bytes,
        dynamic_shared_bytes=one.dynamic_shared_bytes,
        grid=one.grid,
        block=one.block,
        launches=one.launches,
        occupancy=rounded(one.occupancy),
        waves=rounded(one.waves),
        time_share=rounded(one.time_share),
    )


def _text(found: Profile, output: ProfileOutput) -> str:
    """The profile for a reader who sees text only."""
    if output.reason is not None:
        head = f"{output.candidate_id} profile: failed, {output.reason}\n{output.message}\nnext: {output.next_step}"
        return head
    config = "".join(f", {name}={value}" for name, value in output.config.items())
    times = f"{figure(output.candidate_us)} us ({output.time_source})" if output.candidate_us else "not timed"
    lines = [
        f"{output.candidate_id} in {output.variant_id}{config}: {times}, eager {figure(output.eager_us)} us; "
        f"bound: {output.bound}"
    ]
    lines += [f"  {text}" for text in output.evidence]
    lines += _rates(found, output)
    lines += [_kernel_text(one) for one in output.kernels]
    kernel = ""
    for one in output.counters:
        if one.kernel != kernel:
            kernel = one.kernel
            lines.append(f"counters of {kernel}:")
        lines.append(f"  {one.name}: {figure(one.value, digits=4)}{f' {one.unit}' if one.unit else ''}")
    lines += [f"note: {text}" for text in output.notes]
    lines.append(f"next: {output.next_step}")
    return "\n".join(lines)


def _rates(found: Profile, output: ProfileOutput) -> Iterator[str]:
    if output.bandwidth_gbs is not None:
        share = f", {output.bandwidth_share:.0%} of the ceiling" if output.bandwidth_share is not None else ""
        yield f"moves at least {found.unique_bytes} bytes: {figure(output.bandwidth_gbs)} GB/s{share}"
    if output.gflops is not None:
        share = f", {output.gflops_share:.0%} of the ceiling" if output.gflops_share is not None else ""
        yield f"matrix products: {figure(output.gflops)} GFLOP/s{share}"
    if output.call_us is not None:
        yield f"a call takes the host {figure(output.call_us)} us"


def _kernel_text(one: KernelRow) -> str:
    parts = [f"cubin: {one.registers} registers", f"{one.spill_bytes} B spilled" if one.spill_bytes else "no spills"]
    shared = one.static_shared_bytes + one.dynamic_shared_bytes
    parts.append(f"{shared} B shared memory")
    sizes = (
        f"grid {'x'.join(map(str, one.grid))}, block {'x'.join(map(str, one.block))}" if one.grid else "not launched"
    )
    parts.append(f"plan: {sizes}" + (f", {one.launches} launches" if one.launches > 1 else ""))
    if one.occupancy is not None:
        waves = f", {one.waves:.2f} waves" if one.waves is not None else ""
        parts.append(f"driver: occupancy {one.occupancy:.0%}{waves}")
    if one.time_share is not None:
        parts.append(f"events: {one.time_share:.0%} of the time")
    return f"{one.kernel}: {', '.join(parts)}"
