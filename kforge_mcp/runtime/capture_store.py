"""Samples of tensors: taken before a call, kept as blobs while there is room, replaced by recipes beyond it."""

from __future__ import annotations

import hashlib
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from . import blobs, recipes
from .device_digest import device_digest
from .tensors import extent, to_bytes

_CHUNK = 1 << 22
_SHARES = 8


class Contents:
    """The bytes of a tensor, held by the snapshots that have them."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data


class Budget:
    """Bytes of samples that may still be stored or held; equal contents count once.

    What snapshots hold counts too: calls contain calls, and each holds what it was given until it is over. No tensor
    gets more than an eighth of the whole: a table of embeddings would leave nothing for all that is computed with it.
    """

    def __init__(self, blob_root: str, max_bytes: int) -> None:
        self.blob_root = blob_root
        self.left = max_bytes
        self._largest = max_bytes // _SHARES
        self.refused_bytes = 0
        self._stored: dict[str, str] = {}
        self._held: weakref.WeakValueDictionary[str, Contents] = weakref.WeakValueDictionary()
        self._refused: set[str] = set()

    def has_room(self, size: int) -> bool:
        """Whether a tensor of so many bytes may be kept."""
        return size <= self._largest and size + sum(len(contents.data) for contents in self._held.values()) <= self.left

    def stored(self, digest: str) -> str:
        """The blob with the contents of this digest, or an empty string."""
        return self._stored.get(digest, "")

    def hold(self, digest: str, data: bytes | bytearray | None = None) -> Contents | None:
        """The contents of this digest if somebody holds them, else those given."""
        known = self._held.get(digest)
        if known is None and data is not None:
            known = self._held[digest] = Contents(data)
        return known

    def store(self, digest: str, contents: Contents, *, always: bool = False) -> str:
        """The blob with these contents, or an empty string where they do not fit any more."""
        if digest in self._stored:
            return self._stored[digest]
        size = len(contents.data)
        if size > self.left and not always:
            self.refuse(digest, size)
            return ""
        self.left -= size
        self._stored[digest] = blobs.write(self.blob_root, contents.data)
        return self._stored[digest]

    def refuse(self, digest: str, size: int) -> None:
        """Count bytes that are not kept, equal contents once."""
        if digest not in self._refused:
            self._refused.add(digest)
            self.refused_bytes += size


@dataclass
class Snapshot:
    """A tensor as it was: its digest, and its contents, where they are stored, or its recipe."""

    digest: str
    size: int
    contents: Contents | None = None
    recipe: dict[str, Any] | None = None

    @classmethod
    def take(cls, tensor: torch.Tensor, budget: Budget) -> Snapshot:
        """The tensor now. A constant recipe is worthless without its sample, so that is kept whatever the budget.

        What is on a device comes to the host only if it is not there yet and there is room for it.
        """
        size = extent(tensor) * tensor.element_size()
        data = to_bytes(tensor) if tensor.device.type == "cpu" and budget.has_room(size) else None
        name = digest(tensor) if data is None else hashlib.sha256(data).hexdigest()
        if budget.stored(name):
            return cls(name, size)
        contents = budget.hold(name)
        if contents is None and data is None and budget.has_room(size):
            data = to_bytes(tensor)
        if contents is not None or data is not None:
            return cls(name, size, budget.hold(name, data))
        recipe = recipes.describe(tensor)
        kept = budget.hold(name, to_bytes(tensor)) if recipe["kind"] == "constant" else None
        return cls(name, size, kept, recipe)


def digest(tensor: torch.Tensor) -> str:
    """A digest of the bytes from the first to the last element; on the host SHA-256, read in parts."""
    if tensor.device.type != "cpu":
        return device_digest(tensor)
    count = extent(tensor)
    hasher = hashlib.sha256()
    for start in range(0, count, _CHUNK):
        length = min(_CHUNK, count - start)
        hasher.update(to_bytes(tensor.detach().as_strided((length,), (1,), tensor.storage_offset() + start)))
    return hasher.hexdigest()
