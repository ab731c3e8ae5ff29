"""Samples of tensors: taken before a call, kept as blobs while there is room, replaced by recipes beyond it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import torch

from . import blobs, recipes
from .tensors import extent, to_bytes

_CHUNK = 1 << 22


class Budget:
    """Bytes of samples that may still be stored; equal contents count once."""

    def __init__(self, blob_root: str, max_bytes: int) -> None:
        self.blob_root = blob_root
        self.left = max_bytes
        self.refused_bytes = 0
        self._known: set[str] = set()
        self._refused: set[str] = set()

    def has_room(self, size: int) -> bool:
        """Whether a tensor of so many bytes may be kept."""
        return size <= self.left

    def store(self, data: bytes, *, always: bool = False) -> str:
        """The digest of the stored bytes, or an empty string where they do not fit any more."""
        name = hashlib.sha256(data).hexdigest()
        if name in self._known:
            return name
        if len(data) > self.left and not always:
            self.refuse(name, len(data))
            return ""
        self._known.add(name)
        self.left -= len(data)
        return blobs.write(self.blob_root, data)

    def refuse(self, name: str, size: int) -> None:
        """Count bytes that are not kept, equal contents once."""
        if name not in self._refused:
            self._refused.add(name)
            self.refused_bytes += size


@dataclass
class Snapshot:
    """A tensor as it was: its digest, and its bytes or, where these do not fit, its recipe."""

    digest: str
    size: int
    data: bytes | None = None
    recipe: dict[str, Any] | None = None

    @classmethod
    def take(cls, tensor: torch.Tensor, budget: Budget) -> Snapshot:
        """The tensor now. A constant recipe is worthless without its sample, so that is kept whatever the budget."""
        size = extent(tensor) * tensor.element_size()
        if budget.has_room(size):
            data = to_bytes(tensor)
            return cls(hashlib.sha256(data).hexdigest(), size, data)
        recipe = recipes.describe(tensor)
        data = to_bytes(tensor) if recipe["kind"] == "constant" else None
        return cls(digest(tensor), size, data, recipe)


def digest(tensor: torch.Tensor) -> str:
    """SHA-256 of the bytes from the first to the last element, read in parts."""
    count = extent(tensor)
    hasher = hashlib.sha256()
    for start in range(0, count, _CHUNK):
        length = min(_CHUNK, count - start)
        hasher.update(to_bytes(tensor.detach().as_strided((length,), (1,), tensor.storage_offset() + start)))
    return hasher.hexdigest()
