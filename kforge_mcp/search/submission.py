"""A source becomes a node of the tree, and the job that judges it."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kforge_mcp.errors import RuntimeFailure, UsageError
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.candidate import Candidate, Lease
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project, Target
from kforge_mcp.records.result import StageResult
from kforge_mcp.search import completion, leases
from kforge_mcp.search.budgets import exhausted
from kforge_mcp.store import budgets, candidates, cards, projects
from kforge_mcp.store import leases as stored_leases

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from kforge_mcp.candidate.plan import Plan
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.store.workspace import Workspace

STAGES = ("compile", "validate", "benchmark")


@dataclass(frozen=True)
class Submission:
    """A candidate that was handed in. `needs_judging` is False where its result stands already."""

    candidate: Candidate
    duplicate: bool = False
    """The tree holds an equal source: `candidate` is that node."""
    needs_judging: bool = True
    remarks: tuple[str, ...] = ()
    """What to tell the author besides the result, say that the lease had expired."""


def create_candidate(
    workspace: Workspace,
    *,
    card_id: str,
    source: str,
    target: Target | None = None,
    parent_id: str = "",
    lease_id: str = "",
    note: str = "",
    author: str = "",
    client: str = "",
    provenance: dict[str, Any] | None = None,
) -> Submission:
    """Make a source a node of its card's tree.

    With a lease its parent is the leased node, or the failed candidate that it repairs; without one the parent
    named, or the root. A source that cannot be read is a node too, failed at once. `provenance` may hold `model`,
    `tokens` and `cost_usd`, as reported by the client. Raises `NotFoundError` for unknown ids, `UsageError` for a
    parent or lease of another card.
    """
    with workspace.reading() as session:
        card = cards.get(session, card_id)
        project = projects.get(session, card.project_id)
    if not card.eligible:
        raise UsageError(
            f"{card.name} ({card_id}) cannot be replaced: {card.reason} Take another from list_operator_cards."
        )
    chosen: Target = target or target_of(source, project.target)
    key, rejected = _read(source, card, chosen)
    digest = workspace.blobs.put(source.encode("utf-8", "replace"))
    moment = now()
    with workspace.transaction() as session:
        lease, remarks = _take_lease(session, card, lease_id)
        parent = _parent(session, card, parent_id, lease_id)
        known = candidates.by_key(session, card_id, key)
        if known is not None:
            return Submission(known, duplicate=True, needs_judging=known.state == "open")
        facts = provenance or {}
        candidate = Candidate(
            candidate_id=new_id("cand"),
            card_id=card_id,
            project_id=card.project_id,
            parent_id=parent,
            target=chosen,
            source=digest,
            source_key=key,
            note=note,
            author=author,
            client=client,
            model=str(facts.get("model", "")),
            tokens=int(facts.get("tokens", 0)),
            cost_usd=float(facts.get("cost_usd", 0.0)),
            lease_id=lease.lease_id if lease else "",
            created_at=moment,
        )
        if lease:
            leases.spend_try(session, lease, moment)
        candidates.save(session, candidate)
        if rejected is not None:
            failure = rejected.model_copy(update={"candidate_id": candidate.candidate_id})
            candidate = completion.record(session, card, candidate.candidate_id, [failure])
        elif not lease and (spent := _spent(session, card)):
            message = f"{spent}. Raise it with set_budget and submit the same source again; it is kept."
            failure = _failed(candidate.candidate_id, "compile", "budget_exhausted", message)
            candidate = completion.record(session, card, candidate.candidate_id, [failure])
            return Submission(candidate, needs_judging=False, remarks=tuple(remarks))
    return Submission(candidate, needs_judging=rejected is None, remarks=tuple(remarks))


def target_of(source: str, default: Target) -> Target:
    """The target that a source is written for: CUDA if its block has steps, the CPU if it has an `entry`."""
    from kforge_mcp.candidate.metadata import Metadata, read_metadata

    metadata = read_metadata(source)
    if not isinstance(metadata, Metadata):
        return default
    if "step" in metadata.values:
        return "cuda"
    return "cpu" if "entry" in metadata.values else default


def _read(source: str, card: OperatorCard, target: Target) -> tuple[str, StageResult | None]:
    """The source's key, and the failure if it cannot be read."""
    from kforge_mcp.candidate.plan import Rejected, parse_plan, source_key

    plan = parse_plan(source, card, target)
    if isinstance(plan, Rejected):
        failure = _failed("", "compile", plan.reason, plan.message)
        return _text_key(source), failure.model_copy(update={"diagnostics": list(plan.diagnostics)})
    return source_key(plan), None


