"""One side's batch of calls: place it, run it, look at what it left behind."""

from __future__ import annotations

import ctypes
import mmap
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .arena import Slot, first_new
from .checks import Finding, plain_bytes
from .sides import EXPORT, PREPARE, Side, SideError

_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
_JITTER = 64
"""A slot begins at a random one of this many cache lines: no address is the same from call to call."""
_LINE = 64


def arena_bytes(slots: Sequence[Slot], calls: Sequence[int]) -> int:
    """Memory for the longest batch of any variant."""
    return max(stride(slot) * count for slot, count in zip(slots, calls, strict=True)) + 4096


def stride(slot: Slot) -> int:
    """Distance of consecutive slots of a batch, bytes."""
    return slot.size + _JITTER * _LINE


@dataclass(frozen=True)
class Bound:
    """How a variant is called: its slot, and for candidates the library and the arguments' places in a slot."""

    variant: int
    slot: Slot
    library: int
    arguments: tuple[tuple[str, Any], ...]
    in_place: dict[int, int]
    """Output index to the input whose place holds it, for candidates that change an input in place."""


def bind_arguments(bound: Sequence[dict[str, Any]], slot: Slot) -> tuple[tuple[str, Any], ...]:
    """Arguments as places within a slot. `bound` is the JSON of the control plane's `BoundArgument`s."""
    places = {"tensor": slot.inputs, "output": slot.outputs, "workspace": slot.workspaces}
    arguments: list[tuple[str, Any]] = []
    for argument in bound:
        if argument["kind"] in places:
            arguments.append(("pointer", places[argument["kind"]][argument["index"]].start))
        elif argument["kind"] == "null":
            arguments.append(("null", 0))
        else:
            value = argument["value"]
            arguments.append((argument["scalar_type"], float(value) if isinstance(value, str) else value))
    return tuple(arguments)


class Batch:
    """Some calls of one variant on one side. Outputs are views of shared memory: valid while the side is stopped."""

    def __init__(self, side: Side, bound: Bound, count: int, dice: random.Random, timeout_s: float) -> None:
        self._side = side
        self._bound = bound
        self._timeout_s = timeout_s
        step = stride(bound.slot)
        self._starts = [index * step + _LINE * dice.randrange(_JITTER) for index in range(count)]
        self.memories = [side.arena.slot(start, bound.slot) for start in self._starts]
        self.is_twin = not side.is_candidate
        self._touched = b""

    def prepare(self) -> str:
        """Announce the calls, before their inputs exist; returns the side's answer."""
        calls: list[dict[str, Any]] = []
        for start in self._starts:
            if self.is_twin:
                calls.append({"variant": self._bound.variant, "start": start})
            else:
                arguments = [
                    (kind, value + start if kind == "pointer" else value) for kind, value in self._bound.arguments
                ]
                calls.append({"library": self._bound.library, "arguments": arguments})
        return self._side.order(PREPARE, calls, self._timeout_s).decode(errors="replace")

    def run(self, images: Sequence[torch.Tensor], *, watched: bool = False) -> float:
        """Write the calls' images, run them, and have a twin lay out its results; returns seconds. `watched`: note
        which memory far from the calls' own is touched meanwhile."""
        for memory, image in zip(self.memories, images, strict=True):
            memory.copy_(image)
        self._touched = self._side.arena.touched() if watched else b""
        seconds = self._side.go(self._timeout_s)
        if self.is_twin:
            problem = self._side.order(EXPORT, None, self._timeout_s)
            if problem:
                raise SideError(Finding("internal_error", problem.decode(errors="replace")))
        return seconds

    def outputs(self) -> list[list[torch.Tensor]]:
        """The outputs of every call, where they lie; booleans as bytes."""
        slot = self._bound.slot
        in_place = {} if self.is_twin else self._bound.in_place
        places = [slot.inputs[in_place[i]] if i in in_place else place for i, place in enumerate(slot.outputs)]
        return [[plain_bytes(place.view(memory)) for place in places] for memory in self.memories]

    def trespass(self, images: Sequence[torch.Tensor]) -> Finding | None:
        """What the calls changed that was not theirs: inputs, or bytes around the tensors."""
        for memory, image in zip(self.memories, images, strict=True):
            finding = trespass(self._bound, memory, image)
            if finding:
                return finding
        if self._touched and (page := first_new(self._touched, self._side.arena.touched())) is not None:
            distance = page * mmap.PAGESIZE - (self._starts[-1] + self._bound.slot.size)
            return Finding("out_of_bounds", f"memory about {distance} bytes past the last tensor was touched")
        return None


def trespass(bound: Bound, memory: torch.Tensor, image: torch.Tensor) -> Finding | None:
    """What differs from the image where it must not, both in the host's memory."""
    return _inputs_changed(bound, memory, image) or _guards_changed(bound.slot, memory, image)


def _inputs_changed(bound: Bound, memory: torch.Tensor, image: torch.Tensor) -> Finding | None:
    slot = bound.slot
    end = slot.input_bytes
    if not bound.in_place and _equal(memory, image, 0, end):
        return None
    changed = memory[:end] != image[:end]
    for index in bound.in_place.values():
        place = slot.inputs[index]
        owned = torch.zeros(place.size // place.dtype.itemsize, dtype=torch.bool)
        owned.as_strided(place.shape, place.stride).fill_(True)
        changed[place.start : place.start + place.size] &= ~owned.repeat_interleave(place.dtype.itemsize)
    if not bool(changed.any()):
        return None
    first = int(torch.nonzero(changed)[0])
    for place in slot.inputs:
        if place.start <= first < place.start + place.size:
            count = int(changed[place.start : place.start + place.size].sum())
            return Finding("input_mutated", f"`{place.name}` was changed ({count} bytes) though it is an input")
    return Finding("out_of_bounds", "memory beside an input was written" + _beside(slot, first))


def _guards_changed(slot: Slot, memory: torch.Tensor, image: torch.Tensor) -> Finding | None:
    for start, stop in slot.guards():
        if not _equal(memory, image, start, stop):
            first = start + int(torch.nonzero(memory[start:stop] != image[start:stop])[0])
            return Finding("out_of_bounds", "memory beside an output or workspace was written" + _beside(slot, first))
    for place in slot.outputs:
        if place.has_gaps and place.size:
            owned = torch.zeros(place.size // place.dtype.itemsize, dtype=torch.bool)
            owned.as_strided(place.shape, place.stride).fill_(True)
            changed = (memory != image)[place.start : place.start + place.size]
            if bool((changed & ~owned.repeat_interleave(place.dtype.itemsize)).any()):
                return Finding("out_of_bounds", f"memory between the elements of `{place.name}` was written")
    return None


def _equal(memory: torch.Tensor, image: torch.Tensor, start: int, stop: int) -> bool:
    return _compare(memory.data_ptr() + start, image.data_ptr() + start, stop - start) == 0


def _beside(slot: Slot, position: int) -> str:
    """How far, in bytes, from the nearest tensor."""
    places = (*slot.inputs, *slot.outputs, *slot.workspaces)
    place = min(places, key=lambda p: max(p.start - position, position - p.start - p.size + 1))
    if position < place.start:
        return f": {place.start - position} bytes before `{place.name}`"
    return f": {position - place.start - place.size + 1} bytes past the end of `{place.name}`"
