"""What limits a candidate follows from its time, what it has to do, and what counters say."""

from __future__ import annotations

import pytest

from kforge_mcp.judge.bounds import Roofline, bound_of, hints, roofline
from kforge_mcp.records.project import Ceilings
from tests.search.building import make_variant

CEILINGS = Ceilings(bandwidth_gbs={1 << 30: 4000.0}, gflops={"fp32": 50_000.0, "bf16": 700_000.0})


def test_rates_are_bytes_and_operations_over_time() -> None:
    variant = make_variant(unique_bytes=4_000_000, flops=5_000_000)
    found = roofline(variant, 10.0, CEILINGS)
    assert found == Roofline(400.0, 0.1, 500.0, 0.01)


def test_what_was_not_measured_has_no_share() -> None:
    variant = make_variant(unique_bytes=4_000_000)
    assert roofline(variant, None, CEILINGS) == Roofline()
    assert roofline(variant, 10.0, None) == Roofline(400.0)
    assert roofline(variant, 10.0, CEILINGS).gflops is None


@pytest.mark.parametrize(
    ("bandwidth", "gflops", "word"),
    [
        (0.8, 0.1, "memory"),
        (0.1, 0.8, "compute"),
        (0.7, 0.65, "memory"),
        (0.3, 0.1, "latency"),
        (None, None, "unknown"),
    ],
)
def test_the_ceiling_that_is_near_is_the_bound(bandwidth: float | None, gflops: float | None, word: str) -> None:
    found, evidence = bound_of(Roofline(1.0, bandwidth, 1.0, gflops), candidate_us=100.0)
    assert found == word
    assert evidence


def test_a_time_near_the_smallest_kernels_is_launching() -> None:
    found, evidence = bound_of(Roofline(1.0, 0.9), candidate_us=4.0, floor_us=2.5)
    assert found == "launch"
    assert evidence == ["4 us for 1 launch; the smallest kernel takes 2.5 us here (events)"]
    assert bound_of(Roofline(1.0, 0.9), candidate_us=12.0, floor_us=2.5)[0] == "memory"
    assert bound_of(Roofline(1.0, 0.1), candidate_us=12.0, floor_us=2.5, launches=3)[0] == "launch"


def test_counters_decide_where_sizes_do_not_tell() -> None:
    lines = Roofline(1.0, 0.3)
    assert bound_of(lines, candidate_us=100.0, counters={"dram throughput": 91.0})[0] == "memory"
    assert bound_of(lines, candidate_us=100.0, counters={"sm throughput": 85.0})[0] == "compute"
    counters = {"dram throughput": 20.0, "waits for memory": 52.8, "waits for a barrier": 3.0, "waits for x": 0.1}
    found, evidence = bound_of(lines, candidate_us=100.0, counters=counters)
    assert found == "latency"
    assert evidence[-2:] == [
        "waits for memory: 52.8 warps an instruction (counters)",
        "waits for a barrier: 3.0 warps an instruction (counters)",
    ]


def test_without_a_time_nothing_is_concluded() -> None:
    assert bound_of(Roofline(), candidate_us=None) == ("unknown", ["no time was measured: call benchmark"])


def test_hints_follow_from_the_facts() -> None:
    assert "8 bytes are spilled" in hints("memory", 8, [])[0]
    assert "occupancy is 12%" in hints("latency", 0, [0.5, 0.12, None])[0]
    assert hints("compute", 0, [0.1]) == []
