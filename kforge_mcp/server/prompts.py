"""Prompts: the two things that people ask for, as starting messages."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import MCPServer
from pydantic import Field


def register(server: MCPServer[Any]) -> None:
    """Add the prompts."""

    @server.prompt(title="Optimise a model")
    def optimize_model(
        entry: Annotated[
            str, Field(description="'file.py:function', a script with its arguments, or 'torchvision:resnet50'")
        ],
        iterations: Annotated[str, Field(description="How many candidates may be judged")] = "30",
    ) -> str:
        """Make a model faster, from capture to package."""
        return (
            f"Make the PyTorch model behind `{entry}` faster with kforge, without changing its code. Call "
            f"capture_model(entry='{entry}'), then set_budget(project_id, iterations={iterations}). Then repeat: "
            "next_proposal, get_operator_card, write a candidate, submit_candidate with the lease_id; repair what "
            "fails from its message. Prefer cards of level function or module: level torch cannot be packaged yet. "
            "Stop at a stop_reason, call export_package, and report in a table: operator, share of the time, speed-up "
            "with its interval, verdict, and the end-to-end result. Claim nothing that the package's holdout does not "
            "show."
        )

    @server.prompt(title="Optimise an operator")
    def optimize_operator(
        card_id: Annotated[str, Field(description="The operator card to work on")],
        iterations: Annotated[str, Field(description="How many candidates may be judged")] = "10",
    ) -> str:
        """Make one operator faster."""
        return (
            f"Make the operator of kforge's card {card_id} faster. Call set_budget(card_id='{card_id}', "
            f"iterations={iterations}) and get_operator_card('{card_id}'). Then repeat: "
            f"next_proposal(card_id='{card_id}'), write a candidate in the given direction, submit_candidate with the "
            "lease_id; repair what fails from its message. Stop at a stop_reason and report the best candidate's "
            "verdict, with its interval and its share of the speed of light."
        )
