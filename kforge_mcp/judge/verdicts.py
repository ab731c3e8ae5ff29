"""From raw times to verdicts of variants and of the card."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kforge_mcp.judge.statistics import Interval, Measured, joint_interval, median_interval, threshold, verdict
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, Project
from kforge_mcp.records.result import Reason, StageResult, VariantVerdict
from kforge_mcp.records.variant import Variant

Times = Mapping[str, Any]
"""Raw samples of one variant as the runtime's `Samples` writes them; seconds per call."""
_IMPOSSIBLE = 0.7
"""Below this part of the time to read the inputs at peak bandwidth a measurement is a fault."""
JOINT = "joint"


@dataclass(frozen=True)
class Verdicts:
    """The judge's figures: per variant, and for the card. `fault` is a time that cannot be."""

    variants: list[VariantVerdict]
    joint: VariantVerdict
    fault: str = ""
    own_share: float = 1.0
    """Part of the candidate's time in its own kernels; the rest is in operators that it calls."""


def log_ratios(eager_s: Sequence[float], other_s: Sequence[float]) -> list[float]:
    """ln(t_eager / t_other) of every pair."""
    return [math.log(eager / other) for eager, other in zip(eager_s, other_s, strict=True)]


def conclude(card: OperatorCard, project: Project, samples: Mapping[str, Times]) -> Verdicts:
    """Verdicts from the samples of the claimed variants; the others are listed as left to eager."""
    rows: list[VariantVerdict] = []
    parts: list[Measured] = []
    nulls: list[Measured] = []
    fault = ""
    for variant in card.variants:
        times = samples.get(variant.variant_id)
        if times is None:
            rows.append(VariantVerdict(variant_id=variant.variant_id, claimed=False, message="left to eager"))
            continue
        ratios = log_ratios(times["eager_s"], times["candidate_s"])
        null_ratios = log_ratios(times["null_eager_s"], times["null_candidate_s"])
        eager_s, candidate_s = statistics.median(times["eager_s"]), statistics.median(times["candidate_s"])
        parts.append(Measured(variant.calls, eager_s, ratios))
        nulls.append(Measured(variant.calls, eager_s, null_ratios))
        row = _row(variant.variant_id, median_interval(ratios), median_interval(null_ratios).reach, len(ratios))
        rows.append(
            row.model_copy(
                update={
                    "eager_us": eager_s * 1e6,
                    "candidate_us": candidate_s * 1e6,
                    "speed_of_light": speed_of_light(variant, candidate_s * 1e6),
                }
            )
        )
        fault = fault or impossible(variant, candidate_s * 1e6, project.device.ceilings)
    interval = joint_interval(parts)
    joint = _row(JOINT, interval, joint_interval(nulls).reach, min(len(part.ratios) for part in parts))
    eager_us = sum(part.calls * part.eager_s for part in parts) * 1e6
    claimed = {row.variant_id: row for row in rows if row.claimed}
    limits = [v.calls * v.speed_of_light_us for v in card.variants if v.variant_id in claimed]
    candidate_us = eager_us * math.exp(-interval.middle)
    share = min(1.0, sum(limits) / candidate_us) if limits and all(limits) else None
    joint = joint.model_copy(update={"eager_us": eager_us, "candidate_us": candidate_us, "speed_of_light": share})
    return Verdicts(rows, joint, fault, _own_share(card, samples))


def _own_share(card: OperatorCard, samples: Mapping[str, Times]) -> float:
    total = own = 0.0
    for variant in card.variants:
        if times := samples.get(variant.variant_id):
            spent = variant.calls * statistics.median(times["candidate_s"])
            total, own = total + spent, own + spent * times.get("own_share", 1.0)
    return own / total if total else 1.0


def speed_of_light(variant: Variant, candidate_us: float) -> float | None:
    """Speed-of-light time over candidate time, at most 1; None if the device was not measured."""
    if variant.speed_of_light_us <= 0 or candidate_us <= 0:
        return None
    return min(1.0, variant.speed_of_light_us / candidate_us)


def impossible(variant: Variant, candidate_us: float, ceilings: Ceilings | None) -> str:
    """Why a time cannot be true, or an empty text: the inputs alone take longer to read."""
    if ceilings is None or not ceilings.bandwidth_gbs:
        return ""
    storages = {spec.storage_id: 0 for spec in variant.tensors}
    for spec in variant.tensors:
        storages[spec.storage_id] = max(storages[spec.storage_id], spec.unique_bytes)
    read = sum(storages.values())
    least_us = read / ceilings.bandwidth(read) / 1e3
    if candidate_us >= _IMPOSSIBLE * least_us:
        return ""
    return (
        f"variant {variant.variant_id}: {candidate_us:.3g} us is below {_IMPOSSIBLE:g} of the {least_us:.3g} us that "
        f"reading its {read} bytes of inputs takes at this device's peak bandwidth: a fault of the measurement or a "
        "kernel that does not read its inputs, never a win"
    )


def stage_result(candidate_id: str, verdicts: Verdicts, config: Mapping[str, Any], notes: Sequence[str]) -> StageResult:
    """The benchmark's result. Times are of all claimed calls in one run of the workload."""
    joint = verdicts.joint
    figures = {
        "verdict": joint.verdict,
        "speedup": joint.speedup,
        "ci_low": joint.ci_low,
        "ci_high": joint.ci_high,
        "eager_us": joint.eager_us,
        "candidate_us": joint.candidate_us,
        "speed_of_light": joint.speed_of_light,
        "own_kernel_share": verdicts.own_share,
        "variants": verdicts.variants,
        "config": dict(config),
        "notes": list(notes),
    }
    if verdicts.fault:
        figures |= {"verdict": None, "speedup": None, "ci_low": None, "ci_high": None}
        reason: Reason = "below_speed_of_light"
        return StageResult(
            candidate_id=candidate_id,
            stage="benchmark",
            status="failed",
            reason=reason,
            message=verdicts.fault,
            **figures,
        )
    message = summary(joint, verdicts.variants)
    if verdicts.own_share == 0:
        message = f"a wrapper: no kernel of its own, so nothing is won by it. {message}"
        if figures["verdict"] == "faster":
            figures["verdict"] = "no_difference_shown"
    return StageResult(
        candidate_id=candidate_id, stage="benchmark", status="ok", passed=True, message=message, **figures
    )


def summary(joint: VariantVerdict, variants: Sequence[VariantVerdict]) -> str:
    """One sentence: what was shown, and how sure."""
    word = (joint.verdict or "").replace("_", " ")
    claimed = sum(variant.claimed for variant in variants)
    noise = joint.noise_floor or 0.0
    busy = joint.verdict == "no_difference_shown" and abs(math.log(joint.speedup or 1.0)) > threshold(0.0) < 2 * noise
    advice = "; the noise hides it: call benchmark again when the machine is less busy" if busy else ""
    return (
        f"{word}: {joint.speedup:.3f} times eager's speed, 99 % interval {joint.ci_low:.3f} to {joint.ci_high:.3f}, "
        f"over {claimed} of {len(variants)} variants, {joint.pairs} pairs or more each; eager against itself stays "
        f"within {100 * math.expm1(noise):.1f} %{advice}"
    )


def _row(variant_id: str, interval: Interval, noise: float, pairs: int) -> VariantVerdict:
    return VariantVerdict(
        variant_id=variant_id,
        verdict=verdict(interval, noise),
        speedup=math.exp(interval.middle),
        ci_low=math.exp(interval.low),
        ci_high=math.exp(interval.high),
        noise_floor=noise,
        pairs=pairs,
    )
