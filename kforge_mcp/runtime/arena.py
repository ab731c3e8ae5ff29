"""Where the tensors of a call lie: guarded slots in memory shared with one side.

A slot is `guard, inputs, guard, ..., guard, outputs, guard, ..., workspaces, guard`. The referee composes it as an
image in memory of its own and copies it whole, poison and guards included, so both sides are treated alike.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .tensors import DTYPES

_libc = ctypes.CDLL(None)
GUARD = 4096
_LINE = 64


@dataclass(frozen=True)
class Place:
    """Bytes `start` to `start + size` of a slot, holding a tensor of this layout (in elements)."""

    start: int
    size: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    name: str = ""
    """As the candidate calls it."""

    def flat(self, memory: torch.Tensor) -> torch.Tensor:
        """All elements from the first to the last in memory, gaps included, as a vector."""
        return memory[self.start : self.start + self.size].view(self.dtype)

    def view(self, memory: torch.Tensor) -> torch.Tensor:
        """The tensor in a slot's memory."""
        if self.size == 0:
            return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=memory.device)
        flat = self.flat(memory)
        return flat.as_strided(self.shape, self.stride, flat.storage_offset())

    @property
    def has_gaps(self) -> bool:
        """Whether some bytes between the first and the last element belong to no element."""
        distinct = 1
        for size, step in zip(self.shape, self.stride, strict=True):
            distinct *= size if step else 1
        return self.size != distinct * self.dtype.itemsize


@dataclass(frozen=True)
class Slot:
    """The layout of one call."""

    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    workspaces: tuple[Place, ...]
    zeroed: tuple[bool, ...]
    """Of each workspace: whether it is handed over as zeros."""
    input_bytes: int
    """Bytes of the first part, that no candidate may change."""
    size: int

    def guards(self) -> list[tuple[int, int]]:
        """The parts behind the inputs that belong to no tensor, as `(start, stop)`."""
        edges = [(self.input_bytes, self.input_bytes)]
        edges += sorted((p.start, p.start + p.size) for p in (*self.outputs, *self.workspaces))
        edges.append((self.size, self.size))
        return [(left[1], right[0]) for left, right in itertools.pairwise(edges) if right[0] > left[1]]


def place_call(variant: dict[str, Any], workspaces: Sequence[dict[str, Any]] = (), line: int = _LINE) -> Slot:
    """Lay a variant's call out. Tensors of one storage keep their distances; addresses modulo 64 are the captured.

    A tensor captured at a multiple of 64 is put at a multiple of `line`, as the device's own allocator does it.
    """
    guard = _guard(variant)
    cursor = guard
    names = _input_names(variant)
    inputs: list[Place | None] = [None] * len(variant["tensors"])
    for group in _storages(variant["tensors"]):
        first = min(group, key=lambda index: _origin(variant["tensors"][index]))
        base_spec = variant["tensors"][first]
        start = _aligned(cursor, base_spec["alignment"], line) - _origin(base_spec)
        for index in group:
            spec = variant["tensors"][index]
            inputs[index] = _place(spec, start + _origin(spec), names.get(index, f"tensor {index}"))
            cursor = max(cursor, start + _origin(spec) + _extent(spec))
        cursor += guard
    input_bytes = cursor = _aligned(cursor, 0, line)
    cursor += guard
    outputs: list[Place] = []
    for index, spec in enumerate(variant["outputs"]):
        name = f"out{index}" if len(variant["outputs"]) > 1 else "out"
        outputs.append(_place(spec, _aligned(cursor, spec["alignment"], line), name))
        cursor = outputs[-1].start + outputs[-1].size + guard
    scratch: list[Place] = []
    for workspace in workspaces:
        scratch.append(_place(_dense(workspace), _aligned(cursor, 0, line), workspace.get("name", "a workspace")))
        cursor = scratch[-1].start + scratch[-1].size + guard
    zeroed = tuple(workspace.get("init") == "zero" for workspace in workspaces)
    placed = tuple(place for place in inputs if place is not None)
    return Slot(placed, tuple(outputs), tuple(scratch), zeroed, input_bytes, _aligned(cursor, 0, line))


