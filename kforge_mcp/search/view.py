"""A card's search as read in one transaction: its progress, leases and budgets. The tree is read as it is walked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from kforge_mcp.errors import UsageError
from kforge_mcp.records.candidate import Budget, Lease
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.search import leases
from kforge_mcp.search.stopping import Progress, Stop, stop_reason
from kforge_mcp.search.tree import Node, Tree
from kforge_mcp.store import budgets, candidates, cards, projects

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class StoredTree(Tree):
    """A card's tree of which only what selection comes by is read: the leased lineages, and the children on its way."""

    def __init__(self, session: Session, card: OperatorCard, holding: list[Lease]) -> None:
        super().__init__(eager_ms=card.eager_us / 1000)
        self._session = session
        self._card_id = card.card_id
        for lease in holding:
            if lease.parent_id and lease.parent_id not in self.nodes:
                self._learn(candidates.lineage(session, lease.parent_id))
        for pending in leases.pending(session, holding):
            self.lease(pending)

    def _learn(self, rows: list[candidates.TreeRow]) -> None:
        for row in rows:
            self.nodes[row.candidate_id] = Node(*row)

    def children(self, name: str) -> list[Node]:
        """A node's children, oldest first, read when they are first asked for."""
        if name not in self._children:
            rows = candidates.below(self._session, self._card_id, name)
            self._learn(rows)
            self._children[name] = [row.candidate_id for row in rows]
        return super().children(name)


@dataclass
class CardView:
    """What a decision about one card needs."""

    card: OperatorCard
    progress: Progress
    leases: list[Lease]
    budget: Budget

    @classmethod
    def of_project(
        cls, session: Session, project_id: str, every: list[OperatorCard], moment: datetime, *, writing: bool
    ) -> list[CardView]:
        """Read the searches of a project's cards; with `writing`, leases past their time are marked expired."""
        holding = leases.active_by_card(session, project_id, moment, writing=writing)
        limits = budgets.of_owners(session, [card.card_id for card in every])
        counts = candidates.counts(session, project_id)
        return [
            cls(
                card,
                _progress(session, card.card_id, counts.get(card.card_id)),
                holding.get(card.card_id, []),
                limits[card.card_id],
            )
            for card in every
        ]

    @property
    def best_value(self) -> float:
        """The value of the best candidate; 0 while nothing beats eager."""
        return (self.progress.best.value if self.progress.best else 0.0) or 0.0

    def stop(self, project_budget: Budget, project_leases: int) -> Stop | None:
        """Why the search of this card should stop, or None."""
        return stop_reason(
            self.card,
            self.progress,
            self.budget,
            project_budget,
            card_leases=len(self.leases),
            project_leases=project_leases,
        )


def _progress(session: Session, card_id: str, counts: candidates.Counts | None) -> Progress:
    if counts is None:
        return Progress()
    completed = counts.measured + counts.failed
    best = candidates.first_of_value(session, card_id, counts.largest) if counts.largest > 0 else None
    return Progress(best[0], completed, best[1]) if best else Progress(None, completed, completed)


def scope(session: Session, project_id: str, card_id: str) -> tuple[Project, list[OperatorCard], set[str]]:
    """The project meant by a call, its cards, and the ids of those that the call is about.

    Without ids the latest project. Raises `UsageError` without any project, `NotFoundError` for unknown ids.
    """
    if card_id:
        card = cards.get(session, card_id)
        if project_id and card.project_id != project_id:
            raise UsageError(
                f"card {card_id} belongs to project {card.project_id}, not to {project_id}. Pass card_id alone."
            )
        project = projects.get(session, card.project_id)
        return project, cards.of_project(session, card.project_id), {card_id}
    project = projects.get(session, project_id) if project_id else projects.latest(session)
    if project is None:
        raise UsageError("this workspace has no project yet. Call capture_model first.")
    every = cards.of_project(session, project.project_id)
    return project, every, {card.card_id for card in every}
