"""The parts of a candidate as text, for the tool and for resources."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Literal, get_args

from kforge_mcp.errors import UsageError
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.result import Diagnostic, StageResult, VariantVerdict
from kforge_mcp.server.results import figure

if TYPE_CHECKING:
    from kforge_mcp.store.workspace import Workspace

Part = Literal["verdict", "source", "log", "sass", "diff", "samples"]
PARTS: tuple[str, ...] = get_args(Part)


def candidate_part(workspace: Workspace, candidate_id: str, part: str) -> tuple[Candidate, str]:
    """A candidate and one of its parts as text.

    Raises `NotFoundError` for an unknown candidate, `UsageError` for an unknown part.
    """
    from kforge_mcp.store import candidates

    if part not in PARTS:
        raise UsageError(f"a candidate has no part {part!r}. There are: {', '.join(PARTS)}.")
    with workspace.reading() as session:
        candidate = candidates.get(session, candidate_id)
        parent = candidates.get(session, candidate.parent_id) if part == "diff" and candidate.parent_id else None
    if part == "verdict":
        return candidate, verdict_text(candidate)
    if part == "source":
        return candidate, _blob(workspace, candidate.source)
    if part == "diff":
        return candidate, _diff(workspace, candidate, parent)
    if part == "sass":
        return candidate, _sass(workspace, candidate)
    digest = candidate.log if part == "log" else candidate.samples
    if digest:
        return candidate, _blob(workspace, digest)
    kind = "log" if part == "log" else "timing samples"
    return candidate, f"{candidate_id} has no {kind}: no stage that makes them has run."


def _blob(workspace: Workspace, digest: str) -> str:
    return workspace.blobs.get(digest).decode(errors="replace")


def _sass(workspace: Workspace, candidate: Candidate) -> str:
    """Machine code with line information, made when it is asked for; for the CPU what became of the loops."""
    from kforge_mcp.candidate.plan import Rejected, configurations, parse_plan
    from kforge_mcp.compile.cuda.sass import candidate_sass
    from kforge_mcp.compile.cuda.warm import close_all
    from kforge_mcp.compile.vectorisation import vectorisation_report
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.store import cards, projects

    with workspace.reading() as session:
        card = cards.get(session, candidate.card_id)
        project = projects.get(session, candidate.project_id)
    plan = parse_plan(_blob(workspace, candidate.source), card, candidate.target)
    if isinstance(plan, Rejected):
        return f"{candidate.candidate_id} has no machine code: {plan.message}"
    latest = candidate.benchmarked or candidate.validated
    config = (latest.config if latest else {}) or configurations(plan)[0]
    try:
        with JobContext.standalone(workspace, tool="get_candidate") as ctx:
            if candidate.target == "cuda":
                return candidate_sass(ctx, plan, card, config, project.interpreter)
            report = vectorisation_report(ctx, plan, card, config)
    finally:
        # The engine's compiler stays warm; the server's own is not worth keeping for a listing.
        close_all()
    return f"{candidate.candidate_id} is a CPU candidate, so this is what the compiler made of its loops:\n{report}"


def _diff(workspace: Workspace, candidate: Candidate, parent: Candidate | None) -> str:
    if parent is None:
        return f"{candidate.candidate_id} has no parent: it is a first approach. See part='source'."
    before, after = (_blob(workspace, row.source).splitlines(keepends=True) for row in (parent, candidate))
    lines = difflib.unified_diff(before, after, parent.candidate_id, candidate.candidate_id)
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines) or "no difference"


def verdict_text(candidate: Candidate) -> str:
    """All that the judge said, nothing left out."""
    lines = [
        f"{candidate.candidate_id} of card {candidate.card_id}, {candidate.state}"
        + (f", revises {candidate.parent_id}" if candidate.parent_id else ", a first approach"),
        *([f"note: {candidate.note}"] if candidate.note else []),
    ]
    results = [candidate.compiled, candidate.validated, candidate.benchmarked]
    for result in results:
        if result is not None:
            lines += _result_lines(result)
    if not any(results):
        lines.append("not judged yet")
    return "\n".join(lines)


def _result_lines(result: StageResult) -> list[str]:
    reason = f", {result.reason}" if result.reason else ""
    lines = [f"{result.stage}: {result.status}{reason}" + (f": {result.message}" if result.message else "")]
    if result.verdict:
        lines.append(
            f"  {result.verdict}: {figure(result.speedup, 'x', 4)} [{figure(result.ci_low, digits=4)}, "
            f"{figure(result.ci_high, digits=4)}], {figure(result.eager_us, digits=4)} -> "
            f"{figure(result.candidate_us, digits=4)} us, speed of light {figure(result.speed_of_light)}, "
            f"own share {figure(result.own_kernel_share)}"
        )
    if result.config:
        lines.append("  config: " + ", ".join(f"{name}={value}" for name, value in result.config.items()))
    lines += [f"  {_diagnostic(item)}" for item in result.diagnostics]
    lines += [f"  {_variant(item)}" for item in result.variants]
    lines += [f"  note: {note}" for note in result.notes]
    return lines


def _diagnostic(item: Diagnostic) -> str:
    place = f"line {item.line}:{item.column} " if item.line else ""
    quote = f" | {item.source_line.strip()}" if item.source_line else ""
    return f"{place}{item.severity}: {item.message}{quote}" + (f" -> {item.hint}" if item.hint else "")


def _variant(item: VariantVerdict) -> str:
    if not item.claimed:
        return f"{item.variant_id}: left to eager by `where`"
    words = [f"{item.variant_id}: {item.verdict or 'not timed'}"]
    if item.speedup is not None:
        words.append(
            f"{figure(item.speedup, 'x', 4)} [{figure(item.ci_low, digits=4)}, {figure(item.ci_high, digits=4)}], "
            f"{figure(item.eager_us, digits=4)} -> {figure(item.candidate_us, digits=4)} us, {item.pairs} pairs, "
            f"noise {figure(item.noise_floor)}, speed of light {figure(item.speed_of_light)}"
        )
    return " ".join(words) + (f" ({item.message})" if item.message else "")
