"""Judge a candidate: sweep its tunables, check the winner, time it against eager, conclude."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from kforge_mcp.candidate.plan import Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.admission import remember, weakness
from kforge_mcp.judge.holdout import Claim, HoldoutResult, holdout
from kforge_mcp.judge.request import CALL_TIMEOUT_S, Config, Subject, eager_itself, subjects
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.judge.sweep import sweep
from kforge_mcp.judge.triage import triage
from kforge_mcp.judge.verdicts import conclude, stage_result
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.records.result import Reason, Stage, StageResult

__all__ = ["Claim", "HoldoutResult", "Judgement", "evaluate", "holdout", "null_judgement"]

PAIRS = 60
FIRST_STAGE = 16
_WINNERS_TRIED = 3
_DECLARED = (
    "declared nondeterministic: equal inputs may give results that differ in bits; both runs of every trial are held "
    "to the tolerance"
)
_REASONS = frozenset(get_args(Reason))


@dataclass(frozen=True)
class Judgement:
    """What the judge found. `benchmarked` is None where validation failed or timing was not asked for."""

    validated: StageResult
    benchmarked: StageResult | None = None
    config: Config = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=dict)
    """Raw times by variant, seconds per call, with the schedule."""
    log: str = ""
    device_s: float = 0.0


def evaluate(
    ctx: JobContext,
    project: Project,
    card: OperatorCard,
    plan: Plan,
    compiled: Compiled,
    *,
    stages: Sequence[str] = ("validate", "benchmark"),
    candidate_id: str,
    call_timeout_s: float = CALL_TIMEOUT_S,
) -> Judgement:
    """Validate a compiled candidate and, if `stages` has it, benchmark it, in one session of fresh processes.

    Raises:
        RuntimeFailure: the judge's own processes failed; nothing is said of the candidate.
        JobCancelled: the job was cancelled.
    """
    weak = weakness(card, project)
    if weak:
        return Judgement(_failed(candidate_id, "validate", "weak_oracle", weak))
    every = [subject for subject in subjects(card, plan, compiled) if subject.variants]
    empty = [v.variant_id for v in card.variants if sum(spec.numel for spec in v.outputs) == 0]
    if not every or all(variant.variant_id in empty for subject in every for variant in subject.variants):
        message = "no variant with a non-empty output is claimed: there is nothing to judge"
        return Judgement(_failed(candidate_id, "validate", "contract_error", message))
    notes = list[str]()
    if project.target == "cuda" and len(every) > 1:
        worth = triage(every, project.device)
        every, notes = worth.kept, worth.notes()
    with Evaluators(ctx, project, call_timeout_s=call_timeout_s) as evaluators:
        ranking = every
        if len(every) > 1:
            swept = sweep(evaluators, every, lambda text, part: ctx.progress(text, 0.2 + 0.3 * part))
            ranking, notes = swept.ranking, [*notes, *swept.notes]
            if not ranking:
                first = swept.failures[min(swept.failures)]
                message = f"every configuration failed; the first ({_text(every[0].config)}): {first['message']}"
                return Judgement(
                    _failed(candidate_id, "validate", first["reason"], message), device_s=evaluators.device_s
                )
        judgement = _judge(ctx, project, evaluators, ranking[0], stages, candidate_id, notes)
        for failed, subject in itertools.pairwise(ranking[:_WINNERS_TRIED]):
            if judgement.validated.passed:
                break
            notes = [*notes, f"configuration {_text(failed.config)} failed: {judgement.validated.reason}"]
            judgement = _judge(ctx, project, evaluators, subject, stages, candidate_id, notes)
        return judgement


def null_judgement(
    ctx: JobContext,
    project: Project,
    card: OperatorCard,
    *,
    pairs: int = PAIRS,
    evaluators: Evaluators | None = None,
) -> Judgement:
    """Judge eager in the candidate's place: the same processes, messages, checks and timing, and no difference.

    `evaluators` saves starting the parent of all evaluations anew; every judgement forks its own processes.
    """
    if evaluators is None:
        with Evaluators(ctx, project) as opened:
            return null_judgement(ctx, project, card, pairs=pairs, evaluators=opened)
    before = evaluators.device_s
    schedule = {"pairs": pairs, "first_stage": min(FIRST_STAGE, pairs), "null": True}
    answer = evaluators.evaluate(eager_itself(card), mode="null", schedule=schedule)
    assert not isinstance(answer, Rejected)
    device_s = evaluators.device_s - before
    if answer["finding"]:
        reason, message = answer["finding"]["reason"], answer["finding"]["message"]
        return Judgement(_failed("", "validate", reason, message), device_s=device_s)
    result = stage_result("", conclude(card, project, answer["variants"]), {}, answer["notes"])
    passed = StageResult(candidate_id="", stage="validate", status="ok", passed=True)
    return Judgement(passed, result, samples=answer["variants"], device_s=device_s)


def _judge(
    ctx: JobContext,
    project: Project,
    evaluators: Evaluators,
    subject: Subject,
    stages: Sequence[str],
    candidate_id: str,
    notes: Sequence[str],
) -> Judgement:
    timed = "benchmark" in stages
    card = subject.card
    config = dict(subject.config or {})
    answer = evaluators.evaluate(
        subject,
        mode="judge",
        schedule={"pairs": PAIRS, "first_stage": FIRST_STAGE, "null": True} if timed else None,
        on_progress=lambda text: ctx.progress(text, 0.6),
    )
    if isinstance(answer, Rejected):
        failed = _failed(candidate_id, "validate", answer.reason, answer.message)
        return Judgement(failed.model_copy(update={"diagnostics": list(answer.diagnostics)}), config=config)
    declared = [_DECLARED] if subject.plan and subject.plan.nondeterministic else []
    all_notes = [*notes, *declared, *answer["notes"], *_variant_notes(answer)]
    log = _log(answer, evaluators.log())
    device_s = evaluators.device_s
    finding = answer["finding"]
    weak = finding["message"] if finding and finding["reason"] == "weak_oracle" else ""
    remember(ctx, card, project, answer["admissions"], weak)
    if finding and not answer["valid"]:
        failed = _failed(candidate_id, "validate", finding["reason"], finding["message"])
        failed = failed.model_copy(update={"config": config, "notes": all_notes})
        return Judgement(failed, config=config, log=log, device_s=device_s)
    variants = len(subject.variants)
    validated = StageResult(
        candidate_id=candidate_id,
        stage="validate",
        status="ok",
        passed=True,
        message=f"valid on {variants} of {len(card.variants)} variants, 5 trials each, every one run twice",
        config=config,
        notes=all_notes,
    )
    if not timed:
        return Judgement(validated, config=config, log=log, device_s=device_s)
    if finding:
        failed = _failed(candidate_id, "benchmark", finding["reason"], finding["message"])
        failed = failed.model_copy(update={"config": config, "notes": all_notes})
        return Judgement(validated, failed, config, answer["variants"], log, device_s)
    verdicts = conclude(card, project, answer["variants"])
    result = stage_result(candidate_id, verdicts, config, all_notes)
    return Judgement(validated, result, config, answer["variants"], log, device_s)


def _failed(candidate_id: str, stage: Stage, reason: str, message: str) -> StageResult:
    known: Any = reason if reason in _REASONS else "internal_error"
    return StageResult(candidate_id=candidate_id, stage=stage, status="failed", reason=known, message=message)


def _variant_notes(answer: dict[str, Any]) -> list[str]:
    return [f"variant {name}: {note}" for name, notes in answer["variant_notes"].items() for note in notes]


def _log(answer: dict[str, Any], evaluators_log: str) -> str:
    parts: list[str] = []
    if answer["printed"]:
        parts.append(f"the candidate printed:\n{answer['printed']}")
    if evaluators_log.strip():
        parts.append(f"the evaluators printed:\n{evaluators_log}")
    return "\n".join(parts)


def _text(config: Config | None) -> str:
    return ", ".join(f"{name}={value}" for name, value in (config or {}).items()) or "no tunables"
