"""`benchmark`: a single stage for a candidate that exists."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult

from kforge_mcp.server.application import Call
from kforge_mcp.server.parameters import CandidateId, WaitS
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.stage import StageOutput
from kforge_mcp.server.submitting import judge


async def benchmark(ctx: Call, candidate_id: CandidateId, wait_s: WaitS = -1) -> Annotated[CallToolResult, StageOutput]:
    """Validate and time a candidate that exists, also once more; normally use submit_candidate."""
    return await judge(ctx, tool="benchmark", stage="benchmark", candidate_id=candidate_id, wait_s=wait_s)


TOOL = ToolSpec(benchmark, title="Benchmark a candidate", toolset="stages", read_only=False)
