"""`profile_candidate`: what limits a candidate, with the evidence."""

from __future__ import annotations

from typing import Annotated

import anyio.to_thread
from mcp_types import CallToolResult

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.parameters import CandidateId, WaitS
from kforge_mcp.server.profile_page import ProfileOutput, profile_versions
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import reply
from kforge_mcp.server.waiting import run_job

FUNCTION = "kforge_mcp.judge.profile:run_profile"


async def profile_candidate(
    ctx: Call, candidate_id: CandidateId, wait_s: WaitS = -1
) -> Annotated[CallToolResult, ProfileOutput]:
    """Find what limits a candidate: registers, spills, occupancy, rates against the device's ceilings, counters.

    Every figure says where it comes from; what this machine cannot tell is said, never guessed. Benchmark it first.
    """
    app = application(ctx)

    def check() -> None:
        from kforge_mcp.store import candidates

        with app.workspace.reading() as session:
            candidates.get(session, candidate_id)

    await anyio.to_thread.run_sync(check)
    arguments = {"candidate_id": candidate_id}
    job = await run_job(ctx, tool="profile_candidate", function=FUNCTION, arguments=arguments, wait_s=wait_s)
    return reply(*profile_versions(job))


TOOL = ToolSpec(profile_candidate, title="Profile a candidate", toolset="search", read_only=False)
