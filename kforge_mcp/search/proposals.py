"""What to try next: nodes selected and leased in one transaction, with what a proposer needs to know."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime

from pydantic import Field

from kforge_mcp.records.base import Moment, Record, now
from kforge_mcp.records.candidate import Candidate, Lease
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project, Target
from kforge_mcp.records.result import StageResult
from kforge_mcp.search import leases
from kforge_mcp.search.allocation import priority
from kforge_mcp.search.budgets import iterations_left
from kforge_mcp.search.directions import Facts, directions
from kforge_mcp.search.stopping import Stop, visits_since_improvement
from kforge_mcp.search.tree import ROOT, PolicyName, select
from kforge_mcp.search.view import CardView, scope
from kforge_mcp.store import budgets, cards
from kforge_mcp.store.workspace import Workspace

MAX_COUNT = 8


class Step(Record):
    """A candidate in one line: what its author said of it, and what came of it."""

    candidate_id: str
    note: str
    outcome: str


class Starter(Record):
    """A source that compiles, to start from."""

    name: str
    source: str


class Proposal(Record):
    """A leased node and what is known about it. Nothing is shortened here; whoever shows it does that."""

    lease_id: str
    expires_at: Moment
    tries_left: int
    card_id: str
    card: str
    level: str
    parent_id: str
    """Empty: a first approach to the operator."""
    parent_source: str
    parent: StageResult | None
    lineage: list[Step]
    best: Step | None
    """The tree's best, if it is not the parent."""
    failed: list[Step]
    """Failed children of the parent, not to be repeated."""
    tried: list[Step]
    """The parent's other children."""
    directions: list[str]
    seed: Starter | None
    """For a first approach."""
    iterations_left: int
    """-1 without a limit."""


class Proposals(Record):
    """Leases handed out, or the reason why there are none."""

    project_id: str
    proposals: list[Proposal] = Field(default_factory=list)
    stop: Stop | None = None
    stopped_cards: list[str] = Field(default_factory=list)
    """Cards left out, each with its reason."""


def outcome(candidate: Candidate) -> str:
    """What came of a candidate, in a few words."""
    latest = candidate.latest
    if latest is None or latest.status in ("queued", "running"):
        return "not judged yet"
    if latest.status != "ok" or not latest.passed:
        return f"failed {latest.stage}: {latest.reason or 'unknown'}"
    if latest.verdict and latest.speedup:
        interval = f" [{latest.ci_low:.3f}, {latest.ci_high:.3f}]" if latest.ci_low and latest.ci_high else ""
        return f"{latest.verdict.replace('_', ' ')} {latest.speedup:.3f}x{interval}"
    return f"passed {latest.stage}"


def next_proposal(
    workspace: Workspace,
    project_id: str = "",
    card_id: str = "",
    count: int = 1,
    client: str = "",
    *,
    policy: PolicyName = "uct",
    moment: datetime | None = None,
) -> Proposals:
    """Select up to `count` nodes and lease them, all in one transaction, so that no two clients get one lease.

    With `card_id` on that card, else wherever the remaining gain for the whole workload is largest. Raises
    `UsageError` if there is no project, `NotFoundError` for unknown ids.
    """
    moment = moment or now()
    with workspace.transaction() as session:
        project, wanted = scope(session, project_id, card_id)
        every = cards.of_project(session, project.project_id)
        views = [CardView.read(session, card, moment, writing=True) for card in every]
        budget = budgets.get_or_default(session, project.project_id)
        made: list[tuple[CardView, Lease]] = []
        stops: dict[str, Stop] = {}
        for _ in range(min(max(1, count), MAX_COUNT)):
            out = sum(len(view.leases) for view in views)
            stops = {view.card.card_id: stop for view in views if (stop := view.stop(budget, out))}
            open_views = [view for view in views if view.card.card_id not in stops and view.card.card_id in wanted]
            if not open_views:
                break
            view = max(open_views, key=lambda view: _priority(view, project))
            lease = leases.grant(session, view.card, select(view.tree(), policy), client, moment)
            view.leases.append(lease)
            made.append((view, lease))
    if not made:
        return Proposals(project_id=project.project_id, stop=_overall(views, stops, wanted))
    remaining = iterations_left(budget, sum(len(view.leases) for view in views))
    left_out = [view for view in views if view.card.card_id in stops and not card_id]
    return Proposals(
        project_id=project.project_id,
        proposals=[_describe(workspace, project, view, lease, remaining) for view, lease in made],
        stopped_cards=[f"{view.card.name}: {stops[view.card.card_id].reason}" for view in left_out],
    )


