"""A candidate's profile: static facts always, times and residency on its device, counters where they can be read."""

from __future__ import annotations

from typing import Any

from kforge_mcp.candidate.bound import BoundLaunch, BoundProgram
from kforge_mcp.candidate.declaration import Plan
from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.step_binding import NOMINAL_SM_COUNT, bind_steps
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Binary, Compiled, CompileFailed
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import RuntimeFailure
from kforge_mcp.judge.bounds import bound_of, hints, roofline
from kforge_mcp.judge.counters import longest, read_counters
from kforge_mcp.judge.samples import sample_job, write_jobs
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.profile import Counter, KernelProfile, Profile
from kforge_mcp.records.project import Project
from kforge_mcp.records.result import Reason
from kforge_mcp.records.variant import Variant
from kforge_mcp.store import candidates, cards, projects

_MEASURE_TIMEOUT_S = 180.0


def run_profile(ctx: JobContext, *, candidate_id: str) -> dict[str, Any]:
    """The job: everything that can be known of a candidate on this machine, as the JSON of a `Profile`."""
    with ctx.workspace.reading() as session:
        candidate = candidates.get(session, candidate_id)
        card = cards.get(session, candidate.card_id)
        project = projects.get(session, candidate.project_id)
    return profile(ctx, project, card, candidate).model_dump(mode="json")


def profile(ctx: JobContext, project: Project, card: OperatorCard, candidate: Candidate) -> Profile:
    """Profile a candidate in the variant that weighs most, under the configuration that was judged.

    Raises:
        JobCancelled: the job was cancelled.
    """

    def failed(reason: Reason, message: str) -> Profile:
        return Profile(
            candidate_id=candidate.candidate_id, target=candidate.target, reason=reason, message=message[:1500]
        )

    plan = parse_plan(ctx.workspace.blobs.get(candidate.source).decode(), card, candidate.target)
    if isinstance(plan, Rejected):
        return failed(plan.reason, plan.message)
    judged = candidate.latest.config if candidate.latest else {}
    config = judged if judged in configurations(plan) else configurations(plan)[0]
    ctx.progress("compiling", 0.1)
    outcome = compile_candidate(
        ctx, plan, card, [config], interpreter=project.interpreter, architectures=project.device.architectures
    )
    if isinstance(outcome, CompileFailed):
        return failed(outcome.reason, outcome.message)
    variant, binary = _heaviest(card, outcome)
    known = _from_benchmark(candidate, variant)
    found = Profile(
        candidate_id=candidate.candidate_id,
        target=candidate.target,
        variant_id=variant.variant_id,
        config=config,
        eager_us=variant.eager_us,
        unique_bytes=variant.unique_bytes,
        flops=variant.flops,
        **known,
    )
    if candidate.target == "cpu":
        return _concluded(found, variant, project, launches=1, counters=[])
    bound = bind_steps(plan, variant, config, sm_count=project.device.sm_count or NOMINAL_SM_COUNT)
    if isinstance(bound, Rejected):
        return failed(bound.reason, bound.message)
    found = found.model_copy(update={"kernels": _kernels(binary, bound)})
    if project.target != "cuda":
        note = f"no times, occupancy or counters: the project was captured on {project.device.name}, without a GPU"
        return found.model_copy(update={"notes": [note], "evidence": ["the candidate has not run on a GPU"]})
    return _on_device(ctx, project, card, plan, found, variant, binary, bound)


def _on_device(
    ctx: JobContext,
    project: Project,
    card: OperatorCard,
    plan: Plan,
    found: Profile,
    variant: Variant,
    binary: Binary,
    bound: BoundProgram,
) -> Profile:
    job = sample_job(ctx, project, card, plan, found.config, variant, binary)
    assert not isinstance(job, Rejected), job.message
    notes: list[str] = []
    counters: list[Counter] = []
    with ctx.device_lock(project.device_key):
        ctx.progress("timing on the device", 0.4)
        try:
            with ctx.runtime(project.interpreter, cwd=project.project_dir or None) as process:
                answer = process.call("measure_cuda", job, timeout_s=_MEASURE_TIMEOUT_S)
        except RuntimeFailure as failure:
            answer = {"error": f"the process that measures failed: {failure}", "finding": None}
        if answer["finding"]:
            finding = answer["finding"]
            return found.model_copy(update={"reason": finding["reason"], "message": finding["message"][:1500]})
        if answer["error"]:
            notes.append(f"no times and no occupancy: {answer['error']}")
        else:
            found = _measured(found, answer)
            path = write_jobs(ctx.scratch(), [job])
            symbols = {kernel.symbol: kernel.kernel for kernel in binary.kernels}
            counters, note = read_counters(ctx, project, path, symbols)
            notes += [note] if note else []
    launches = len(bound.steps)
    return _concluded(found.model_copy(update={"notes": notes}), variant, project, launches=launches, counters=counters)


