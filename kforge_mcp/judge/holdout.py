"""Selection is not evidence: the chosen candidates are measured again, in fresh processes, before anything is claimed.

Per claim 8 fresh processes with fresh seeds; the median log ratio of each; a one-sided t test over processes of
H0: the log speed-up is at most max(2e, ln 1.02); Holm at 1 % over all that is claimed, cards and their variants.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from kforge_mcp.candidate.plan import Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.cuda.tools import CHECKER
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.memory_check import check_memory
from kforge_mcp.judge.request import Config, subjects
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.judge.statistics import Interval, holm, mean_interval, p_value_above, threshold
from kforge_mcp.judge.verdicts import JOINT, log_ratios, speed_of_light
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.records.result import VariantVerdict

PROCESSES = 8
PAIRS = 20


@dataclass(frozen=True)
class Claim:
    """A candidate, frozen, that is to be published as faster. `compiled` holds its `config` among others or alone."""

    card: OperatorCard
    plan: Plan
    compiled: Compiled
    config: Config
    candidate_id: str


@dataclass(frozen=True)
class HoldoutResult:
    """The figures of one claim. `process_medians` are the card's log speed-ups, one per process."""

    candidate_id: str
    passed: bool
    joint: VariantVerdict
    variants: list[VariantVerdict]
    p_value: float
    process_medians: list[float]
    reason: str = ""
    memory_check: str = ""
    """What the checker of memory accesses and races said, or why it was not run; empty for the CPU and for claims
    that do not hold anyway."""


@dataclass(frozen=True)
class _Hypothesis:
    """One thing claimed: log speed-ups per process, and eager's against itself in the same processes."""

    claim: int
    name: str
    values: list[float]
    null_values: list[float]
    eager_us: float
    pairs: int

    @property
    def noise(self) -> float:
        return mean_interval(self.null_values).reach

    @property
    def p_value(self) -> float:
        return p_value_above(self.values, threshold(self.noise))


def holdout(
    ctx: JobContext,
    project: Project,
    claims: Sequence[Claim],
    *,
    processes: int = PROCESSES,
    alpha: float = 0.01,
    pairs: int = PAIRS,
) -> list[HoldoutResult]:
    """Measure every claim again and say which of them hold; what holds on a GPU goes through the memory checker too.

    Raises `RuntimeFailure` if the judge's own processes fail, `JobCancelled`.
    """
    hypotheses: list[_Hypothesis] = []
    failures: dict[int, str] = {}
    for number, claim in enumerate(claims):
        with Evaluators(ctx, project) as evaluators:
            measured = _measure(ctx, evaluators, claim, processes, pairs, (number, len(claims)))
        if isinstance(measured, str):
            failures[number] = measured
        else:
            hypotheses += _hypotheses(number, claim, measured)
    rejected = holm([hypothesis.p_value for hypothesis in hypotheses], alpha)
    results: list[HoldoutResult] = []
    for number, claim in enumerate(claims):
        if number in failures:
            nothing = VariantVerdict(variant_id=JOINT, message=failures[number])
            results.append(HoldoutResult(claim.candidate_id, False, nothing, [], 1.0, [], failures[number]))
            continue
        mine = [(h, held) for h, held in zip(hypotheses, rejected, strict=True) if h.claim == number]
        results.append(_memory_checked(ctx, project, claim, _result(claim, mine)))
    return results


def _memory_checked(ctx: JobContext, project: Project, claim: Claim, result: HoldoutResult) -> HoldoutResult:
    """The result with what the checker found: a kernel that reads or writes where it must not is not published."""
    if project.target != "cuda" or not result.passed:
        return result
    checked = check_memory(ctx, project, claim.card, claim.plan, claim.config)
    if checked.passed:
        return replace(result, memory_check=checked.message())
    reason = f"{CHECKER}: {checked.message()}"
    return replace(result, passed=False, reason=reason, memory_check=checked.message())