def _priority(view: CardView, project: Project) -> tuple[float, float]:
    value = view.best.value if view.best and view.best.value else 0.0
    fruitless = visits_since_improvement(view.candidates)
    return priority(view.card, value, project.workload_us, fruitless, len(view.leases))


def _overall(views: list[CardView], stops: dict[str, Stop], wanted: set[str]) -> Stop:
    reasons = {card_id: stop for card_id, stop in stops.items() if card_id in wanted}
    if not reasons:
        text = "this project has no operator cards. Capture a workload that runs more of the model."
        return Stop(reason="nothing_to_search", message=text)
    if len(reasons) == 1:
        return next(iter(reasons.values()))
    names = {view.card.card_id: view.card.name for view in views}
    for word in ("budget", "stagnation", "speed_of_light", "ceiling"):
        if (stop := next((stop for stop in reasons.values() if stop.reason == word), None)) is not None:
            kinds = sorted({other.reason for other in reasons.values() if other.reason != "not_eligible"})
            text = f"no card is left to search ({', '.join(kinds)}). {stop.message}"
            return stop.model_copy(update={"message": text})
    listed = ", ".join(sorted(names[card_id] for card_id in reasons))
    return Stop(reason="not_eligible", message=f"none of the cards can be replaced: {listed}. See list_operator_cards.")


def _describe(workspace: Workspace, project: Project, view: CardView, lease: Lease, project_left: int) -> Proposal:
    tree = view.tree()
    parent = view.find(lease.parent_id)
    source = workspace.blobs.get(parent.source).decode() if parent else ""
    seed = None if parent else _unused_seed(view, lease, project.target)
    children = [row for row in view.candidates if row.parent_id == lease.parent_id]
    best = view.best
    lefts = [left for left in (project_left, iterations_left(view.budget, len(view.leases))) if left >= 0]
    facts = Facts(
        view.card, project.target, source or (seed.source if seed else ""), parent.benchmarked if parent else None
    )
    return Proposal(
        lease_id=lease.lease_id,
        expires_at=lease.expires_at,
        tries_left=lease.tries_left,
        card_id=view.card.card_id,
        card=view.card.name,
        level=view.card.level,
        parent_id=lease.parent_id,
        parent_source=source,
        parent=parent.latest if parent else None,
        lineage=[_step(row) for name in tree.lineage(lease.parent_id) if (row := view.find(name))],
        best=_step(best) if best and best.candidate_id != lease.parent_id else None,
        failed=[_step(row, reason=True) for row in children if row.state == "failed"],
        tried=[_step(row) for row in children if row.state != "failed"],
        directions=directions(facts, start=tree.width(lease.parent_id) - 1),
        seed=seed,
        iterations_left=min(lefts) if lefts else -1,
    )


def _unused_seed(view: CardView, lease: Lease, target: Target) -> Starter | None:
    """A seed that neither the tree holds nor an earlier lease on the root was offered, as far as there are any."""
    left = list(starters(view.card, {row.source_key for row in view.candidates}, target=target))
    answered = {row.lease_id for row in view.candidates}
    roots = [one.lease_id for one in view.leases if one.parent_id == ROOT and one.lease_id not in answered]
    return left[roots.index(lease.lease_id) % len(left)] if left else None


def _step(candidate: Candidate, *, reason: bool = False) -> Step:
    latest = candidate.latest
    detail = f" ({latest.message})" if reason and latest and latest.message else ""
    return Step(candidate_id=candidate.candidate_id, note=candidate.note, outcome=outcome(candidate) + detail)


def starter(card: OperatorCard, target: Target = "cpu") -> Starter | None:
    """A source for the card that compiles: a seed of its operator family, else the smallest possible candidate."""
    return next(starters(card, target=target), None)


def starters(card: OperatorCard, known: Collection[str] = (), *, target: Target = "cpu") -> Iterator[Starter]:
    """Seeds of the card's operator family that the tree does not hold, and the smallest candidate if there are none.

    `known` are the source keys of the tree's candidates.
    """
    from kforge_mcp.candidate.plan import Rejected, parse_plan, source_key
    from kforge_mcp.candidate.signature import minimal_candidate
    from kforge_mcp.seeds.catalogue import seeds_for

    if not card.eligible or not card.variants:
        return
    seeds = [Starter(name=seed.name, source=seed.source) for seed in seeds_for(card, target)]
    for seed in seeds or [Starter(name="minimal", source=minimal_candidate(card, target))]:
        plan = parse_plan(seed.source, card, target)
        if isinstance(plan, Rejected) or source_key(plan) not in known:
            yield seed
