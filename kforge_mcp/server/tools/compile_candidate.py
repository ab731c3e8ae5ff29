"""`compile_candidate`: only the first stage of a submission."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call
from kforge_mcp.server.parameters import CardId, WaitS
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.stage import StageOutput
from kforge_mcp.server.submitting import LeaseId, Note, ParentId, Source, SourcePath, submit


async def compile_candidate(
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
    """Only compile a candidate; normally use submit_candidate. Follow with benchmark(candidate_id)."""
    return await submit(
        ctx,
        tool="compile_candidate",
        stages=["compile"],
        card_id=card_id,
        source=source,
        source_path=source_path,
        parent_id=parent_id,
        lease_id=lease_id,
        note=note,
        author=author,
        wait_s=wait_s,
    )


TOOL = ToolSpec(compile_candidate, title="Compile a candidate", toolset="stages", read_only=False, idempotent=True)
