"""Operator cards from what the two passes report."""

from __future__ import annotations

from typing import Any

from kforge_mcp.capture.ceilings import matrix_dtype, speed_of_light_us
from kforge_mcp.capture.headroom import TimedCall, headrooms
from kforge_mcp.capture.times import CardTimes, WorkloadTimes, gain_ceiling, level_of, saved_share, savings
from kforge_mcp.records.base import new_id
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Variant

WORTH_IT = 1.002
"""Below this ceiling the whole workload cannot get measurably faster from the card."""
_REASONS_SHOWN = 2


def build_cards(
    project_id: str, sampled: dict[str, Any], times: WorkloadTimes, ceilings: Ceilings
) -> list[OperatorCard]:
    """The cards of a project, in the order in which the workload first calls them."""
    drafts = sampled["cards"]
    names = {draft["label"]: draft["name"] for draft in drafts}
    variants = {draft["label"]: _variants(draft, times.cards[draft["label"]], ceilings) for draft in drafts}
    room = _headrooms(sampled["calls"], variants, times) if times.call_us else {}
    saved = _savings(sampled["calls"], variants, times)
    return [
        _card(project_id, draft, times.cards[label], variants[label], saved.get(label, 0.0), room.get(label), names)
        for label, draft in zip(names, drafts, strict=True)
    ]


def observed_rates(sampled: dict[str, Any], times: WorkloadTimes) -> dict[str, float]:
    """The best matrix rate, 1e9 operations a second by dtype, that eager itself reached in the workload."""
    best: dict[str, float] = {}
    for draft in sampled["cards"]:
        for part in draft["variants"]:
            eager_us = times.cards[draft["label"]].variant_us[part["key"]]
            dtype = matrix_dtype([TensorSpec(**spec) for spec in [*part["tensors"], *part["outputs"]]])
            if eager_us > 0:
                best[dtype] = max(best.get(dtype, 0.0), part["flops"] / (eager_us * 1e3))
    return best


def _variants(draft: dict[str, Any], times: CardTimes, ceilings: Ceilings) -> dict[str, Variant]:
    return {part["key"]: _variant(part, times, ceilings) for part in draft["variants"]}


def _headrooms(
    calls: list[list[Any]], variants: dict[str, dict[str, Variant]], times: WorkloadTimes
) -> dict[str, float]:
    products = {label for label, known in variants.items() if any(variant.flops for variant in known.values())}
    timed = []
    for (label, key, parent), us in zip(calls, times.call_us, strict=True):
        variant = variants.get(label, {}).get(key)
        timed.append(
            TimedCall(
                label=label,
                us=us,
                parent=parent,
                light_us=None if variant is None else variant.speed_of_light_us,
                fastest_us=None if variant is None else times.cards[label].variant_fastest_us[key],
                is_product=level_of(label) == "torch" and label in products,
            )
        )
    return headrooms(timed, times.observed_us)


def _savings(calls: list[list[Any]], variants: dict[str, dict[str, Variant]], times: WorkloadTimes) -> dict[str, float]:
    """What each card could save of the workload, by label."""
    if times.call_us:
        shares = [us / times.observed_us for us in times.call_us]
        timed: list[tuple[str, float | None, int]] = []
        for (label, key, parent), share in zip(calls, shares, strict=True):
            variant = variants.get(label, {}).get(key)
            timed.append((label, variant and _saved(share, variant), parent))
        return savings(timed)
    return {
        label: sum(_saved(times.cards[label].variant_share[key], variant) for key, variant in known.items())
        for label, known in variants.items()
    }


def _saved(share: float, variant: Variant) -> float:
    return saved_share(share, variant.speed_of_light_us, variant.eager_us)


def _card(
    project_id: str,
    draft: dict[str, Any],
    times: CardTimes,
    known: dict[str, Variant],
    saved: float,
    room: float | None,
    names: dict[str, str],
) -> OperatorCard:
    variants = list(known.values())
    ceiling = gain_ceiling(saved)
    return OperatorCard(
        card_id=new_id("card"),
        project_id=project_id,
        level=draft["level"],
        name=draft["name"],
        qualified_name=draft["qualified_name"],
        eligible=bool(variants),
        reason=reason_text(draft["refused"], bool(variants)),
        calls=times.calls,
        eager_us=times.eager_us,
        share=times.share,
        own_share=times.own_share,
        gain_ceiling=ceiling,
        headroom=None if room is None else min(room, 1.0 - 1.0 / ceiling),
        worth_it=bool(variants) and ceiling >= WORTH_IT,
        parents=_named(draft["parents"], names),
        children=_named(draft["children"], names),
        variants=variants,
        reference=draft["reference"],
        reference_source=draft["reference_source"],
        source_location=draft["source_location"],
        patch_sites=draft["patch_sites"],
        mutates=mutated_argument(variants),
    )


def mutated_argument(variants: list[Variant]) -> str:
    """The argument that eager overwrites and returns, the same in all variants; empty if there is none or several."""
    names = {
        argument.name
        for variant in variants
        for argument in variant.arguments
        if any(index in argument.tensors for index in variant.overwritten)
    }
    return names.pop() if len(names) == 1 and all(variant.overwritten for variant in variants) else ""


def _named(labels: list[str], names: dict[str, str]) -> list[str]:
    return sorted({names[label] for label in labels if label in names})


def _variant(part: dict[str, Any], times: CardTimes, ceilings: Ceilings) -> Variant:
    key = part["key"]
    fields = {name: value for name, value in part.items() if name != "key"}
    variant = Variant(
        variant_id=new_id("var"), calls=times.variant_calls[key], eager_us=times.variant_us[key], **fields
    )
    dtype = matrix_dtype([*variant.tensors, *variant.outputs])
    light_us = speed_of_light_us(ceilings, variant.unique_bytes, variant.flops, dtype)
    return variant.model_copy(update={"speed_of_light_us": light_us})


def reason_text(refused: dict[str, int], is_eligible: bool) -> str:
    """Why calls are left to eager, most frequent reason first; empty if none is."""
    if not refused:
        return ""
    ordered = sorted(refused.items(), key=lambda item: -item[1])
    shown = "; ".join(reason for reason, _ in ordered[:_REASONS_SHOWN])
    if len(ordered) > _REASONS_SHOWN:
        shown += f"; and {len(ordered) - _REASONS_SHOWN} more reasons"
    if not is_eligible:
        return shown
    return f"{sum(refused.values())} of its calls are left to eager: {shown}"
