"""`search_status`: the tree, the budgets and the best so far; enough to go on after days."""

from __future__ import annotations

from typing import Annotated

from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.parameters import ProjectId
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import reply
from kforge_mcp.server.status_page import StatusOutput, status_versions


def search_status(
    ctx: Call,
    project_id: ProjectId = "",
    card_id: Annotated[str, Field(description="Only this card, with more of its tree")] = "",
) -> Annotated[CallToolResult, StatusOutput]:
    """Show the search tree, budgets and best candidates of a project or card."""
    from kforge_mcp.search import status

    return reply(*status_versions(status.search_status(application(ctx).workspace, project_id, card_id)))


TOOL = ToolSpec(search_status, title="Show the search", toolset="search", read_only=True, idempotent=True)
