"""What is known of how a candidate runs, every figure with where it comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kforge_mcp.records.base import Record
from kforge_mcp.records.project import Target
from kforge_mcp.records.result import Reason

Bound = Literal["launch", "memory", "compute", "latency", "unknown"]
"""What limits a candidate: the time that launching takes, bandwidth, arithmetic, or none of them (waiting)."""


class KernelProfile(Record):
    """One kernel of a CUDA candidate. Sizes in bytes.

    Registers, spills, stack and static shared memory are the cubin's; grid to dynamic shared memory are the plan's for
    the profiled variant; occupancy is the driver's, the share of time from events on the device.
    """

    kernel: str
    registers: int = 0
    spill_bytes: int = 0
    stack_bytes: int = 0
    static_shared_bytes: int = 0
    grid: list[int] = Field(default_factory=list)
    block: list[int] = Field(default_factory=list)
    dynamic_shared_bytes: int = 0
    launches: int = 0
    """In one call of the candidate."""
    blocks_per_sm: int | None = None
    occupancy: float | None = None
    """Warps of resident blocks over those that a multiprocessor holds, 0 to 1."""
    waves: float | None = None
    """Blocks of the grid over those that the device holds at a time."""
    time_share: float | None = None
    """Part of the candidate's device time, 0 to 1."""


class Counter(Record):
    """A hardware counter of one kernel launch, as Nsight Compute reads it."""

    kernel: str
    name: str
    value: float
    unit: str = ""
    metric: str = ""
    """NVIDIA's name for it."""


class Profile(Record):
    """A candidate in the variant that weighs most. Times in microseconds; shares of a ceiling are 0 to 1."""

    candidate_id: str
    target: Target
    reason: Reason | None = None
    """Why there is no profile."""
    message: str = ""
    variant_id: str = ""
    config: dict[str, int | float | bool | str] = Field(default_factory=dict)
    candidate_us: float | None = None
    time_source: str = ""
    """Where `candidate_us` comes from: `benchmark` (the judge's pairs) or `events` (this profile)."""
    eager_us: float | None = None
    call_us: float | None = None
    """Time that a call takes on the host, from enqueueing to returning (cuda)."""
    floor_us: float | None = None
    """Time of the smallest kernel on this device."""
    unique_bytes: int = 0
    """Of all inputs and outputs: the least that has to be moved."""
    flops: int = 0
    """Of matrix products, as capture counted them; 0 where there are none."""
    bandwidth_gbs: float | None = None
    bandwidth_share: float | None = None
    gflops: float | None = None
    gflops_share: float | None = None
    bound: Bound = "unknown"
    evidence: list[str] = Field(default_factory=list)
    kernels: list[KernelProfile] = Field(default_factory=list)
    counters: list[Counter] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """What could not be known here, and why."""
