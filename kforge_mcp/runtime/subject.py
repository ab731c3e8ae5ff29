"""One variant under judgement: its layout, its eager, its fresh inputs, and what the trials learn about it."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from .arena import Slot
from .batch import Bound
from .checks import Errors, eager_errors
from .freshness import FreshInputs
from .inputs import Blocks, block_axis
from .oracle import Expected, expected
from .reference import Reference
from .slicing import affordable, slicing
from .values import flatten

_MOST_DRAWS, _ENOUGH = 8, 1 << 19
EAGER_FAILURES = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, KeyError, AssertionError)
"""What eager raises on inputs that it does not take."""


@dataclass
class Subject:
    """A variant and what is known of it. Everything here is private to the referee."""

    index: int
    variant: dict[str, Any]
    slot: Slot
    bound: Bound
    reference: Reference
    blob_root: str
    device: str = "cpu"
    errors: list[dict[str, Errors]] = field(default_factory=list)
    longest: int = 0
    notes: list[str] = field(default_factory=list)
    calls_per_batch: int = 1

    def __post_init__(self) -> None:
        self.where = block_axis(self.variant)
        self.generator = torch.Generator(self.device).manual_seed(secrets.randbits(63))
        seed = secrets.randbits(63)
        self.fresh = FreshInputs(self.variant, self.slot, self.where, seed, self.blob_root, self.device)

    def eager(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """Eager's flat results on the variant's tensors."""
        return flatten(self.reference.call(tensors, self.variant["call"]))

    def inputs_of(self, image: torch.Tensor) -> list[torch.Tensor]:
        """The inputs in an image, as views."""
        return [place.view(image) for place in self.slot.inputs]

    def expect(self, image: torch.Tensor, blocks: Blocks, *, learn: bool = True) -> Expected:
        """What eager and the oracle say of an image's inputs; eager's errors are learnt from it unless told not to."""
        with torch.no_grad():
            result = expected(
                self.eager,
                [_kept(view) for view in self.inputs_of(image)],
                own=self.variant.get("oracle", ""),
                slicing=slicing(self.variant, blocks, self.generator),
                affordable=affordable(self.variant),
            )
        self.longest = max(self.longest, result.longest)
        if result.note:
            self.note(result.note)
        if learn:
            self.learn(eager_errors(result, blocks))
        return result

    def nearby(self, image: torch.Tensor, known: Expected) -> Expected | None:
        """What the oracle says of an image's inputs moved by one rounding each, in the place of eager's result: an
        honest kernel whose sums are exact for such inputs may be as far from `known`. 16-bit inputs stay as they are,
        a rounding of theirs being more than a kernel may lose; integers and booleans stay eager's. None where the
        oracle is not float64 throughout."""
        if known.note or known.slicing:
            return None
        with torch.no_grad():
            moved = [_moved(_kept(view), self.generator) for view in self.inputs_of(image)]
            result = expected(self.eager, moved)
        if result.note:
            return None
        pairs = zip(result.wide, known.narrow, strict=True)
        near = [w.to(n.dtype) if n.is_floating_point() or n.is_complex() else n for w, n in pairs]
        return replace(known, narrow=near)

    def with_variant(self, variant: dict[str, Any]) -> Subject:
        """The same subject on other inputs; notes are shared, errors are learnt anew."""
        return replace(self, variant=variant, errors=[], longest=0, calls_per_batch=1)

    def note(self, text: str) -> None:
        """Something to know of this variant's judgement, said once."""
        if text not in self.notes:
            self.notes.append(text)

    def learn_timed_draws(self) -> None:
        """Measure eager's errors on draws as timed calls have them: of a small output one trial shows too few."""
        numel = max(place.size // place.dtype.itemsize for place in self.slot.outputs)
        image = self.fresh.image()
        for _ in range(max(1, min(_MOST_DRAWS, _ENOUGH // max(numel, 1)))):
            self.expect(image, self.fresh.compose(image))

    def learn(self, errors: Sequence[dict[str, Errors]]) -> None:
        """Keep eager's largest errors by output and style."""
        if not self.errors:
            self.errors = [{} for _ in errors]
        for known, new in zip(self.errors, errors, strict=True):
            for style, measured in new.items():
                known.setdefault(style, Errors()).merge(measured)

    def label(self) -> str:
        """The variant in a few words, for messages."""
        shapes = ", ".join("x".join(map(str, spec["shape"])) or "scalar" for spec in self.variant["tensors"][:3])
        kinds = sorted({spec["dtype"] for spec in self.variant["tensors"]})
        return f"variant {self.variant['variant_id']} ({shapes}; {'/'.join(kinds)})"


def in_place(
    reference: Reference, variant: dict[str, Any], slot: Slot, blob_root: str, device: str = "cpu"
) -> dict[int, int]:
    """Which outputs of eager are inputs that it changed: output index to input index."""
    fresh = FreshInputs(variant, slot, block_axis(variant), secrets.randbits(63), blob_root, device)
    image = fresh.image()
    fresh.compose(image)
    inputs = [place.view(image) for place in slot.inputs]
    outputs = flatten(reference.call(inputs, variant["call"]))
    addresses = {(tensor.data_ptr(), tensor.numel()): index for index, tensor in enumerate(inputs) if tensor.numel()}
    return {
        number: addresses[(tensor.data_ptr(), tensor.numel())]
        for number, tensor in enumerate(outputs)
        if (tensor.data_ptr(), tensor.numel()) in addresses
    }


def _moved(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every element of 32 bits or more moved up, down or not at all by one rounding."""
    if values.dtype not in (torch.float32, torch.float64):
        return values
    ways = torch.randint(-1, 2, values.shape, generator=generator, device=values.device, dtype=values.dtype)
    return values * (1 + ways * torch.finfo(values.dtype).eps)


def _kept(view: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, stride 0 included: eager may choose its path by layout."""
    if view.numel() == 0 or all(step for step in view.stride()):
        return view.clone(memory_format=torch.preserve_format)
    count = 1 + sum((size - 1) * step for size, step in zip(view.shape, view.stride(), strict=True))
    flat = view.as_strided((count,), (1,), view.storage_offset()).clone()
    return flat.as_strided(view.shape, view.stride(), 0)
