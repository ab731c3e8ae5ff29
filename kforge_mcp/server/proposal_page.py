"""Proposals as their reader sees them: whatever their number, within one limit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from kforge_mcp.search.proposals import Proposal, Proposals, Step
from kforge_mcp.search.stopping import StopWord
from kforge_mcp.server.results import PROPOSALS_LIMIT, Output, clip, first_fitting
from kforge_mcp.server.stage import StageOutput, stage_versions


class StepRow(Output):
    """A candidate in one line."""

    candidate_id: str
    outcome: str
    note: str = ""


class ParentVerdict(Output):
    """What is known of the parent. Times in microseconds."""

    status: str
    message: str
    verdict: str = ""
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    eager_us: float | None = None
    candidate_us: float | None = None
    speed_of_light: float | None = None


class ProposalRow(Output):
    """A leased node: revise its parent, or start if there is none."""

    lease_id: str
    expires_at: str
    tries_left: int
    card_id: str
    card: str
    level: str
    parent_id: str = Field(description="The candidate to revise; empty: a first approach to the operator")
    parent: ParentVerdict | None
    parent_source: str
    parent_source_complete: bool = Field(description="If false: get_candidate(parent_id, part='source')")
    lineage: list[StepRow]
    best: StepRow | None = Field(description="The best of the tree, if it is not the parent")
    failed: list[StepRow] = Field(description="Failed revisions of the same parent: do not repeat them")
    tried: list[StepRow]
    directions: list[str]
    seed_name: str
    seed_source: str = Field(description="A source that compiles; empty: get_operator_card has it")
    iterations_left: int = Field(description="-1: no limit")


class ProposalsOutput(Output):
    """Leases, or why there are none."""

    project_id: str
    proposals: list[ProposalRow] = Field(default_factory=list)
    stop_reason: StopWord | Literal[""] = Field(default="", description="Why no proposal is made; empty if one is")
    message: str = ""
    stopped_cards: list[str] = Field(default_factory=list)
    next_step: str = ""


_LEVELS = (
    (6000, 5000, 6, 400), (3000, 1500, 5, 300), (2200, 1500, 4, 250), (1600, 1500, 4, 200), (1200, 1200, 3, 160),
    (900, 900, 3, 140), (600, 600, 2, 120), (400, 0, 2, 100), (0, 0, 2, 90), (0, 0, 1, 70), (0, 0, 1, 40),
    (0, 0, 0, 30),
)  # fmt: skip
"""Characters of parent source and of the seed, steps of each kind, characters of a line, ever fewer."""


def proposals_versions(result: Proposals) -> tuple[str, ProposalsOutput]:
    """Text and structure within the limit of proposals."""

    def versions() -> Iterator[tuple[str, ProposalsOutput]]:
        for source, seed, steps, characters in _LEVELS:
            output = _output(result, source, seed, steps, characters)
            yield proposals_text(output), output

    return first_fitting(versions(), PROPOSALS_LIMIT)


def _output(result: Proposals, source: int, seed: int, steps: int, characters: int) -> ProposalsOutput:
    if result.stop is not None:
        return ProposalsOutput(
            project_id=result.project_id, stop_reason=result.stop.reason, message=clip(result.stop.message, 800)
        )
    return ProposalsOutput(
        project_id=result.project_id,
        proposals=[_row(item, source, seed, steps, characters) for item in result.proposals],
        stopped_cards=[clip(line, 80) for line in result.stopped_cards[: 2 * steps]],
        next_step="Write the source and call submit_candidate with card_id, source and lease_id.",
    )


def _row(item: Proposal, source: int, seed: int, steps: int, characters: int) -> ProposalRow:
    complete = len(item.parent_source) <= source
    starter = item.seed.source if item.seed and len(item.seed.source) <= seed else ""
    return ProposalRow(
        lease_id=item.lease_id,
        expires_at=f"{item.expires_at:%Y-%m-%dT%H:%M:%SZ}",
        tries_left=item.tries_left,
        card_id=item.card_id,
        card=clip(item.card, 80),
        level=item.level,
        parent_id=item.parent_id,
        parent=_parent(item, characters),
        parent_source=item.parent_source[:source],
        parent_source_complete=complete,
        lineage=_steps(item.lineage[-steps:] if steps else [], characters),
        best=_steps([item.best], characters)[0] if item.best else None,
        failed=_steps(item.failed[-steps:] if steps else [], characters),
        tried=_steps(item.tried[-steps:] if steps else [], characters),
        directions=[clip(line, max(60, characters)) for line in item.directions[: max(1, min(3, steps))]],
        seed_name=item.seed.name if item.seed else "",
        seed_source=starter,
        iterations_left=item.iterations_left,
    )


def _parent(item: Proposal, characters: int) -> ParentVerdict | None:
    if item.parent is None:
        return None
    known: StageOutput = stage_versions(item.parent)[1]
    return ParentVerdict(
        status=known.status,
        message=clip(known.message, characters),
        verdict=known.verdict or "",
        speedup=known.speedup,
        ci_low=known.ci_low,
        ci_high=known.ci_high,
        eager_us=known.eager_us,
        candidate_us=known.candidate_us,
        speed_of_light=known.speed_of_light,
    )


def _steps(steps: list[Step], characters: int) -> list[StepRow]:
    return [
        StepRow(
            candidate_id=step.candidate_id, outcome=clip(step.outcome, characters), note=clip(step.note, characters)
        )
        for step in steps
    ]


def proposals_text(output: ProposalsOutput) -> str:
    """The proposals for a reader who sees text only."""
    if output.stop_reason:
        return f"no proposal: {output.stop_reason}. {output.message}"
    parts = [_proposal_text(row) for row in output.proposals]
    if output.stopped_cards:
        parts.append("cards left out: " + "; ".join(output.stopped_cards))
    return "\n\n".join([*parts, f"next: {output.next_step}"])


def _proposal_text(row: ProposalRow) -> str:
    left = "" if row.iterations_left < 0 else f", {row.iterations_left} iterations left"
    lines = [
        f"{row.lease_id} (until {row.expires_at}, {row.tries_left} tries{left})",
        f"for {row.card_id}, {row.level} {row.card}",
        f"revise {row.parent_id}" if row.parent_id else "a first approach to the operator",
    ]
    if row.parent and row.parent.verdict and row.parent.speedup:
        light = f", {row.parent.speed_of_light:.0%} of the speed of light" if row.parent.speed_of_light else ""
        lines.append(f"its verdict: {row.parent.verdict}, {row.parent.speedup:.3f}x, from {row.parent.ci_low}{light}")
    for name, steps in (("lineage", row.lineage), ("failed, do not repeat", row.failed), ("tried", row.tried)):
        lines += [f"{name}: {_step_text(step)}" for step in steps]
    if row.best:
        lines.append(f"best of the tree: {_step_text(row.best)}")
    lines += [f"direction: {text}" for text in row.directions]
    if row.parent_source:
        cut = "" if row.parent_source_complete else f" (cut; whole: get_candidate('{row.parent_id}', part='source'))"
        lines += [f"source of {row.parent_id}{cut}:", row.parent_source]
    elif row.parent_id:
        lines.append(f"source: get_candidate('{row.parent_id}', part='source')")
    if row.seed_source:
        lines += [f"a source that compiles ({row.seed_name}):", row.seed_source]
    elif row.seed_name:
        lines.append(f"a source that compiles ({row.seed_name}): get_operator_card('{row.card_id}')")
    return "\n".join(lines)


def _step_text(step: StepRow) -> str:
    return f"{step.candidate_id} {step.outcome}" + (f' "{step.note}"' if step.note else "")
