"""The result of an export as its reader sees it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from kforge_mcp.records.job import Job
from kforge_mcp.records.package import EndToEnd, PackagedKernel
from kforge_mcp.records.result import Status
from kforge_mcp.server.results import PAGE_LIMIT, Output, clip, figure, first_fitting, rounded
from kforge_mcp.server.unfinished import unfinished


class KernelRow(Output):
    """A kernel in the package, or left out. Figures are the holdout's, over the card's calls."""

    card_id: str
    card: str
    level: str
    candidate_id: str
    included: bool
    reason: str
    calls: int
    share: float
    verdict: str = ""
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    eager_us: float | None = None
    candidate_us: float | None = None


class EndToEndRow(Output):
    """The whole workload with the package against without. Times in microseconds."""

    mode: str
    verdict: str
    speedup: float
    ci_low: float
    ci_high: float
    eager_us: float
    package_us: float
    outputs_equal: bool
    difference: str


class ExportOutput(Output):
    """A package, or a job that is still making it; `failed` if no kernel qualifies, with what each lacks."""

    status: Status
    job_id: str = ""
    message: str = ""
    package_id: str = ""
    project_id: str = ""
    name: str = ""
    path: str = ""
    wheel: str = ""
    report: str = ""
    kernels: list[KernelRow] = Field(default_factory=list)
    end_to_end: list[EndToEndRow] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    next_step: str = ""


def export_versions(job: Job, limit: int = PAGE_LIMIT) -> tuple[str, ExportOutput]:
    """Text and structure of what an exporting job says. Raises `ToolError` if nothing could be exported."""
    if waiting := unfinished(job, ExportOutput, "the export"):
        return waiting
    assert job.result is not None
    return first_fitting(_versions(job, job.result), limit)


def _versions(job: Job, result: dict[str, Any]) -> Iterator[tuple[str, ExportOutput]]:
    kernels = [_kernel(PackagedKernel.model_validate(item)) for item in result.get("kernels", [])]
    modes = [_mode(EndToEnd.model_validate(item)) for item in result.get("end_to_end", [])]
    notes = [str(note) for note in result.get("notes", [])]
    written = bool(result.get("path"))
    step = "Install the wheel where the model runs, import it, and call attach(model)."
    if not written:
        step = "Call next_proposal to find faster candidates, then export again."
    for count, characters, said in (
        (len(kernels), 300, 6),
        (12, 160, 4),
        (8, 120, 3),
        (6, 100, 2),
        (4, 60, 1),
        (2, 40, 0),
    ):
        output = ExportOutput(
            status="ok" if written else "failed",
            job_id=job.job_id,
            **{
                key: str(result.get(key, "")) for key in ("package_id", "project_id", "name", "path", "wheel", "report")
            },
            message="" if count >= len(kernels) else f"{len(kernels) - count} more kernels are in the report",
            kernels=[row.model_copy(update={"reason": clip(row.reason, characters)}) for row in kernels[:count]],
            end_to_end=modes,
            notes=[clip(note, characters) for note in notes[:said]],
            next_step=step,
        )
        yield _text(output), output


def _kernel(kernel: PackagedKernel) -> KernelRow:
    figures = kernel.holdout.model_dump() if kernel.holdout else {}
    names = ("speedup", "ci_low", "ci_high", "eager_us", "candidate_us")
    return KernelRow(
        card_id=kernel.card_id,
        card=kernel.card,
        level=kernel.level,
        candidate_id=kernel.candidate_id,
        included=kernel.included,
        reason=kernel.reason,
        calls=kernel.calls,
        share=round(kernel.share, 4),
        verdict=figures.get("verdict") or "",
        **{name: rounded(figures.get(name)) for name in names},
    )


def _mode(item: EndToEnd) -> EndToEndRow:
    facts = item.comparison.model_dump(exclude={"pairs"})
    figures: dict[str, Any] = {
        name: rounded(value) if isinstance(value, float) else value for name, value in facts.items()
    }
    return EndToEndRow(
        mode=item.mode, outputs_equal=item.outputs_equal, difference=clip(item.difference, 200), **figures
    )


def _text(output: ExportOutput) -> str:
    lines = [f"no package {output.name} was written: no kernel qualifies"]
    if output.path:
        lines = [f"package {output.package_id} {output.name}: {output.path}", f"wheel: {output.wheel}"]
        lines.append(f"report: {output.report}")
    for row in output.kernels:
        state = "in" if row.included else "left out"
        ratio = f", {row.speedup:.3f}x [{figure(row.ci_low)}, {figure(row.ci_high)}] on holdout" if row.speedup else ""
        why = f": {row.reason}" if row.reason else ""
        lines.append(f"{state}: {row.card} ({row.level}), {row.candidate_id or 'no candidate'}{ratio}{why}")
    for row in output.end_to_end:
        equal = "outputs equal" if row.outputs_equal else "OUTPUTS DIFFER"
        lines.append(
            f"end to end, {row.mode}: {row.verdict.replace('_', ' ')}, {row.speedup:.3f}x [{figure(row.ci_low)}, "
            f"{figure(row.ci_high)}], {figure(row.eager_us)} -> {figure(row.package_us)} us; {equal} ({row.difference})"
        )
    lines += [f"note: {note}" for note in output.notes]
    lines += [output.message] if output.message else []
    return "\n".join([*lines, f"next: {output.next_step}"])
