"""Inputs that are harder than the captured ones, and inputs on which eager works at all.

What the model happened to feed an operator may hide a fault: a ReLU on values that are never negative looks like the
identity. Where known wrong results pass on inputs like the captured ones, the recipes are replaced by wider ones, one
level after another, and the candidate is tried and timed on those.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .inputs import TRIALS, draws, is_styled
from .recipes import POINTS
from .subject import EAGER_FAILURES, Subject

Variant = dict[str, Any]

_OCTAVES = (-4, 4)
_OCTAVES_FP16 = (-8, 0)
"""Of fp16: a thousand times the largest value must still be finite."""
_SAMPLES = 1 << 14
_MORE_NONFINITE = 0.01


@dataclass(frozen=True)
class Level:
    """Which recipes are widened: of all floating tensors or of inputs alone, with signs or without."""

    name: str
    signed: bool
    parameters: bool


LEVELS = (
    Level("signed inputs of many magnitudes", signed=True, parameters=False),
    Level("signed inputs and parameters of many magnitudes", signed=True, parameters=True),
    Level("positive inputs of many magnitudes", signed=False, parameters=False),
    Level("positive inputs and parameters of many magnitudes", signed=False, parameters=True),
)


def harder(variant: Variant, level: Level) -> Variant | None:
    """The variant with wider recipes, None where the level changes nothing of it."""
    tensors = list(variant["tensors"])
    changed = False
    for index, spec in enumerate(tensors):
        recipe = spec.get("recipe") or {}
        if recipe.get("kind") != "quantiles" or not (level.parameters or is_styled(variant, index)):
            continue
        tensors[index] = {**spec, "recipe": _wide(recipe, level.signed, spec["dtype"])}
        changed = True
    return {**variant, "tensors": tensors} if changed else None


def _wide(recipe: dict[str, Any], signed: bool, dtype: str) -> dict[str, Any]:
    """Normal values times powers of two, about as large as the recipe's; what is drawn from it is still fresh."""
    generator = torch.Generator().manual_seed(1)
    low, high = _OCTAVES_FP16 if dtype == "fp16" else _OCTAVES
    exponents = torch.randint(low, high + 1, (_SAMPLES,), generator=generator)
    values = torch.randn(_SAMPLES, generator=generator).double() * torch.exp2(exponents.double())
    values = values if signed else values.abs()
    known = torch.tensor(recipe["quantiles"] or [1.0], dtype=torch.float64)
    magnitude = min(max(float(known.pow(2).mean().sqrt()), 2.0**-6), 4.0)
    places = torch.linspace(0, _SAMPLES - 1, POINTS).round().long()
    quantiles = (values.sort().values[places] * magnitude).tolist()
    return {**recipe, "quantiles": [float(f"{value:.6g}") for value in quantiles], "zeros_share": 0.0}


def hardened(subject: Subject, name: str) -> Subject:
    """The subject on inputs of the level of this name; itself for an empty name."""
    level = next((level for level in LEVELS if level.name == name), None)
    variant = harder(subject.variant, level) if level else None
    return subject.with_variant(variant) if variant else subject


def levels(subject: Subject) -> Iterator[tuple[str, Subject]]:
    """Harder subjects, the mildest first, on which eager is about as finite as on the captured kind of inputs."""
    usual = _nonfinite_share(subject)
    for level in LEVELS:
        variant = harder(subject.variant, level)
        if variant is None:
            continue
        candidate = subject.with_variant(variant)
        share = _nonfinite_share(candidate)
        if isinstance(share, float) and (not isinstance(usual, float) or share <= usual + _MORE_NONFINITE):
            yield level.name, candidate


def repaired(subject: Subject) -> tuple[Subject, list[int], list[str]]:
    """A subject on whose fresh inputs eager works as it does on the captured ones.

    Independent draws can break what held between captured values: an index within another tensor's length, a
    difference that is positive. Returns the subject, the tensors whose captured values are kept to that end (as few
    as will do, and never all), and what the card has to say of it.
    """
    usual = _share_on_sample(subject)
    fresh = _nonfinite_share(subject)
    if not isinstance(usual, float) or _works(fresh, usual):
        return subject, [], []
    what = fresh if isinstance(fresh, str) else f"NaN or infinities in {fresh:.0%} of its results"
    for frozen in _choices(subject.variant):
        changed = subject.with_variant(freeze(subject.variant, frozen))
        if _works(_nonfinite_share(changed), usual):
            names = ", ".join(f"`{_name(subject.variant, index)}`" for index in frozen)
            return changed, frozen, [f"fresh inputs made eager fail ({what}): captured values of {names} are used"]
    return subject, [], [f"on fresh inputs eager fails ({what}); what it gives there is all that is compared"]


def freeze(variant: Variant, indices: Sequence[int]) -> Variant:
    """The variant with the captured values of some tensors."""
    tensors = list(variant["tensors"])
    for index in indices:
        tensors[index] = {**tensors[index], "recipe": {**(tensors[index].get("recipe") or {}), "kind": "constant"}}
    return {**variant, "tensors": tensors}


def _choices(variant: Variant) -> Iterator[list[int]]:
    """Sets of tensors to keep, the smallest first: integers and masks alone, one tensor, all but one."""
    drawn = [
        index
        for index, spec in enumerate(variant["tensors"])
        if (spec.get("recipe") or {"kind": "constant"})["kind"] != "constant" and spec.get("sample")
    ]
    exact = [index for index in drawn if variant["tensors"][index]["recipe"]["kind"] != "quantiles"]
    ordered = [*exact, *(index for index in drawn if index not in exact)]
    fresh = sum((spec.get("recipe") or {"kind": "constant"})["kind"] != "constant" for spec in variant["tensors"])
    seen: list[list[int]] = []
    for choice in [*([index] for index in ordered), exact, *(sorted(set(drawn) - {index}) for index in drawn)]:
        if choice and len(choice) < fresh and choice not in seen:
            seen.append(choice)
            yield choice


def _works(share: float | str, usual: float) -> bool:
    return isinstance(share, float) and share <= usual + _MORE_NONFINITE


def _share_on_sample(subject: Subject) -> float | str:
    if not all(spec.get("sample") or spec.get("recipe") is None for spec in subject.variant["tensors"]):
        return "the captured values were not kept"
    return _nonfinite_share(subject, TRIALS[0])


def _nonfinite_share(subject: Subject, trial: str = TRIALS[1]) -> float | str:
    """The share of eager's floating results that are not finite on one draw, or how eager fails."""
    draw = next(draws(trial, subject.variant, subject.where, subject.generator, subject.blob_root))
    try:
        results = [tensor for tensor in subject.eager(draw.tensors) if tensor.is_floating_point() and tensor.numel()]
    except EAGER_FAILURES as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    total = sum(tensor.numel() for tensor in results)
    wrong = sum(int((~torch.isfinite(tensor.float())).sum()) for tensor in results)
    return wrong / max(total, 1)


def _name(variant: Variant, index: int) -> str:
    return next((a["name"] for a in variant["arguments"] if index in a["tensors"]), f"tensor {index}")