def _concluded(
    found: Profile, variant: Variant, project: Project, *, launches: int, counters: list[Counter]
) -> Profile:
    """Rates, bound, evidence and what to try."""
    lines = roofline(variant, found.candidate_us, project.device.ceilings)
    word, evidence = bound_of(
        lines,
        candidate_us=found.candidate_us,
        floor_us=found.floor_us,
        launches=launches,
        counters=longest(counters),
    )
    spills = sum(kernel.spill_bytes for kernel in found.kernels)
    tries = hints(word, spills, [kernel.occupancy for kernel in found.kernels])
    notes = list(found.notes)
    if not variant.flops:
        notes.append("arithmetic beside matrix products is not counted")
    return found.model_copy(
        update={
            "bandwidth_gbs": lines.bandwidth_gbs,
            "bandwidth_share": lines.bandwidth_share,
            "gflops": lines.gflops,
            "gflops_share": lines.gflops_share,
            "bound": word,
            "evidence": [*evidence, *(f"try: {text}" for text in tries)],
            "counters": counters,
            "notes": notes,
        }
    )


def _heaviest(card: OperatorCard, outcome: Compiled) -> tuple[Variant, Binary]:
    """The claimed variant with the most eager time in the workload, and its binary."""
    pairs = [(v, one) for v in card.variants for one in outcome.binaries if v.variant_id in one.variants]
    return max(pairs, key=lambda pair: pair[0].calls * pair[0].eager_us)


def _from_benchmark(candidate: Candidate, variant: Variant) -> dict[str, Any]:
    rows = candidate.benchmarked.variants if candidate.benchmarked else []
    row = next((row for row in rows if row.variant_id == variant.variant_id and row.candidate_us), None)
    return {"candidate_us": row.candidate_us, "time_source": "benchmark"} if row else {}


def _kernels(binary: Binary, bound: BoundProgram) -> list[KernelProfile]:
    """Static facts of each kernel, with the sizes of its first launch."""
    found: list[KernelProfile] = []
    launches = [step for step in bound.steps if isinstance(step, BoundLaunch)]
    for kernel in binary.kernels:
        own = [step for step in launches if step.kernel_name_expression == kernel.kernel]
        first = own[0] if own else None
        found.append(
            KernelProfile(
                kernel=kernel.kernel,
                registers=kernel.registers,
                spill_bytes=kernel.spill_store_bytes + kernel.spill_load_bytes,
                stack_bytes=kernel.stack_bytes,
                static_shared_bytes=kernel.static_shared_bytes,
                grid=list(first.grid) if first else [],
                block=list(first.block) if first else [],
                dynamic_shared_bytes=first.shared_bytes if first else 0,
                launches=len(own),
            )
        )
    return found


def _measured(found: Profile, answer: dict[str, Any]) -> Profile:
    """The profile with what the device said."""
    steps = answer["steps_us"]
    total = sum(steps)
    kernels: list[KernelProfile] = []
    for kernel in found.kernels:
        own = [index for index, one in enumerate(answer["launches"]) if one["kernel"] == kernel.kernel]
        if not own:
            kernels.append(kernel)
            continue
        first = answer["launches"][own[0]]
        share = sum(steps[index] for index in own) / total if total and len(steps) > max(own) else None
        update = {name: first[name] for name in ("blocks_per_sm", "occupancy", "waves")}
        kernels.append(kernel.model_copy(update={**update, "time_share": share}))
    timed: dict[str, Any] = {}
    if not found.candidate_us and answer["device_us"] is not None:
        timed = {"candidate_us": answer["device_us"], "time_source": "events"}
    return found.model_copy(
        update={"kernels": kernels, "call_us": answer["call_us"], "floor_us": answer["floor_us"], **timed}
    )