def _text_key(source: str) -> str:
    return "text:" + hashlib.sha256(source.strip().encode("utf-8", "replace")).hexdigest()


def _failed(candidate_id: str, stage: Any, reason: Any, message: str) -> StageResult:
    return StageResult(candidate_id=candidate_id, stage=stage, status="failed", reason=reason, message=message)


def _take_lease(session: Session, card: OperatorCard, lease_id: str) -> tuple[Lease | None, list[str]]:
    if not lease_id:
        return None, []
    lease = stored_leases.get(session, lease_id)
    if lease.card_id != card.card_id:
        raise UsageError(
            f"lease {lease_id} is for card {lease.card_id}, not for {card.card_id}. Submit to that card, or call "
            f"next_proposal(card_id='{card.card_id}')."
        )
    holding = {active.lease_id for active in leases.active(session, card.card_id, now())}
    if lease_id in holding and lease.tries_left > 0:
        return lease, []
    how = "was used already" if lease.state == "used" else "has no tries left" if lease_id in holding else "had expired"
    return None, [f"lease {lease_id} {how}: taken as a submission without a lease; next_proposal gives a new one."]


def _parent(session: Session, card: OperatorCard, parent_id: str, lease_id: str) -> str:
    if parent_id:
        parent = candidates.get(session, parent_id)
        if parent.card_id != card.card_id:
            raise UsageError(
                f"parent {parent_id} is a candidate of card {parent.card_id}, not of {card.card_id}. Name a candidate "
                "of the same card (search_status lists them), or leave parent_id empty."
            )
        return parent_id
    if not lease_id:
        return ""
    lease = stored_leases.get(session, lease_id)
    made = candidates.of_lease(session, lease_id)
    return made[-1].candidate_id if made and made[-1].state == "failed" else lease.parent_id


def _spent(session: Session, card: OperatorCard) -> str:
    owners = (card.card_id, card.project_id)
    return next((text for owner in owners if (text := exhausted(budgets.get_or_default(session, owner)))), "")


def run_submission(ctx: JobContext, *, candidate_id: str, stages: list[str]) -> dict[str, Any]:
    """The job: compile, validate and benchmark a candidate, stopping at the first failure.

    `stages` may leave out later ones; what a stage needs before it is done in any case (compiling is cached).
    Saves results, logs and samples on the candidate, completes its visit, and returns the `StageResult` of the
    furthest stage as JSON.
    """
    workspace = ctx.workspace
    with workspace.reading() as session:
        candidate = candidates.get(session, candidate_id)
        card = cards.get(session, candidate.card_id)
        project = projects.get(session, candidate.project_id)
    started = time.monotonic()
    judged = _judge(ctx, project, card, candidate, stages)
    log = workspace.blobs.put(judged.log.encode()) if judged.log else ""
    samples = workspace.blobs.put(json.dumps(judged.samples, allow_nan=False).encode()) if judged.samples else ""
    with workspace.transaction() as session:
        completion.record(
            session,
            card,
            candidate_id,
            judged.results,
            wall_s=time.monotonic() - started,
            device_s=judged.device_s,
            samples=samples,
            log=log,
        )
    return judged.results[-1].model_dump(mode="json")


@dataclass
class _Judged:
    results: list[StageResult]
    log: str = ""
    samples: dict[str, Any] | None = None
    device_s: float = 0.0


