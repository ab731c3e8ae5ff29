"""Where the calls of one side lie on the device: guarded slots at addresses of their own, and what calls left there."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import torch

from ..arena import Slot, place_call
from ..batch import Bound, trespass
from ..checks import Finding

LINE = 512
"""What torch's allocator aligns to: a slot's tensors begin at such an address unless captured elsewhere."""
_JITTER = 64
_WORD = 8


def call_slot(variant: dict[str, Any]) -> Slot:
    """The layout of a call without workspaces, for both sides."""
    return place_call(variant, (), LINE)


def workspace_slot(workspaces: Sequence[dict[str, Any]]) -> Slot:
    """The layout of a candidate's workspaces, in memory of their own."""
    return place_call({"tensors": [], "outputs": [], "arguments": []}, workspaces, LINE)


def memory_for(slot: Slot, device: torch.device, dice: random.Random) -> torch.Tensor:
    """Device memory for a slot that begins at a random one of 64 lines."""
    raw = torch.empty(slot.size + _JITTER * LINE, dtype=torch.uint8, device=device)
    start = LINE * dice.randrange(_JITTER) - raw.data_ptr() % LINE
    start += LINE if start < 0 else 0
    return raw[start : start + slot.size]


class Trespass:
    """Looks for what calls changed that was not theirs: inputs, and bytes around the tensors."""

    def __init__(self, slot: Slot, in_place: dict[int, int]) -> None:
        self._bound = Bound(0, slot, 0, (), in_place)
        self._slow = bool(in_place) or any(place.has_gaps for place in slot.outputs)
        guards = slot.guards()
        self._spans: list[tuple[int, int]] = []
        for start, stop in [(0, slot.input_bytes), *guards]:
            if self._spans and self._spans[-1][1] == start:
                start = self._spans.pop()[0]
            if stop > start:
                self._spans.append((start, stop))

    def find(self, memory: torch.Tensor, image: torch.Tensor) -> Finding | None:
        """The first byte that differs from the image where it must not, told by the place it lies beside."""
        if not self._slow:
            differs = [_differs(memory[start:stop], image[start:stop]) for start, stop in self._spans]
            if not differs or not bool(torch.stack(differs).any()):
                return None
        return trespass(self._bound, memory.cpu(), image.cpu())


def _differs(memory: torch.Tensor, image: torch.Tensor) -> torch.Tensor:
    """Whether any byte differs, as a tensor, so that nothing waits for it yet. Compares words where it can."""
    size = len(memory) // _WORD * _WORD
    aligned = all(part.storage_offset() % _WORD == 0 for part in (memory, image))
    if aligned and size:
        whole = (memory[:size].view(torch.int64) != image[:size].view(torch.int64)).any()
        if size == len(memory):
            return whole
        return whole | (memory[size:] != image[size:]).any()
    return (memory != image).any()
