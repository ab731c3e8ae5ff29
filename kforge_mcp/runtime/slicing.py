"""The oracle on some rows of a large call: float64 on all of it would cost more than everything else.

Allowed where eager gives the same rows when it is handed those rows alone, which is tried on every draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .inputs import BlockAxis, Blocks, is_styled

MOST_FLOPS = {"cpu": 1 << 32, "cuda": 1 << 38}
MOST_ELEMENTS = {"cpu": 1 << 25, "cuda": 1 << 29}
"""What the oracle may compute and hold of one call, by kind of device; about half a second of float64."""
_LEAST_ROWS = 4
"""Rows of each style."""
_BEYOND = 16
"""Where rows cannot be taken, the oracle may cost this many times as much; else there is none."""


@dataclass(frozen=True)
class Slicing:
    """Rows of a call, in order, along the axis of its blocks, which has `size` of them."""

    where: BlockAxis
    size: int
    rows: torch.Tensor
    choices: tuple[tuple[int, ...], ...]
    """Which inputs may be what is divided, likelier ones first."""

    def divides(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape has the rows."""
        return len(shape) == self.where.ndim and shape[self._axis] == self.size

    def take(self, tensor: torch.Tensor) -> torch.Tensor:
        """The rows of a tensor that has them, copied."""
        return tensor.index_select(self._axis, self.rows.to(tensor.device))

    def put(self, whole: torch.Tensor, part: torch.Tensor) -> torch.Tensor:
        """`whole` with these rows replaced."""
        return whole.index_copy(self._axis, self.rows.to(whole.device), part)

    def agrees(self, part: Sequence[torch.Tensor], whole: Sequence[torch.Tensor], tolerance: float) -> bool:
        """Whether results of the rows alone are those rows of the whole, up to `tolerance` times rounding."""
        if len(part) != len(whole):
            return False
        for one, other in zip(part, whole, strict=True):
            same = self.take(other) if self.divides(other.shape) else other
            if one.shape != same.shape or one.dtype is not same.dtype:
                return False
            if not (one.is_floating_point() or one.is_complex()):
                if not torch.equal(one, same):
                    return False
                continue
            wide = torch.complex128 if one.is_complex() else torch.float64
            a, b = one.to(wide), same.to(wide)
            size = b.abs().nan_to_num(0.0, 0.0, 0.0)
            row = size.pow(2).mean(-1, keepdim=True).sqrt() if size.ndim else size
            eps = torch.finfo(torch.float32 if one.is_complex() else one.dtype).eps
            close = (a - b).abs() <= tolerance * eps * torch.maximum(size, row)
            if not bool((close | (a == b) | (torch.isnan(a.abs()) & torch.isnan(b.abs()))).all()):
                return False
        return True

    @property
    def _axis(self) -> int:
        assert self.where.axis is not None
        return self.where.axis

    def __str__(self) -> str:
        return (
            f"the float64 oracle ran on {len(self.rows)} of {self.size} rows along axis {self._axis}; the others are "
            "held against eager in its own precision"
        )


def share(variant: dict[str, Any]) -> float:
    """The part of a call that the oracle may compute; above 1 there is room to spare."""
    specs = [*variant["tensors"], *variant["outputs"]]
    device = "cuda" if any(spec.get("device", "cpu").startswith("cuda") for spec in specs) else "cpu"
    elements = sum(math.prod(spec["shape"]) for spec in specs)
    return min(MOST_ELEMENTS[device] / max(elements, 1), MOST_FLOPS[device] / max(variant.get("flops", 0), 1))


def affordable(variant: dict[str, Any]) -> bool:
    """Whether the oracle may run on a whole call that no rows can be taken of."""
    return share(variant) * _BEYOND >= 1


def slicing(variant: dict[str, Any], blocks: Blocks, generator: torch.Generator) -> Slicing | None:
    """Random rows of every style for a call that is too large; None if it is not, or has no axis for them."""
    where = blocks.where
    part = share(variant)
    if part >= 1 or where.axis is None:
        return None
    largest = max(variant["outputs"], key=lambda spec: math.prod(spec["shape"]))
    size = largest["shape"][where.axis]
    styles = blocks.rows(size)
    found: list[torch.Tensor] = []
    for style in sorted(set(blocks.order)):
        mine = torch.nonzero(styles == style).flatten()
        count = min(len(mine), max(_LEAST_ROWS, int(len(mine) * part)))
        order = torch.randperm(len(mine), generator=generator, device=generator.device).cpu()
        found.append(mine[order[:count]])
    rows = torch.cat(found).sort().values
    if len(rows) >= size:
        return None
    alike = [
        index
        for index, spec in enumerate(variant["tensors"])
        if len(spec["shape"]) == where.ndim and spec["shape"][where.axis] == size
    ]
    styled = [index for index in alike if is_styled(variant, index)]
    choices = [tuple(styled), tuple(alike), *((index,) for index in alike)]
    return Slicing(where, size, rows, tuple(dict.fromkeys(choice for choice in choices if choice)))
