"""`set_budget`: how much a search may spend."""

from __future__ import annotations

from typing import Annotated

from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import Output, reply
from kforge_mcp.server.status_page import BudgetRow, budget_row


class BudgetOutput(Output):
    """The budget as it holds now."""

    owner_id: str
    budget: BudgetRow


def set_budget(
    ctx: Call,
    project_id: Annotated[str, Field(description="The project whose budget is set; or pass card_id")] = "",
    card_id: Annotated[str, Field(description="The card whose budget is set; or pass project_id")] = "",
    iterations: Annotated[int, Field(ge=0, description="Judged candidates, failures included; 0: no limit")] = 0,
    gpu_seconds: Annotated[float, Field(ge=0, description="Seconds on the GPU; 0: no limit")] = 0,
    cost_usd: Annotated[float, Field(ge=0, description="US dollars, as reported by clients; 0: no limit")] = 0,
    wall_s: Annotated[float, Field(ge=0, description="Seconds of judging; 0: no limit")] = 0,
) -> Annotated[CallToolResult, BudgetOutput]:
    """Set the limits of a project or of a card, replacing all four; what was spent stays counted.

    A card that is not worth it is searched all the same once it has iterations of its own.
    """
    from kforge_mcp.search.budgets import set_limits
    from kforge_mcp.store import cards, projects

    if bool(project_id) == bool(card_id):
        raise ToolError("pass exactly one of project_id and card_id: a budget belongs to one of them.")
    with application(ctx).workspace.transaction() as session:
        owner = cards.get(session, card_id).card_id if card_id else projects.get(session, project_id).project_id
        budget = set_limits(
            session, owner, iterations=iterations, gpu_seconds=gpu_seconds, cost_usd=cost_usd, wall_s=wall_s
        )
    output = BudgetOutput(owner_id=owner, budget=budget_row(budget))
    row = output.budget
    pairs = (
        ("iterations", row.spent_iterations, row.iterations),
        ("GPU seconds", row.spent_gpu_seconds, row.gpu_seconds),
        ("US dollars", row.spent_cost_usd, row.cost_usd),
        ("wall seconds", row.spent_wall_s, row.wall_s),
    )
    text = ", ".join(f"{spent:g} of {f'{limit:g}' if limit else 'unlimited'} {unit}" for unit, spent, limit in pairs)
    return reply(f"budget of {owner}: {text}", output)


TOOL = ToolSpec(set_budget, title="Set a budget", toolset="search", read_only=False, idempotent=True)