def _judge(ctx: JobContext, project: Project, card: OperatorCard, candidate: Candidate, stages: list[str]) -> _Judged:
    from kforge_mcp.candidate.plan import Rejected, configurations, parse_plan
    from kforge_mcp.compile.compiler import CompileFailed, compile_candidate
    from kforge_mcp.compile.cuda.report import resource_notes

    candidate_id = candidate.candidate_id
    plan = parse_plan(ctx.workspace.blobs.get(candidate.source).decode(), card, candidate.target)
    if isinstance(plan, Rejected):
        failure = _failed(candidate_id, "compile", plan.reason, plan.message)
        return _Judged([failure.model_copy(update={"diagnostics": list(plan.diagnostics)})])
    ctx.progress("compiling", 0.05)
    outcome = compile_candidate(
        ctx,
        plan,
        card,
        configurations(plan),
        interpreter=project.interpreter,
        architectures=project.device.architectures,
    )
    if isinstance(outcome, CompileFailed):
        failure = _failed(candidate_id, "compile", outcome.reason, outcome.message)
        return _Judged([failure.model_copy(update={"diagnostics": list(outcome.diagnostics)})], log=outcome.log)
    diagnostics = list(outcome.diagnostics)
    notes = resource_notes(outcome.binaries)
    compiled = StageResult(
        candidate_id=candidate_id, stage="compile", status="ok", passed=True, diagnostics=diagnostics, notes=notes
    )
    wanted = tuple(stage for stage in STAGES[1:] if stage in stages)
    if not wanted:
        if candidate.target != project.target:
            text = f"compiled only: the project was captured on {project.device.name}, so it cannot be judged there."
            compiled = compiled.model_copy(update={"message": text})
        return _Judged([compiled], log=outcome.log)
    if candidate.target != project.target:
        return _Judged([compiled, _unavailable(project, compiled)], log=outcome.log)
    return _evaluate(ctx, project, card, plan, outcome, compiled, wanted)


def _unavailable(project: Project, compiled: StageResult) -> StageResult:
    """Why a candidate for another target than the project's cannot be judged; what compiling found is kept."""
    torch = f"{project.interpreter.executable} has torch {project.interpreter.torch_version}"
    cuda = f"with CUDA {project.interpreter.cuda_version}" if project.interpreter.cuda_version else "without CUDA"
    message = (
        f"compiled, but not judged: the project was captured on {project.device.name} ({project.target}), so eager's "
        f"inputs and times for {'CUDA' if project.target == 'cpu' else 'the CPU'} are missing. {torch} {cuda}. "
        "Capture the workload on that target to judge such candidates."
    )
    result = _failed(compiled.candidate_id, "validate", "target_unavailable", message)
    return result.model_copy(update={"notes": compiled.notes})


def _evaluate(
    ctx: JobContext,
    project: Project,
    card: OperatorCard,
    plan: Plan,
    outcome: Any,
    compiled: StageResult,
    wanted: tuple[str, ...],
) -> _Judged:
    from kforge_mcp.judge.evaluate import evaluate

    candidate_id = compiled.candidate_id
    stages = STAGES[1:] if "benchmark" in wanted else ("validate",)
    ctx.progress("judging", 0.2)
    try:
        judgement = evaluate(ctx, project, card, plan, outcome, stages=stages, candidate_id=candidate_id)
    except RuntimeFailure as failure:
        text = f"the judge's own process failed ({failure.kind}): {failure}. The candidate was not judged; try again."
        result = _failed(candidate_id, "validate", "internal_error", text)
        return _Judged([compiled, result], log=outcome.log + "\n" + failure.trace)
    results = [compiled, judgement.validated]
    if judgement.benchmarked is not None:
        results.append(judgement.benchmarked)
    log = "\n".join(part for part in (outcome.log, judgement.log) if part)
    return _Judged(results, log=log, samples=judgement.samples, device_s=judgement.device_s)
