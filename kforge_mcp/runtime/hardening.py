"""Inputs that are harder than the captured ones.

What the model happened to feed an operator may hide a fault: a ReLU on values that are never negative looks like the
identity. Where known wrong results pass on inputs like the captured ones, the recipes are replaced by wider ones, one
level after another, and the candidate is tried and timed on those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .examination import MORE_NONFINITE, nonfinite_share
from .inputs import is_styled
from .recipes import POINTS
from .subject import Subject

Variant = dict[str, Any]

_OCTAVES = (-4, 4)
_OCTAVES_FP16 = (-8, 0)
"""Of fp16: a thousand times the largest value must still be finite."""
_SAMPLES = 1 << 14


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
    """The variant with wider recipes, None where it has no tensors of the kind that the level is for."""
    tensors = list(variant["tensors"])
    changed = False
    for index, spec in enumerate(tensors):
        recipe = spec.get("recipe") or {}
        styled = is_styled(variant, index)
        if recipe.get("kind") != "quantiles" or not (level.parameters or styled):
            continue
        tensors[index] = {**spec, "recipe": _wide(recipe, level.signed, spec["dtype"])}
        changed = changed or styled != level.parameters
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
    usual = nonfinite_share(subject)
    for level in LEVELS:
        variant = harder(subject.variant, level)
        if variant is None:
            continue
        candidate = subject.with_variant(variant)
        share = nonfinite_share(candidate)
        if isinstance(share, float) and (not isinstance(usual, float) or share <= usual + MORE_NONFINITE):
            yield level.name, candidate
