"""`list_operator_cards`: what the workload's time is spent on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.parameters import ProjectId
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import PAGE_LIMIT, Output, first_fitting, reply
from kforge_mcp.server.rows import CardRow, card_row, rows_text


class CardsOutput(Output):
    """A page of cards."""

    project_id: str
    cards: list[CardRow]
    total: int
    next_cursor: str = Field(default="", description="Pass it as cursor for the next page; empty at the end")


def list_operator_cards(
    ctx: Call,
    project_id: ProjectId = "",
    level: Annotated[
        Literal["all", "torch", "function", "module"],
        Field(description="torch operators, functions of the model's code, module classes, or all"),
    ] = "all",
    sort: Annotated[
        Literal["gain", "share", "calls", "name"],
        Field(description="gain: first what own kernels can be expected to save most, beyond the cards inside"),
    ] = "gain",
    limit: Annotated[int, Field(ge=1, le=100, description="Cards on a page; fewer if they would be too long")] = 20,
    cursor: Annotated[str, Field(description="next_cursor of the page before; empty: the first")] = "",
) -> Annotated[CallToolResult, CardsOutput]:
    """List a project's operator cards: calls, share of the time, and the most that each could gain."""
    from kforge_mcp.capture.listing import sort_cards
    from kforge_mcp.search.view import scope
    from kforge_mcp.store import cards

    with application(ctx).workspace.reading() as session:
        project, _ = scope(session, project_id, "")
        rows = [card_row(card) for card in sort_cards(cards.of_project(session, project.project_id, level), sort)]
    start = int(cursor) if cursor.isdecimal() else 0
    if cursor and (not cursor.isdecimal() or start > len(rows)):
        raise ToolError(f"cursor {cursor!r} is none that list_operator_cards returned. Leave it empty to start over.")

    def versions() -> Iterator[tuple[str, CardsOutput]]:
        for count in range(min(limit, len(rows) - start), 0, -1):
            yield _page(project.project_id, rows, start, count)
        yield _page(project.project_id, rows, start, 0)

    return reply(*first_fitting(versions(), PAGE_LIMIT))


def _page(project_id: str, rows: list[CardRow], start: int, count: int) -> tuple[str, CardsOutput]:
    end = start + count
    page = rows[start:end]
    output = CardsOutput(
        project_id=project_id, cards=page, total=len(rows), next_cursor=str(end) if end < len(rows) else ""
    )
    more = f"\nmore: cursor={output.next_cursor!r}" if output.next_cursor else ""
    head = f"project {project_id}: cards {start + 1 if page else 0} to {start + len(page)} of {len(rows)}\n"
    return head + (rows_text(page) or "no cards on this level") + more, output


TOOL = ToolSpec(list_operator_cards, title="List operator cards", toolset="capture", read_only=True, idempotent=True)
