"""From the candidates that cards put forward to kernels with holdout figures: recompiled, measured again, bound."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kforge_mcp.candidate.binding import NOMINAL_SM_COUNT
from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import Binary, Compiled, CompileFailed, compile_candidate
from kforge_mcp.compile.cuda.architectures import architectures
from kforge_mcp.compile.cuda.toolchain import find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import RuntimeFailure, UsageError
from kforge_mcp.export.kernels import Kernel, NotPackaged, assemble
from kforge_mcp.export.selection import Choice
from kforge_mcp.judge.evaluate import Claim, HoldoutResult, holdout
from kforge_mcp.judge.sanitizers import Sanitized, sanitize
from kforge_mcp.records.package import PackagedKernel
from kforge_mcp.records.project import Project
from kforge_mcp.records.result import VariantVerdict

_IDENTIFY_TIMEOUT_S = 300


@dataclass
class Evidence:
    """Kernels that holdout showed to be faster, what was left out on the way, and the raw holdout figures."""

    kernels: list[Kernel] = field(default_factory=list)
    left_out: list[PackagedKernel] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)


def gather(ctx: JobContext, project: Project, choices: list[Choice]) -> Evidence:
    """Compile and measure again. What fails is left out with the reason; nothing is published but holdout figures."""
    evidence = Evidence()
    claims: list[Claim] = []
    chosen: list[tuple[Choice, Claim]] = []
    sanitized: dict[str, Sanitized] = {}
    for choice in choices:
        claim = _claim(ctx, project, choice)
        if isinstance(claim, str):
            evidence.left_out.append(left_out(choice, claim))
            continue
        if project.target == "cpu":
            ctx.progress(f"checking {choice.card.name} with sanitizers", 0.02)
            said = sanitize(ctx, project, claim)
            if said.status == "finding":
                evidence.left_out.append(left_out(choice, f"sanitizers: {said.message}"))
                continue
            sanitized[claim.candidate_id] = said
        claims.append(claim)
        chosen.append((choice, claim))
    if not claims:
        return evidence
    ctx.progress(f"holdout: measuring {len(claims)} candidates in fresh processes", 0.05)
    results = {result.candidate_id: result for result in holdout(ctx, project, claims)}
    for choice, claim in chosen:
        result = results[claim.candidate_id]
        # NVIDIA's checker is part of a CUDA candidate's holdout.
        said = sanitized.get(claim.candidate_id) or Sanitized("checked", result.memory_check or "not asked")
        evidence.samples.append({**_sample(choice, result), "sanitizers": f"{said.status}: {said.message}"})
        outcome = _kernel(claim, result, project, further_binaries(ctx, project, claim) if result.passed else [])
        if isinstance(outcome, NotPackaged):
            evidence.left_out.append(left_out(choice, outcome.reason, result.joint, result.variants))
        else:
            evidence.kernels.append(replace(outcome, sanitized=said))
    by_candidate = {choice.candidate.candidate_id: choice for choice in choices}
    identified = identify(ctx, project, evidence.kernels)
    evidence.kernels = [kernel for kernel in identified if kernel.source_sha256]
    for kernel in identified:
        if not kernel.source_sha256:
            reason = "its class or function has no Python source, by which attach would know a changed one"
            choice = by_candidate[kernel.candidate_id]
            evidence.left_out.append(left_out(choice, reason, kernel.holdout, list(kernel.verdicts)))
    return evidence


def left_out(
    choice: Choice, reason: str, joint: VariantVerdict | None = None, variants: list[VariantVerdict] | None = None
) -> PackagedKernel:
    """The entry of a card that gets no kernel."""
    return PackagedKernel(
        card_id=choice.card.card_id,
        card=choice.card.name,
        level=choice.card.level,
        candidate_id=choice.candidate.candidate_id,
        included=False,
        reason=reason,
        calls=choice.card.calls,
        share=choice.card.share,
        holdout=joint,
        variants=variants or [],
    )


def identify(ctx: JobContext, project: Project, kernels: list[Kernel]) -> list[Kernel]:
    """Kernels with the digest of the source they stand for, so that attach knows a changed class or function."""
    if not kernels:
        return []
    cards = [
        {
            "card_id": kernel.card.card_id,
            "qualified_name": kernel.card.qualified_name,
            "reference": kernel.card.reference,
        }
        for kernel in kernels
    ]
    try:
        with ctx.runtime(project.interpreter, cwd=project.project_dir or None) as process:
            answer = process.call("accept", {"stage": "identify", "cards": cards}, timeout_s=_IDENTIFY_TIMEOUT_S)
    except RuntimeFailure as failure:
        raise UsageError(f"the captured code cannot be imported again: {failure}") from failure
    return [replace(kernel, source_sha256=answer["digests"][kernel.card.card_id]) for kernel in kernels]


def further_binaries(ctx: JobContext, project: Project, claim: Claim) -> list[Binary]:
    """The candidate for GPUs other than the one it was judged on: those of KFORGE_CUDA_ARCH and of this machine, and
    PTX, which newer GPUs can run, beside every cubin that is not for one GPU alone. What does not compile is left out.
    """
    if project.target == "cpu":
        return []
    judged = {binary.arch for binary in claim.compiled.binaries}
    toolchain = find_toolchain(ctx, project.interpreter)
    wanted = dict.fromkeys([*judged, *architectures(ctx, toolchain)])
    wanted |= dict.fromkeys(arch.replace("sm_", "compute_") for arch in list(wanted) if arch[-1].isdigit())
    others = [arch for arch in wanted if arch not in judged]
    if not others:
        return []
    made = compile_candidate(
        ctx, claim.plan, claim.card, [claim.config], interpreter=project.interpreter, architectures=others
    )
    return made.binaries if isinstance(made, Compiled) else []


def _claim(ctx: JobContext, project: Project, choice: Choice) -> Claim | str:
    card, candidate = choice.card, choice.candidate
    plan = parse_plan(ctx.workspace.blobs.get(candidate.source).decode(), card, candidate.target)
    if isinstance(plan, Rejected):
        return f"its source is no longer accepted: {plan.message}"
    config = candidate.benchmarked.config if candidate.benchmarked else {}
    compiled = compile_candidate(
        ctx,
        plan,
        card,
        [config],
        interpreter=project.interpreter,
        architectures=project.device.architectures,
    )
    if isinstance(compiled, CompileFailed):
        return f"it no longer compiles: {compiled.message}"
    return Claim(card=card, plan=plan, compiled=compiled, config=config, candidate_id=candidate.candidate_id)


def _kernel(claim: Claim, result: HoldoutResult, project: Project, further: list[Binary]) -> Kernel | NotPackaged:
    if not result.passed:
        return NotPackaged(f"holdout: {result.reason or 'no difference shown'}")
    plan: Plan = claim.plan
    return assemble(
        claim.card,
        plan,
        claim.config,
        claim.compiled.binaries,
        candidate_id=claim.candidate_id,
        holdout=result.joint,
        verdicts=list(result.variants),
        further=further,
        sm_count=project.device.sm_count or NOMINAL_SM_COUNT,
    )


def _sample(choice: Choice, result: HoldoutResult) -> dict[str, Any]:
    return {
        "card": choice.card.name,
        "candidate_id": result.candidate_id,
        "passed": result.passed,
        "p_value": result.p_value,
        "process_medians": result.process_medians,
        "reason": result.reason,
    }
