"""One source file proposed for a card, and what became of it: a node of the search tree."""

from __future__ import annotations

from typing import Literal

from kforge_mcp.records.base import Moment, Record
from kforge_mcp.records.project import Target
from kforge_mcp.records.result import StageResult

NodeState = Literal["open", "measured", "failed"]


class Candidate(Record):
    """A candidate with its place in the tree, its author and its latest results."""

    candidate_id: str
    card_id: str
    project_id: str
    parent_id: str = ""
    """The candidate it revises; empty for a child of the root (eager)."""
    target: Target
    source: str
    """Digest of the source's blob."""
    source_key: str
    """Hash of the parsed metadata and the code tokens: equal keys are one candidate."""
    note: str = ""
    author: str = ""
    client: str = ""
    model: str = ""
    tokens: int = 0
    cost_usd: float = 0.0
    lease_id: str = ""
    created_at: Moment
    state: NodeState = "open"
    compiled: StageResult | None = None
    validated: StageResult | None = None
    benchmarked: StageResult | None = None
    value: float | None = None
    """ln of the card's speed-up by the lower interval end, at least 0; None until measured."""
    gain: float | None = None
    """As `value`, negative where it is slower than eager: how far a revision has to go. None until measured."""
    visits: int = 0
    """Completed visits of its subtree, its own included."""
    best: float | None = None
    """Largest `gain` in its subtree; None while nothing there was measured."""
    pace: float = 0.0
    """By how much `best` lately grew per visit."""
    wall_s: float = 0.0
    gpu_s: float = 0.0
    samples: str = ""
    """Blob with the raw timing samples, JSON."""
    log: str = ""
    """Blob with compiler and judge logs, text."""

    @property
    def latest(self) -> StageResult | None:
        """The result of the furthest stage reached."""
        return self.benchmarked or self.validated or self.compiled


class Lease(Record):
    """Permission to expand one node, handed to one client, that expires."""

    lease_id: str
    card_id: str
    project_id: str
    parent_id: str
    client: str = ""
    created_at: Moment
    expires_at: Moment
    tries_left: int = 3
    state: Literal["active", "used", "expired"] = "active"


class Budget(Record):
    """Limits of a card or project; 0 is no limit. Spent counts accumulate."""

    owner_id: str
    """A project_id or card_id."""
    iterations: int = 0
    gpu_seconds: float = 0.0
    cost_usd: float = 0.0
    wall_s: float = 0.0
    spent_iterations: int = 0
    spent_gpu_seconds: float = 0.0
    spent_cost_usd: float = 0.0
    spent_wall_s: float = 0.0
