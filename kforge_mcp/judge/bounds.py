"""What limits a candidate, from its time and what it has to do: the roofline with a floor for launches.

Williams, Waterman, Patterson: Roofline (CACM 52(4), 2009). A share of a ceiling is reached only if nothing else
stands in the way, so a high share is proof and a low one is not: then it waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kforge_mcp.records.profile import Bound
from kforge_mcp.records.project import Ceilings
from kforge_mcp.records.variant import Variant

NEAR = 0.6
"""From this share of a ceiling on, the ceiling is what limits."""
_FLOORS = 2.0
"""A time of less than so many smallest kernels is launching, not work."""


@dataclass(frozen=True)
class Roofline:
    """Rates of one variant and their shares of the device's measured ceilings; None where nothing is known."""

    bandwidth_gbs: float | None = None
    bandwidth_share: float | None = None
    gflops: float | None = None
    gflops_share: float | None = None


def roofline(variant: Variant, candidate_us: float | None, ceilings: Ceilings | None) -> Roofline:
    """Bytes and operations that have to be done over the time that was taken."""
    if not candidate_us:
        return Roofline()
    bandwidth = variant.unique_bytes / candidate_us / 1e3 if variant.unique_bytes else None
    gflops = variant.flops / candidate_us / 1e3 if variant.flops else None
    if ceilings is None:
        return Roofline(bandwidth, None, gflops, None)
    best = ceilings.bandwidth(variant.unique_bytes) if ceilings.bandwidth_gbs else 0.0
    rate = _rate(variant, ceilings.gflops)
    return Roofline(
        bandwidth,
        bandwidth / best if bandwidth is not None and best else None,
        gflops,
        gflops / rate if gflops is not None and rate else None,
    )


def _rate(variant: Variant, gflops: Mapping[str, float]) -> float:
    dtypes = [spec.dtype for spec in variant.tensors]
    return max((gflops.get(dtype, 0.0) for dtype in dtypes), default=0.0)


def bound_of(
    lines: Roofline,
    *,
    candidate_us: float | None,
    floor_us: float | None = None,
    launches: int = 1,
    counters: Mapping[str, float] | None = None,
) -> tuple[Bound, list[str]]:
    """The bound with its evidence. `counters` are shares of the longest kernel's ceilings, in percent, by name."""
    read = counters or {}
    if not candidate_us:
        return "unknown", ["no time was measured: call benchmark"]
    if floor_us and candidate_us < _FLOORS * floor_us * max(launches, 1):
        said = f"{candidate_us:.3g} us for {launches} launch{'es' if launches != 1 else ''}"
        return "launch", [f"{said}; the smallest kernel takes {floor_us:.3g} us here (events)"]
    memory = {"bandwidth of what has to be moved": lines.bandwidth_share}
    compute = {"rate of matrix products": lines.gflops_share}
    memory |= {name: read[name] / 100 for name in ("dram throughput",) if name in read}
    compute |= {name: read[name] / 100 for name in ("sm throughput", "tensor pipe active") if name in read}
    known_memory = {name: share for name, share in memory.items() if share is not None}
    known_compute = {name: share for name, share in compute.items() if share is not None}
    most_memory = max(known_memory.values(), default=0.0)
    most_compute = max(known_compute.values(), default=0.0)
    evidence = [_share(name, share) for name, share in {**known_memory, **known_compute}.items()]
    if max(most_memory, most_compute) >= NEAR:
        return ("memory" if most_memory >= most_compute else "compute"), evidence
    if not evidence:
        return "unknown", ["this device's ceilings were not measured"]
    waits = sorted(((name, value) for name, value in read.items() if name.startswith("waits for")), key=_largest)
    evidence += [f"{name}: {value:.1f} warps an instruction (counters)" for name, value in waits[:2] if value >= 1]
    return "latency", [f"neither bandwidth nor arithmetic is at {NEAR:.0%} of its ceiling", *evidence]


def hints(bound: Bound, spills: int, occupancies: Sequence[float | None]) -> list[str]:
    """What to try first, from the bound and the static facts."""
    said = []
    if spills:
        said.append(
            f"{spills} bytes are spilled to memory: fewer live values, a smaller tile, or fewer threads a block"
        )
    lowest = min((one for one in occupancies if one is not None), default=None)
    if bound == "latency" and lowest is not None and lowest < 0.25:
        said.append(f"occupancy is {lowest:.0%}: more independent loads a thread, or less shared memory and registers")
    if bound == "launch":
        said.append("fewer launches or more work in one: fuse with neighbours (function and module cards)")
    if bound == "memory":
        said.append("bytes decide: fewer passes over the tensors, fusion; instructions hardly matter")
    return said


def _largest(item: tuple[str, float]) -> float:
    return -item[1]


def _share(name: str, share: float) -> str:
    source = "counters" if name in ("dram throughput", "sm throughput", "tensor pipe active") else "time and size"
    return f"{name}: {share:.0%} of the ceiling ({source})"
