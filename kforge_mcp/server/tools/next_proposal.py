"""`next_proposal`: what to try next, leased to the caller."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application, client_name
from kforge_mcp.server.parameters import ProjectId
from kforge_mcp.server.proposal_page import ProposalsOutput, proposals_versions
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import reply


def next_proposal(
    ctx: Call,
    project_id: ProjectId = "",
    card_id: Annotated[
        str, Field(description="Stay on this card; empty: the card with the largest remaining gain")
    ] = "",
    count: Annotated[int, Field(ge=1, le=8, description="Leases to take, for parallel work")] = 1,
) -> Annotated[CallToolResult, ProposalsOutput]:
    """Get the next thing to try: a candidate to revise or a first approach, leased to you for 30 minutes and 3 tries.

    Comes with the parent's source and verdict, what failed before, and directions; or with a stop_reason.
    """
    from kforge_mcp.search import proposals

    result = proposals.next_proposal(application(ctx).workspace, project_id, card_id, count, client_name(ctx))
    return reply(*proposals_versions(result))


TOOL = ToolSpec(next_proposal, title="Get the next proposal", toolset="search", read_only=False)
