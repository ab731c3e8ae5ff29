"""Inputs on which eager works, and an oracle that computes what eager computes: looked at once per variant.

Independent draws can break what held between captured values: an index within another tensor's length, a difference
that is positive. Stress can leave an operator's domain, such as probabilities. And code that asks for its dtype may do
something else in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from . import blobs
from .inputs import TRIALS, draws, is_styled
from .oracle import Expected
from .recipes import is_mask, is_position
from .subject import EAGER_FAILURES, Subject
from .tensors import from_bytes

MORE_NONFINITE = 0.01
"""How much larger a share of NaN and infinities may be on other inputs."""
_ANOTHER_RESULT = {1: 0.5, 2: 0.25}
_ANOTHER_RESULT_WIDE = 0.05
"""Eager's relative root mean square error, by bytes of an element and for wider ones, above which float64 computes
something else: rounding alone does not come near it on ordinary inputs."""

_PROBES = 3
"""Draws on which eager must work before a mask or position is varied."""

Variant = dict[str, Any]


@dataclass
class Examination:
    """What was found; `problem` is a reason to claim nothing on the card."""

    frozen: list[int] = field(default_factory=list)
    """Tensors whose captured values are always used."""
    varied: list[int] = field(default_factory=list)
    """Masks and positions that are varied, though their captured bits are no distribution."""
    in_range: list[int] = field(default_factory=list)
    """Tensors that no stress takes out of the captured distribution."""
    oracle: str = ""
    """Why eager in its own precision stands in for float64; empty where it need not."""
    notes: list[str] = field(default_factory=list)
    problem: str = ""


def adapted(variant: Variant) -> Variant:
    """A variant as the request states it, with what an earlier examination found in its recipes."""
    variant = _with_recipes(variant, variant.get("frozen", []), kind="constant")
    variant = _with_recipes(variant, variant.get("varied", []), kind="varied")
    return _with_recipes(variant, variant.get("in_range", []), in_range=True)


def examine(subject: Subject) -> tuple[Subject, Examination]:
    """The subject on inputs that eager takes, as few recipes changed as will do, and what there is to say of it."""
    found = Examination()
    subject = _on_fresh_inputs(subject, found)
    if not found.problem:
        subject = _varied(subject, found)
        subject = _under_stress(subject, found)
    if not found.problem:
        subject = _with_oracle(subject, found)
    return subject, found


def _on_fresh_inputs(subject: Subject, found: Examination) -> Subject:
    usual = nonfinite_share(subject, TRIALS[0])
    fresh = nonfinite_share(subject)
    if _works(fresh, usual):
        return subject
    what = fresh if isinstance(fresh, str) else f"NaN or infinities in {fresh:.0%} of its results"
    for indices in _choices(subject.variant):
        changed = subject.with_variant(_with_recipes(subject.variant, indices, kind="constant"))
        if _works(nonfinite_share(changed), usual):
            found.frozen = indices
            names = _names(subject.variant, indices)
            found.notes.append(f"fresh inputs made eager fail ({what}): captured values of {names} are used")
            return changed
    if isinstance(fresh, str):
        found.problem = f"eager fails on fresh inputs ({fresh}), so nothing can be held against it"
    else:
        found.notes.append(f"on fresh inputs eager gives {what}; there only their places are compared")
    return subject


def _varied(subject: Subject, found: Examination) -> Subject:
    """Masks and positions are varied where eager allows it: a kernel must not take the captured ones for granted."""
    usual = nonfinite_share(subject)
    for index, spec in enumerate(subject.variant["tensors"]):
        if index in found.frozen or not _may_vary(spec, subject.blob_root):
            continue
        changed = subject.with_variant(_with_recipes(subject.variant, [index], kind="varied"))
        if all(_works(nonfinite_share(changed), usual) for _ in range(_PROBES)):
            found.varied.append(index)
            found.notes.append(f"{_names(subject.variant, [index])} is tried with other values than the captured ones")
            subject = changed
    return subject


def _may_vary(spec: dict[str, Any], blob_root: str) -> bool:
    recipe = spec.get("recipe") or {"kind": "constant"}
    always_the_same = recipe["kind"] == "integers" and (
        recipe["low"] == recipe["high"]
        or recipe["high"] - recipe["low"] + 1 == (spec["shape"] or [1])[-1] * _is_sorted(recipe)
    )
    if not spec.get("sample") or not (recipe["kind"] == "constant" or always_the_same):
        return False
    captured = from_bytes(spec, blobs.read(blob_root, spec["sample"]))
    # An index out of bounds is an exception on a CPU; on a GPU it would end the process's use of it.
    return is_mask(captured) or (spec.get("device", "cpu") == "cpu" and is_position(captured))


def _is_sorted(recipe: dict[str, Any]) -> bool:
    return bool(recipe.get("sorted_last") and recipe.get("distinct_last"))


def _under_stress(subject: Subject, found: Examination) -> Subject:
    failure = _fails_under_stress(subject)
    if not failure:
        return subject
    styled = [index for index in range(len(subject.variant["tensors"])) if is_styled(subject.variant, index)]
    for indices in [*([index] for index in styled), styled]:
        changed = subject.with_variant(_with_recipes(subject.variant, indices, in_range=True))
        if indices and not _fails_under_stress(changed):
            found.in_range = indices
            names = _names(subject.variant, indices)
            found.notes.append(f"eager refuses stressed inputs ({failure}): {names} stays within captured values")
            return changed
    found.problem = f"eager fails on some of its inputs ({failure}), whatever is kept of the captured ones"
    return subject


def _with_oracle(subject: Subject, found: Examination) -> Subject:
    draw = next(draws(TRIALS[1], subject.variant, subject.where, subject.generator, subject.blob_root))
    image = subject.fresh.image()
    subject.fresh.place_values(image, draw.tensors)
    known = subject.expect(image, draw.blocks)
    if known.note or not _is_another_result(known):
        return subject
    found.oracle = "in float64 it computes something else"
    return subject.with_variant({**subject.variant, "oracle": found.oracle})


def _is_another_result(known: Expected) -> bool:
    for e, o in zip(known.narrow, known.wide, strict=True):
        if not e.is_floating_point():
            continue
        narrow, wide = e.double(), o.double()
        finite = torch.isfinite(narrow) & torch.isfinite(wide)
        error, size = (narrow - wide)[finite], wide[finite]
        limit = _ANOTHER_RESULT.get(e.dtype.itemsize, _ANOTHER_RESULT_WIDE)
        if error.numel() and float(error.pow(2).mean()) > limit**2 * float(size.pow(2).mean()):
            return True
    return False


def _with_recipes(variant: Variant, indices: Sequence[int], **changes: Any) -> Variant:
    tensors = list(variant["tensors"])
    for index in indices:
        tensors[index] = {**tensors[index], "recipe": {**(tensors[index].get("recipe") or {}), **changes}}
    return {**variant, "tensors": tensors}


def _choices(variant: Variant) -> Iterator[list[int]]:
    """Sets of tensors to keep as captured, never all that are drawn: one tensor, integers and masks first; all of
    these; all but one."""
    recipes = [spec.get("recipe") or {"kind": "constant"} for spec in variant["tensors"]]
    fresh = [index for index, recipe in enumerate(recipes) if recipe["kind"] != "constant"]
    kept = [index for index in fresh if variant["tensors"][index].get("sample")]
    exact = [index for index in kept if recipes[index]["kind"] != "quantiles"]
    ordered = [*exact, *(index for index in kept if index not in exact)]
    seen: list[list[int]] = []
    for choice in [*([index] for index in ordered), exact, *([i for i in kept if i != index] for index in kept)]:
        if choice and len(choice) < len(fresh) and choice not in seen:
            seen.append(choice)
            yield choice


def _works(share: float | str, usual: float | str) -> bool:
    if isinstance(share, str):
        return False
    return isinstance(usual, str) or share <= usual + MORE_NONFINITE


def nonfinite_share(subject: Subject, trial: str = TRIALS[1]) -> float | str:
    """The share of eager's floating results that are not finite on one draw, or how eager fails on it."""
    draw = next(draws(trial, subject.variant, subject.where, subject.generator, subject.blob_root))
    outputs = _attempt(lambda: subject.eager(draw.tensors))
    if isinstance(outputs, str):
        return outputs
    results = [tensor.float() for tensor in outputs if tensor.is_floating_point() and tensor.numel()]
    wrong = sum(int((~torch.isfinite(tensor)).sum()) for tensor in results)
    return wrong / max(sum(tensor.numel() for tensor in results), 1)


def _fails_under_stress(subject: Subject) -> str:
    """How eager fails on some draw of the stress trials, or on a timed one; empty if it takes them all."""
    for trial in TRIALS[2:4]:
        for draw in draws(trial, subject.variant, subject.where, subject.generator, subject.blob_root):
            outputs = _attempt(lambda tensors=draw.tensors: subject.eager(tensors))
            if isinstance(outputs, str):
                return outputs
    image = subject.fresh.image()
    subject.fresh.compose(image)
    outputs = _attempt(lambda: subject.eager(subject.inputs_of(image)))
    return outputs if isinstance(outputs, str) else ""


def _attempt(run: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor] | str:
    try:
        return run()
    except torch.OutOfMemoryError:
        raise
    except EAGER_FAILURES as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:100] if str(error) else ''}"


def _names(variant: Variant, indices: Sequence[int]) -> str:
    names = [
        next((a["name"] for a in variant["arguments"] if index in a["tensors"]), f"tensor {index}") for index in indices
    ]
    return ", ".join(f"`{name}`" for name in names)
