"""The result of a stage as a client sees it: `StageOutput`, its text, and how a job becomes one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from kforge_mcp.records.job import Job
from kforge_mcp.records.result import Reason, Stage, StageResult, Status, VerdictWord
from kforge_mcp.server.results import VERDICT_LIMIT, Output, clip, figure, first_fitting, rounded


class DiagnosticRow(Output):
    """A message of the compiler or of the metadata reader. Lines and columns count from 1; 0 is unknown."""

    severity: str
    line: int
    column: int
    message: str
    source_line: str = ""
    hint: str = ""


class VariantRow(Output):
    """One variant's figures. Times in microseconds; ratios are eager over candidate."""

    variant_id: str
    verdict: VerdictWord | None = None
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    eager_us: float | None = None
    candidate_us: float | None = None
    message: str = ""


class StageOutput(Output):
    """The furthest stage that was reached and how it ended. Times in microseconds."""

    candidate_id: str
    stage: Stage
    status: Status
    job_id: str = Field(default="", description="Ask job_status with it while status is queued or running")
    reason: Reason | None = None
    message: str = ""
    duplicate_of: str | None = Field(default=None, description="The candidate with equal code whose result this is")
    passed: bool = False
    verdict: VerdictWord | None = None
    speedup: float | None = Field(default=None, description="Eager time over candidate time, over the card's calls")
    ci_low: float | None = None
    ci_high: float | None = None
    eager_us: float | None = None
    candidate_us: float | None = None
    speed_of_light: float | None = Field(default=None, description="0 to 1; 1 is the device's measured limit")
    own_kernel_share: float | None = None
    config: dict[str, Any] = Field(default_factory=dict, description="Values of the tunables that were judged")
    diagnostics: list[DiagnosticRow] = Field(default_factory=list)
    variants: list[VariantRow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    next_step: str = ""


_LEVELS = (
    (10, 12, 800, 6), (8, 8, 600, 4), (6, 5, 500, 3), (4, 3, 400, 2), (3, 2, 300, 1), (2, 1, 250, 1), (1, 1, 160, 0),
    (1, 0, 100, 0), (1, 0, 60, 0), (0, 0, 40, 0),
)  # fmt: skip
"""How many diagnostics, variants, characters of message and notes are shown, ever fewer."""


def stage_versions(result: StageResult, *, job_id: str = "", remarks: tuple[str, ...] = ()) -> tuple[str, StageOutput]:
    """Text and structure of a stage's result within the limit of a verdict; what is left out is said."""

    def versions() -> Iterator[tuple[str, StageOutput]]:
        for level in _LEVELS:
            output = _output(result, level, remarks).model_copy(update={"job_id": job_id})
            yield stage_text(output), output

    return first_fitting(versions(), VERDICT_LIMIT)


def _output(result: StageResult, level: tuple[int, int, int, int], remarks: tuple[str, ...]) -> StageOutput:
    diagnostics, variants, characters, notes = level
    wanted = [item for item in result.diagnostics if item.severity == "error"] or result.diagnostics
    said = [*remarks, *result.notes]
    kept = [clip(note, min(160, characters)) for note in said[:notes]]
    figures: dict[str, Any] = {name: rounded(getattr(result, name)) for name in _FIGURES}
    left_out = len(result.variants) - variants
    if left_out > 0:
        kept.append(f"{left_out} more variants: get_candidate(part='verdict')")
    return StageOutput(
        candidate_id=result.candidate_id,
        stage=result.stage,
        status=result.status,
        reason=result.reason,
        message=clip(result.message, characters),
        duplicate_of=result.duplicate_of,
        passed=result.passed,
        verdict=result.verdict,
        **figures,
        config=dict(result.config),
        diagnostics=[
            DiagnosticRow(
                severity=item.severity,
                line=item.line,
                column=item.column,
                message=clip(item.message, min(200, characters)),
                source_line=clip(item.source_line.strip(), min(100, characters // 2)),
                hint=clip(item.hint, min(120, characters // 2)),
            )
            for item in wanted[:diagnostics]
        ],
        variants=[
            VariantRow(
                variant_id=item.variant_id,
                verdict=item.verdict,
                speedup=rounded(item.speedup),
                ci_low=rounded(item.ci_low),
                ci_high=rounded(item.ci_high),
                eager_us=rounded(item.eager_us),
                candidate_us=rounded(item.candidate_us),
                message=clip(item.message if item.claimed else "left to eager by `where`", min(100, characters // 2)),
            )
            for item in result.variants[:variants]
        ],
        notes=kept,
        next_step=_advice(result),
    )


_FIGURES = ("speedup", "ci_low", "ci_high", "eager_us", "candidate_us", "speed_of_light", "own_kernel_share")


def _advice(result: StageResult) -> str:
    if result.status != "ok" or not result.passed:
        if result.reason == "target_unavailable":
            return (
                "The candidate was not judged; the message says what is missing here. Only candidates for the target "
                "that the project was captured on can be judged."
            )
        if result.reason in ("device_busy", "internal_error"):
            return "The candidate was not judged; call benchmark with its candidate_id once the cause is gone."
        if result.reason == "weak_oracle":
            return "Inputs cannot tell right from wrong on this card, so nothing is claimed on it. Take another card."
        if result.reason == "budget_exhausted":
            return "Call set_budget and submit again, or export_package."
        return (
            "Repair the source and call submit_candidate again with the same lease_id, or take another next_proposal."
        )
    if result.stage == "compile" and result.message:
        return "get_candidate(part='sass') and profile_candidate show its code; capture on that target to judge it."
    if result.stage == "compile":
        return "Call benchmark with this candidate_id to validate and time it."
    if result.stage == "validate":
        return "Call benchmark with this candidate_id to time it."
    if result.verdict == "faster":
        return "Call next_proposal to improve further, or export_package."
    return "Call next_proposal for another direction."


def stage_text(output: StageOutput) -> str:
    """The result for a reader who sees text only."""
    lines = [_headline(output)]
    if output.duplicate_of:
        lines.append(f"equal code is in the tree already as {output.duplicate_of}: this is its result")
    if output.message:
        lines.append(output.message)
    for item in output.diagnostics:
        place = f"line {item.line}:{item.column} " if item.line else ""
        quote = f" | {item.source_line}" if item.source_line else ""
        hint = f" -> {item.hint}" if item.hint else ""
        lines.append(f"{place}{item.severity}: {item.message}{quote}{hint}")
    for row in output.variants if len(output.variants) > 1 or output.stage != "benchmark" else ():
        lines.append(f"  {row.variant_id}: {variant_text(row)}")
    lines += [f"note: {note}" for note in output.notes]
    if output.job_id and output.status in ("queued", "running"):
        lines.append(f"job_id: {output.job_id}")
    if output.next_step:
        lines.append(f"next: {output.next_step}")
    return "\n".join(lines)


def _headline(output: StageOutput) -> str:
    name = f"{output.candidate_id} {output.stage}"
    if output.status != "ok":
        return f"{name}: {output.status}" + (f", {output.reason}" if output.reason else "")
    if output.stage != "benchmark" or output.verdict is None:
        return f"{name}: {'passed' if output.passed else 'not passed'}"
    config = "".join(f", {key}={value}" for key, value in output.config.items())
    light = f", {output.speed_of_light:.0%} of the speed of light" if output.speed_of_light is not None else ""
    own = f", {output.own_kernel_share:.0%} own code" if output.own_kernel_share is not None else ""
    return f"{name}: {_ratio(output)}{light}{own}{config}"


def _ratio(row: StageOutput | VariantRow) -> str:
    word = (row.verdict or "not measured").replace("_", " ")
    times = f", {figure(row.eager_us)} -> {figure(row.candidate_us)} us" if row.eager_us is not None else ""
    if row.speedup is None:
        return word + times
    return f"{word}, {row.speedup:.3f}x [{figure(row.ci_low, digits=4)}, {figure(row.ci_high, digits=4)}]{times}"


def variant_text(row: VariantRow) -> str:
    """One variant in one line."""
    return _ratio(row) + (f" ({row.message})" if row.message else "") if row.verdict else row.message or "not measured"


def job_stage(job: Job, candidate_id: str, stage: Stage) -> tuple[StageResult | None, StageOutput | None]:
    """What a judging job says so far: its result, or an output for a job without one.

    Raises `ToolError` with the job's text if the call could not be carried out, say without a compiler.
    """
    if job.status == "ok" and job.result is not None:
        return StageResult.model_validate(job.result), None
    if job.status == "failed" and job.error_kind == "usage":
        raise ToolError(job.error)
    if job.status == "failed":
        message = clip(job.error, 500)
        return StageResult(
            candidate_id=candidate_id, stage=stage, status="failed", reason="internal_error", message=message
        ), None
    if job.status == "cancelled":
        return StageResult(candidate_id=candidate_id, stage=stage, status="cancelled", message="cancelled"), None
    return None, StageOutput(
        candidate_id=candidate_id,
        stage=stage,
        status="queued" if job.status == "queued" else "running",
        job_id=job.job_id,
        message=job.message or "the job goes on whether or not anyone waits",
        next_step=f"Call job_status(job_id='{job.job_id}', wait_s=45) for the result.",
    )


def job_stage_versions(
    job: Job, candidate_id: str, stage: Stage, *, duplicate: bool = False, remarks: tuple[str, ...] = ()
) -> tuple[str, StageOutput]:
    """Text and structure of what a judging job says so far."""
    result, waiting = job_stage(job, candidate_id, stage)
    if result is None:
        assert waiting is not None
        output = waiting.model_copy(update={"duplicate_of": candidate_id if duplicate else None, "notes": [*remarks]})
        return stage_text(output), output
    if duplicate:
        result = result.model_copy(update={"duplicate_of": candidate_id})
    return stage_versions(result, job_id=job.job_id, remarks=remarks)
