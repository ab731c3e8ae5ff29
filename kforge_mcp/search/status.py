"""Where a search stands: what a client that comes back after days needs to go on."""

from __future__ import annotations

from datetime import datetime

from kforge_mcp.records.base import Record, now
from kforge_mcp.records.candidate import Budget, Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.search.allocation import priority, remaining_us
from kforge_mcp.search.proposals import outcome
from kforge_mcp.search.stopping import Stop
from kforge_mcp.search.tree import ROOT, Node, Tree
from kforge_mcp.search.view import CardView, scope
from kforge_mcp.store import budgets, cards
from kforge_mcp.store.workspace import Workspace


class CardStatus(Record):
    """One card's search. Times in microseconds for one run of the workload."""

    card: OperatorCard
    candidates: list[Candidate]
    best: Candidate | None
    measured: int
    failed: int
    unjudged: int
    leases: int
    budget: Budget
    stop: Stop | None
    remaining_us: float


class SearchStatus(Record):
    """A project's search, cards with the largest gain to be expected first."""

    project: Project
    budget: Budget
    leases: int
    cards: list[CardStatus]


def search_status(
    workspace: Workspace, project_id: str = "", card_id: str = "", *, moment: datetime | None = None
) -> SearchStatus:
    """Read the search of a project, or of one card. Raises `UsageError` and `NotFoundError` as `next_proposal`."""
    moment = moment or now()
    with workspace.reading() as session:
        project, wanted = scope(session, project_id, card_id)
        every = cards.of_project(session, project.project_id)
        views = [CardView.read(session, card, moment, writing=False) for card in every]
        budget = budgets.get_or_default(session, project.project_id)
    out = sum(len(view.leases) for view in views)
    states = [_card(view, project, budget, out) for view in views if view.card.card_id in wanted]
    states.sort(key=lambda state: (state.card.eligible, _expected(state, project)), reverse=True)
    return SearchStatus(project=project, budget=budget, leases=out, cards=states)


def _card(view: CardView, project: Project, budget: Budget, out: int) -> CardStatus:
    states = [row.state for row in view.candidates]
    best = view.best
    return CardStatus(
        card=view.card,
        candidates=view.candidates,
        best=best,
        measured=states.count("measured"),
        failed=states.count("failed"),
        unjudged=states.count("open"),
        leases=len(view.leases),
        budget=view.budget,
        stop=view.stop(budget, out),
        remaining_us=remaining_us(view.card, _value(best), project.workload_us),
    )


def _value(best: Candidate | None) -> float:
    return (best.value if best else 0.0) or 0.0


def _expected(state: CardStatus, project: Project) -> tuple[float, float]:
    return priority(state.card, _value(state.best), project.workload_us)


class TreeLine(Record):
    """One node as it is printed: its depth below the root, and the children's order by what lies below them."""

    depth: int
    candidate_id: str
    parent_id: str
    outcome: str
    visits: int
    note: str


def tree_lines(candidates: list[Candidate]) -> list[TreeLine]:
    """The tree in the order in which it is printed, the most promising branches first."""
    rows = {row.candidate_id: row for row in candidates}
    tree = Tree(Node(row.candidate_id, row.parent_id, row.value, row.visits) for row in candidates)
    lines: list[TreeLine] = []
    stack = [(0, child) for child in _ranked(tree, ROOT)]
    while stack:
        depth, name = stack.pop()
        row = rows[name]
        lines.append(
            TreeLine(
                depth=depth,
                candidate_id=name,
                parent_id=row.parent_id,
                outcome=outcome(row),
                visits=row.visits,
                note=row.note,
            )
        )
        stack.extend((depth + 1, child) for child in _ranked(tree, name))
    return lines


def _ranked(tree: Tree, node: str) -> list[str]:
    """Children for a stack: the best last."""
    return sorted(tree.children.get(node, ()), key=lambda child: tree.best[child])
