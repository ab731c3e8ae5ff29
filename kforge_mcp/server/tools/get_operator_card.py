"""`get_operator_card`: everything that is needed to write a candidate for a card."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.card_page import CardOutput, card_page
from kforge_mcp.server.parameters import CardId
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import PAGE_LIMIT, first_fitting, reply

_LEVELS = (
    (2200, 12, 2400),
    (1600, 8, 1700),
    (1300, 6, 1500),
    (1000, 4, 1200),
    (700, 3, 1000),
    (400, 2, 800),
    (200, 1, 0),
)
"""Characters of reference source, variants and characters of the seed, ever fewer."""


def get_operator_card(
    ctx: Call,
    card_id: CardId,
    source_offset: Annotated[
        int, Field(ge=0, description="Characters of the reference source to skip, where a first page cut it")
    ] = 0,
) -> Annotated[CallToolResult, CardOutput]:
    """Read a card before writing a candidate: the operator's Python source, the names and C types that a candidate
    may use, the exact C signature, shapes of all variants, and a source that compiles."""
    page = card_page(application(ctx).workspace, card_id)

    def versions() -> Iterator[tuple[str, CardOutput]]:
        for source, variants, seed in _LEVELS:
            yield page.version(source_offset, source, variants, seed)

    return reply(*first_fitting(versions(), PAGE_LIMIT))


TOOL = ToolSpec(get_operator_card, title="Read an operator card", toolset="capture", read_only=True, idempotent=True)
