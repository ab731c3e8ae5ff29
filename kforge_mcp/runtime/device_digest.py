"""Digests of device tensors, computed where they lie: a few words come to the host, never the contents.

Every 8-byte word is mixed with its place by two rounds of xor-shift-multiply (the finaliser of SplitMix64: Steele, Lea,
Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014) and two sums of the mixed words, modulo 2^64, are
kept. They tell equal contents from different ones; they are no defence against contents made to collide.
"""

from __future__ import annotations

import torch

from .tensors import as_bytes, extent

_CHUNK_BYTES = 1 << 25
_WORD = 8
_GAMMA, _FIRST, _SECOND = (value - (1 << 64) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
_OTHER = 0x2545F4914F6CDD1D


def device_digest(tensor: torch.Tensor) -> str:
    """A digest of the bytes from the first to the last element, with about 200 MiB of scratch on the device."""
    count = extent(tensor)
    raw = as_bytes(tensor.detach().as_strided((count,), (1,), tensor.storage_offset()))
    sums = torch.zeros(2, dtype=torch.int64, device=tensor.device)
    for start in range(0, raw.numel(), _CHUNK_BYTES):
        sums += _mixed(raw[start : start + _CHUNK_BYTES], start // _WORD)
    low, high = (value & (1 << 64) - 1 for value in sums.tolist())
    return f"{raw.numel():x}-{low:016x}{high:016x}"


def _mixed(part: torch.Tensor, first_word: int) -> torch.Tensor:
    """The two sums over one part, whose first word is the tensor's `first_word`-th."""
    padding = -part.numel() % _WORD
    if padding or part.data_ptr() % _WORD:
        aligned = part.new_zeros(part.numel() + padding)
        aligned[: part.numel()] = part
        part = aligned
    words = part.view(torch.int64)
    mixed = torch.arange(first_word + 1, first_word + 1 + words.numel(), device=part.device).mul_(_GAMMA).add_(words)
    mixed.bitwise_xor_(mixed >> 30).mul_(_FIRST)
    mixed.bitwise_xor_(mixed >> 27).mul_(_SECOND)
    mixed.bitwise_xor_(mixed >> 31)
    low = mixed.sum()
    return torch.stack([low, mixed.mul_(_OTHER).bitwise_xor_(mixed >> 29).mul_(_FIRST).sum()])
