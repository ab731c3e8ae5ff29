"""The state of a search as its reader sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from kforge_mcp.records.candidate import Budget
from kforge_mcp.search.proposals import outcome
from kforge_mcp.search.status import CardStatus, SearchStatus, TreeLine, tree_lines
from kforge_mcp.server.results import PAGE_LIMIT, Output, clip, figure, first_fitting


class BudgetRow(Output):
    """Limits (0: none) and what was spent."""

    iterations: int
    spent_iterations: int
    gpu_seconds: float
    spent_gpu_seconds: float
    cost_usd: float
    spent_cost_usd: float
    wall_s: float
    spent_wall_s: float


class CardSearch(Output):
    """One card's search."""

    card_id: str
    name: str
    candidates: int
    measured: int
    failed: int
    leases: int
    best_candidate: str
    best: str = Field(description="The best candidate's verdict in words")
    remaining_us: float = Field(description="Microseconds of the workload between the best and the speed of light")
    budget: BudgetRow | None = Field(description="Null without limits")
    stop_reason: str
    message: str


class TreeRow(Output):
    """A node; rows stand in the order of the printed tree, `depth` below the root."""

    card_id: str
    depth: int
    candidate_id: str
    outcome: str
    visits: int
    note: str


class StatusOutput(Output):
    """The search of a project or card."""

    project_id: str
    name: str
    workload_us: float
    budget: BudgetRow
    leases: int
    cards: list[CardSearch]
    cards_left_out: int
    tree: list[TreeRow]
    nodes_left_out: int


_LEVELS = (
    (60, 20, 80),
    (40, 12, 80),
    (25, 10, 60),
    (15, 8, 40),
    (10, 8, 30),
    (6, 6, 20),
    (3, 5, 0),
    (0, 4, 0),
    (0, 2, 0),
    (0, 1, 0),
)
"""Nodes, cards and characters of a note, ever fewer."""


def status_versions(status: SearchStatus) -> tuple[str, StatusOutput]:
    """Text and structure within the limit of a status."""
    branches = [(state, line) for state in status.cards for line in tree_lines(state.candidates)]

    def versions() -> Iterator[tuple[str, StatusOutput]]:
        for nodes, cards, characters in _LEVELS:
            output = _output(status, branches, nodes, cards, characters)
            yield status_text(output), output

    return first_fitting(versions(), PAGE_LIMIT)


def budget_row(budget: Budget) -> BudgetRow:
    """A budget without its owner, seconds and dollars rounded."""
    facts = budget.model_dump(exclude={"owner_id"})
    rounded: dict[str, Any] = {
        name: round(value, 2) if isinstance(value, float) else value for name, value in facts.items()
    }
    return BudgetRow(**rounded)


def _output(
    status: SearchStatus, branches: list[tuple[CardStatus, TreeLine]], nodes: int, cards: int, characters: int
) -> StatusOutput:
    return StatusOutput(
        project_id=status.project.project_id,
        name=clip(status.project.name, 80),
        workload_us=float(f"{status.project.workload_us:.5g}"),
        budget=budget_row(status.budget),
        leases=status.leases,
        cards=[_card(state, characters) for state in status.cards[:cards]],
        cards_left_out=max(0, len(status.cards) - cards),
        tree=[
            TreeRow(
                card_id=state.card.card_id,
                depth=line.depth,
                candidate_id=line.candidate_id,
                outcome=line.outcome,
                visits=line.visits,
                note=clip(line.note, characters),
            )
            for state, line in branches[:nodes]
        ],
        nodes_left_out=max(0, len(branches) - nodes),
    )


def _card(state: CardStatus, characters: int) -> CardSearch:
    limits = state.budget
    limited = limits.iterations or limits.gpu_seconds or limits.cost_usd or limits.wall_s
    return CardSearch(
        card_id=state.card.card_id,
        name=clip(state.card.name, 60),
        candidates=len(state.candidates),
        measured=state.measured,
        failed=state.failed,
        leases=state.leases,
        best_candidate=state.best.candidate_id if state.best else "",
        best=outcome(state.best) if state.best else "",
        remaining_us=float(f"{state.remaining_us:.4g}"),
        budget=budget_row(limits) if limited else None,
        stop_reason=state.stop.reason if state.stop else "",
        message=clip(state.stop.message, characters) if state.stop and characters else "",
    )


def status_text(output: StatusOutput) -> str:
    """The search for a reader who sees text only."""
    lines = [
        f"project {output.project_id} ({output.name}): {figure(output.workload_us, digits=5)} us a run, "
        f"{output.budget.spent_iterations} iterations"
        + (f" of {output.budget.iterations}" if output.budget.iterations else "")
        + f", {output.leases} leases out"
    ]
    for card in output.cards:
        best = f"best {card.best_candidate} {card.best}" if card.best_candidate else "nothing faster yet"
        spent = f"{card.measured} measured, {card.failed} failed" if card.candidates else "untouched"
        limit = f", {card.budget.spent_iterations} of {card.budget.iterations} iterations" if card.budget else ""
        stop = (
            f"; stopped: {card.stop_reason}" + (f" ({card.message})" if card.message else "")
            if card.stop_reason
            else ""
        )
        lines.append(
            f"{card.card_id} {card.name}: {best}; {spent}{limit}; {figure(card.remaining_us)} us left to gain{stop}"
        )
        lines += [_node(row) for row in output.tree if row.card_id == card.card_id]
    if output.cards_left_out:
        lines.append(f"({output.cards_left_out} more cards: list_operator_cards, or search_status(card_id))")
    if output.nodes_left_out:
        lines.append(f"({output.nodes_left_out} more nodes: search_status(card_id), get_candidate)")
    return "\n".join(lines)


def _node(row: TreeRow) -> str:
    note = f' "{row.note}"' if row.note else ""
    return f"{'  ' * (row.depth + 1)}- {row.candidate_id} {row.outcome}, {row.visits} visits{note}"
