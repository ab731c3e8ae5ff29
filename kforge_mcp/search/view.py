"""A card's search as read in one transaction: candidates, leases and budgets."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kforge_mcp.errors import UsageError
from kforge_mcp.records.candidate import Budget, Candidate, Lease
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.search import leases
from kforge_mcp.search.stopping import Stop, best_candidate, stop_reason
from kforge_mcp.search.tree import Node, Tree
from kforge_mcp.store import budgets, candidates, cards, projects

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@dataclass
class CardView:
    """Everything that a decision about one card needs."""

    card: OperatorCard
    candidates: list[Candidate]
    leases: list[Lease]
    budget: Budget

    @classmethod
    def read(cls, session: Session, card: OperatorCard, moment: datetime, *, writing: bool) -> CardView:
        """Read a card's search; with `writing`, leases past their time are marked expired."""
        holding = (leases.active if writing else leases.still_holding)(session, card.card_id, moment)
        rows = candidates.of_card(session, card.card_id)
        return cls(card, rows, holding, budgets.get_or_default(session, card.card_id))

    @property
    def best(self) -> Candidate | None:
        """The measured candidate with the largest value, if it beats eager."""
        return best_candidate(self.candidates)

    def find(self, candidate_id: str) -> Candidate | None:
        """The candidate with this id, if it is the card's."""
        return next((candidate for candidate in self.candidates if candidate.candidate_id == candidate_id), None)

    def tree(self) -> Tree:
        """The search tree with the active leases as virtual losses."""
        nodes = [
            Node(row.candidate_id, row.parent_id, row.value if row.state == "measured" else None, row.visits)
            for row in self.candidates
        ]
        pending = leases.pending(self.leases, self.candidates)
        return Tree(nodes, pending, eager_ms=self.card.eager_us / 1000)

    def stop(self, project_budget: Budget, project_leases: int) -> Stop | None:
        """Why the search of this card should stop, or None."""
        return stop_reason(
            self.card,
            self.candidates,
            self.budget,
            project_budget,
            card_leases=len(self.leases),
            project_leases=project_leases,
        )


def scope(session: Session, project_id: str, card_id: str) -> tuple[Project, set[str]]:
    """The project meant by a call, and the ids of the cards that it is about.

    Without ids the latest project. Raises `UsageError` without any project, `NotFoundError` for unknown ids.
    """
    if card_id:
        card = cards.get(session, card_id)
        if project_id and card.project_id != project_id:
            raise UsageError(
                f"card {card_id} belongs to project {card.project_id}, not to {project_id}. Pass card_id alone."
            )
        return projects.get(session, card.project_id), {card_id}
    project = projects.get(session, project_id) if project_id else projects.latest(session)
    if project is None:
        raise UsageError("this workspace has no project yet. Call capture_model first.")
    return project, {card.card_id for card in cards.of_project(session, project.project_id)}
