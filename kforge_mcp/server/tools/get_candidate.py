"""`get_candidate`: everything long about a candidate, in pages."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.candidate_parts import Part, candidate_part
from kforge_mcp.server.parameters import CandidateId
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import Output, reply


class CandidatePage(Output):
    """A page of one part of a candidate. Offsets in characters."""

    candidate_id: str
    card_id: str
    parent_id: str
    part: Part
    text: str
    offset: int
    next_offset: int = Field(description="Pass it as offset for the next page; -1 at the end")
    total_chars: int


def get_candidate(
    ctx: Call,
    candidate_id: CandidateId,
    part: Annotated[
        Part,
        Field(
            description="verdict: all figures; source; log: compiler and judge; sass: machine code (cuda); "
            "diff: against the parent; samples: raw times as JSON"
        ),
    ] = "verdict",
    offset: Annotated[int, Field(ge=0, description="Characters to skip")] = 0,
    limit: Annotated[int, Field(ge=1, le=20000, description="Characters to return")] = 6000,
) -> Annotated[CallToolResult, CandidatePage]:
    """Read a candidate: its verdict in full, source, log, difference to its parent, or raw samples."""
    candidate, text = candidate_part(application(ctx).workspace, candidate_id, part)
    page = text[offset : offset + limit]
    end = offset + len(page)
    output = CandidatePage(
        candidate_id=candidate_id,
        card_id=candidate.card_id,
        parent_id=candidate.parent_id,
        part=part,
        text=page,
        offset=offset,
        next_offset=end if end < len(text) else -1,
        total_chars=len(text),
    )
    more = f"\n({len(text) - end} more characters: offset={end})" if end < len(text) else ""
    return reply((page or "(nothing here)") + more, output)


TOOL = ToolSpec(get_candidate, title="Read a candidate", toolset="search", read_only=True, idempotent=True)
