"""`submit_candidate`: a source in, a verdict out."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call
from kforge_mcp.server.parameters import CardId, WaitS
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.stage import StageOutput
from kforge_mcp.server.submitting import LeaseId, Note, ParentId, Source, SourcePath, submit


async def submit_candidate(
    ctx: Call,
    card_id: CardId,
    source: Source = "",
    source_path: SourcePath = "",
    parent_id: ParentId = "",
    lease_id: LeaseId = "",
    note: Note = "",
    author: Annotated[str, Field(max_length=100, description="Who wrote it, for people")] = "",
    wait_s: WaitS = -1,
) -> Annotated[CallToolResult, StageOutput]:
    """Compile, validate and benchmark a candidate in one call, stopping at the first failure.

    A failed candidate is a normal result that says where and why; repair it and submit with the same lease_id.
    """
    return await submit(
        ctx,
        tool="submit_candidate",
        stages=["compile", "validate", "benchmark"],
        card_id=card_id,
        source=source,
        source_path=source_path,
        parent_id=parent_id,
        lease_id=lease_id,
        note=note,
        author=author,
        wait_s=wait_s,
    )


TOOL = ToolSpec(submit_candidate, title="Submit a candidate", toolset="search", read_only=False, idempotent=True)