class Arena:
    """Anonymous shared memory between the referee and one side, reserved at once and touched as it is needed."""

    def __init__(self, size: int) -> None:
        self.size = size
        end = _aligned(size, 0)
        self._map = mmap.mmap(-1, end + _LINE)
        whole = torch.frombuffer(self._map, dtype=torch.uint8)
        self.memory = whole[:size]
        self.refused_call = whole[end : end + 4].view(torch.int32)
        """1 + the number of the system call that ended the side; 0 if there was none, or it is not known."""

    def touched(self) -> bytes:
        """For each page whether it has memory, which it gets when either process first reads or writes it; empty where
        the system does not say. See mincore(2)."""
        pages = -(-self.size // mmap.PAGESIZE)
        state = ctypes.create_string_buffer(pages)
        address = ctypes.c_void_p(self.memory.data_ptr())
        return state.raw[:pages] if _libc.mincore(address, ctypes.c_size_t(self.size), state) == 0 else b""

    def slot(self, start: int, slot: Slot) -> torch.Tensor:
        """The memory of a slot that begins at byte `start`."""
        return self.memory[start : start + slot.size]


def first_new(before: bytes, after: bytes) -> int | None:
    """The first page that was touched since; None if there is none."""
    if before == after:
        return None
    return next((page for page, (old, new) in enumerate(zip(before, after, strict=False)) if new & ~old & 1), None)


def blank(size: int, device: torch.device | str = "cpu") -> torch.Tensor:
    """`size` uninitialised bytes of private memory, aligned to 64."""
    raw = torch.empty(size + _LINE, dtype=torch.uint8, device=device)
    start = -raw.data_ptr() % _LINE
    return raw[start : start + size]


def _guard(variant: dict[str, Any]) -> int:
    """A guard holds the longest row twice over, so that an index off by one row still lands in it."""
    rows = [
        spec["shape"][-1] * DTYPES[spec["dtype"]].itemsize
        for spec in (*variant["tensors"], *variant["outputs"])
        if spec["shape"]
    ]
    return _aligned(min(max([GUARD, *(2 * row for row in rows)]), 1 << 18), 0)


def _storages(specs: Sequence[dict[str, Any]]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for index, spec in enumerate(specs):
        groups.setdefault(spec.get("storage_id", index), []).append(index)
    return list(groups.values())


def _origin(spec: dict[str, Any]) -> int:
    return spec.get("storage_offset", 0) * DTYPES[spec["dtype"]].itemsize


def _extent(spec: dict[str, Any]) -> int:
    if 0 in spec["shape"]:
        return 0
    last = sum((size - 1) * step for size, step in zip(spec["shape"], spec["stride"], strict=True))
    return (last + 1) * DTYPES[spec["dtype"]].itemsize


def _place(spec: dict[str, Any], start: int, name: str) -> Place:
    return Place(start, _extent(spec), DTYPES[spec["dtype"]], tuple(spec["shape"]), tuple(spec["stride"]), name)


def _input_names(variant: dict[str, Any]) -> dict[int, str]:
    """The candidate's name of each tensor, by its index."""
    names: dict[int, str] = {}
    for argument in variant.get("arguments", []):
        for position, index in enumerate(argument["tensors"]):
            several = argument["kind"] == "tensors"
            names.setdefault(index, f"{argument['name']}[{position}]" if several else argument["name"])
    return names


def _dense(workspace: dict[str, Any]) -> dict[str, Any]:
    stride: list[int] = []
    step = 1
    for size in reversed(workspace["shape"]):
        stride.insert(0, step)
        step *= size
    return {"dtype": workspace["dtype"], "shape": workspace["shape"], "stride": stride}


def _aligned(position: int, alignment: int, line: int = _LINE) -> int:
    """The first position at or after this one that is `alignment` modulo `line`."""
    return position + (alignment - position) % line