def _measure(
    ctx: JobContext, evaluators: Evaluators, claim: Claim, processes: int, pairs: int, place: tuple[int, int]
) -> list[dict[str, Any]] | str:
    """Samples by variant of every process, or why the claim cannot be measured."""
    subject = next((s for s in subjects(claim.card, claim.plan, claim.compiled) if s.config == claim.config), None)
    if subject is None or not subject.variants:
        return "the claimed configuration was not compiled, or claims no variant"
    schedule = {"pairs": pairs, "first_stage": pairs, "warm_up": 2, "null": True}
    runs: list[dict[str, Any]] = []
    for process in range(processes):
        done = (place[0] + process / processes) / place[1]
        ctx.progress(f"holdout of {claim.card.name}: process {process + 1} of {processes}", done)
        answer = evaluators.evaluate(subject, mode="quick", schedule=schedule)
        if isinstance(answer, Rejected):
            return answer.message
        if answer["finding"]:
            return f"{answer['finding']['reason']}: {answer['finding']['message']}"
        runs.append(answer["variants"])
    return runs


def _hypotheses(number: int, claim: Claim, runs: list[dict[str, Any]]) -> list[_Hypothesis]:
    variants = [variant for variant in claim.card.variants if variant.variant_id in runs[0]]
    found: list[_Hypothesis] = []
    totals = [[0.0, 0.0, 0.0] for _ in runs]
    for variant in variants:
        values: list[float] = []
        nulls: list[float] = []
        eager: list[float] = []
        for total, run in zip(totals, runs, strict=True):
            times = run[variant.variant_id]
            ratio = statistics.median(log_ratios(times["eager_s"], times["candidate_s"]))
            null = statistics.median(log_ratios(times["null_eager_s"], times["null_candidate_s"]))
            spent = variant.calls * statistics.median(times["eager_s"])
            total[0] += spent
            total[1] += spent * math.exp(-ratio)
            total[2] += spent * math.exp(-null)
            values.append(ratio)
            nulls.append(null)
            eager.append(statistics.median(times["eager_s"]) * 1e6)
        count = sum(len(run[variant.variant_id]["eager_s"]) for run in runs)
        found.append(_Hypothesis(number, variant.variant_id, values, nulls, statistics.median(eager), count))
    joint = [math.log(total[0] / total[1]) for total in totals]
    null_joint = [math.log(total[0] / total[2]) for total in totals]
    eager_us = statistics.median(total[0] for total in totals) * 1e6
    card = _Hypothesis(number, JOINT, joint, null_joint, eager_us, min(h.pairs for h in found))
    return [card, *(found if len(found) > 1 else [])]


def _result(claim: Claim, tested: Sequence[tuple[_Hypothesis, bool]]) -> HoldoutResult:
    (card, held), *others = tested
    joint = _row(card, held)
    variants: list[VariantVerdict] = []
    by_name = {hypothesis.name: (hypothesis, ok) for hypothesis, ok in others}
    claimed = {name for binary in claim.compiled.binaries if binary.config == claim.config for name in binary.variants}
    for variant in claim.card.variants:
        if variant.variant_id not in claimed:
            variants.append(VariantVerdict(variant_id=variant.variant_id, claimed=False, message="left to eager"))
            continue
        row = _row(*by_name.get(variant.variant_id, (card, held)))
        per_call = 1 if variant.variant_id in by_name else max(variant.calls, 1)
        eager_us, candidate_us = (row.eager_us or 0.0) / per_call, (row.candidate_us or 0.0) / per_call
        light = speed_of_light(variant, candidate_us)
        figures = {"eager_us": eager_us, "candidate_us": candidate_us, "speed_of_light": light}
        variants.append(row.model_copy(update={"variant_id": variant.variant_id, **figures}))
    reason = ""
    if not held:
        reason = (
            f"not shown to be faster: {joint.speedup:.3f} ({joint.ci_low:.3f} to {joint.ci_high:.3f}) over "
            f"{len(card.values)} processes, p = {card.p_value:.2g} that it does not exceed "
            f"{math.exp(threshold(card.noise)):.3f}"
        )
    return HoldoutResult(claim.candidate_id, held, joint, variants, card.p_value, card.values, reason)


def _row(hypothesis: _Hypothesis, held: bool) -> VariantVerdict:
    interval = mean_interval(hypothesis.values)
    return VariantVerdict(
        variant_id=hypothesis.name,
        verdict="faster" if held else _otherwise(interval, hypothesis.noise),
        speedup=math.exp(interval.middle),
        ci_low=math.exp(interval.low),
        ci_high=math.exp(interval.high),
        eager_us=hypothesis.eager_us,
        candidate_us=hypothesis.eager_us * math.exp(-interval.middle),
        noise_floor=hypothesis.noise,
        pairs=hypothesis.pairs,
    )


def _otherwise(interval: Interval, noise: float) -> Any:
    return "slower" if interval.high < -threshold(noise) else "no_difference_shown"
