"""`profile_candidate` as a client sees it."""

from __future__ import annotations

import json

import pytest

from kforge_mcp.records.base import now
from kforge_mcp.records.job import Job
from kforge_mcp.records.profile import Counter, KernelProfile, Profile
from kforge_mcp.server.profile_page import profile_versions
from kforge_mcp.server.results import PAGE_LIMIT
from kforge_mcp.store.workspace import Workspace
from tests.search.building import source, store_card
from tests.search.judging import FakeJudge
from tests.server.conftest import Connect, text_of

pytestmark = pytest.mark.anyio


def job_of(found: Profile) -> Job:
    return Job(
        job_id="job_0123456789",
        tool="profile_candidate",
        function="",
        arguments={},
        arguments_key="",
        created_at=now(),
        status="ok",
        result=found.model_dump(mode="json"),
    )


async def test_a_measured_candidate_is_profiled(
    connect: Connect, workspace: Workspace, judge: FakeJudge, in_place: list[Job]
) -> None:
    _, card = store_card(workspace)
    async with connect() as client:
        made = await client.call_tool("submit_candidate", {"card_id": card.card_id, "source": source()})
        candidate_id = made.structured_content["candidate_id"]
        found = await client.call_tool("profile_candidate", {"candidate_id": candidate_id})
        assert found.structured_content["status"] == "ok"
        assert found.structured_content["time_source"] == "benchmark"
        assert found.structured_content["bandwidth_gbs"] > 0
        assert found.structured_content["bandwidth_share"] is None
        assert "eager 400 us; bound: unknown" in text_of(found)
        assert "this device's ceilings were not measured" in text_of(found)
        again = await client.call_tool("job_status", {"job_id": in_place[-1].job_id})
        assert again.structured_content["result"]["candidate_id"] == candidate_id
        missing = await client.call_tool("profile_candidate", {"candidate_id": "cand_0000000000"})
        assert missing.is_error
        assert "search_status" in text_of(missing)


def test_a_long_profile_keeps_the_limit_of_a_page() -> None:
    kernels = [
        KernelProfile(
            kernel=f"a_kernel_with_a_long_name_{n}<BLOCK, TILE, 4>", registers=96, grid=[1024, 32, 1],
            block=[256, 1, 1], launches=3, occupancy=0.375, waves=1.5, time_share=0.25,
        )
        for n in range(9)
    ]  # fmt: skip
    counters = [
        Counter(kernel=one.kernel, name=f"counter {n}", value=1234.5678, unit="byte", metric="x")
        for one in kernels
        for n in range(20)
    ]
    found = Profile(
        candidate_id="cand_0000000001", target="cuda", variant_id="var_1", candidate_us=12.5, time_source="events",
        eager_us=100.0, bound="latency", evidence=["e" * 150] * 9, kernels=kernels, counters=counters,
        notes=["n" * 200] * 9,
    )  # fmt: skip
    text, output = profile_versions(job_of(found))
    assert len(text) <= PAGE_LIMIT
    assert len(json.dumps(output.model_dump(mode="json"))) <= PAGE_LIMIT
    assert output.kernels
    assert "driver: occupancy 38%, 1.50 waves" in text


def test_a_failed_profile_says_why() -> None:
    text, output = profile_versions(
        job_of(Profile(candidate_id="cand_0000000001", target="cuda", reason="crashed", message="it trapped"))
    )
    assert (output.status, output.reason) == ("failed", "crashed")
    assert "it trapped" in text
