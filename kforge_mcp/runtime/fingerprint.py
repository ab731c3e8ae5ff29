"""Checks of timed outputs against eager's: sampled positions and random-sign projections, for every timed pair.

Positions, 8,192 seeded ones of every output (all of a smaller one):
`|c - e| <= 5 max|e - o| + f eps max(|e|, rms of e's row)`. Projections: the root mean square over 64 of the
difference's projections, divided by sqrt(numel), `<= 1.5 ((1 + m) rmse(e, o) + f eps rms(o))`, per style of rows.
Eager's errors come from the trials in the same style. Both outputs are in the referee's memory, so the projections
are taken of their difference: they are linear, and so lose nothing to cancellation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from .checks import (
    Errors,
    Finding,
    check_nonfinite,
    consistent,
    describe_position,
    multiple,
    real_parts,
    row_rms,
    same_bits,
    slack,
)
from .inputs import Blocks

POSITIONS = 8192
PROJECTIONS = 64


@dataclass(frozen=True)
class _Rows:
    """The rows, along the last dimension, of one output of all calls of a batch: `styles` numbers `names`."""

    names: list[str]
    styles: torch.Tensor
    calls: int


class Fingerprints:
    """Compares the outputs of timed batches with eager's; one for all pairs of a variant."""

    def __init__(self, errors: Sequence[dict[str, Errors]], longest: int, seed: int) -> None:
        self._errors = errors
        self._longest = longest
        self._dice = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed & (2**63 - 1))
        self._signs = torch.empty(0)
        self._along: dict[tuple[tuple[int, ...], tuple[int, ...]], torch.Tensor] = {}

    def compare(
        self,
        candidate: Sequence[Sequence[torch.Tensor]],
        eager: Sequence[Sequence[torch.Tensor]],
        blocks: Sequence[Blocks],
    ) -> Finding | None:
        """The first output of some call of a batch that differs beyond tolerance, or None. Outputs are by call."""
        for index in range(len(candidate[0])):
            c = torch.stack([outputs[index] for outputs in candidate])
            e = torch.stack([outputs[index] for outputs in eager])
            if c.numel() == 0:
                continue
            if c.is_floating_point() or c.is_complex():
                finding = self._compare(c, e, self._errors[index], blocks)
            else:
                finding = None if same_bits(c, e) else _differs(c, e)
            if finding:
                return finding.during(f"out{index}" if len(candidate[0]) > 1 else "out")
        return None

    def _compare(
        self, c: torch.Tensor, e: torch.Tensor, errors: dict[str, Errors], blocks: Sequence[Blocks]
    ) -> Finding | None:
        rows = self._rows(c.shape[1:], blocks, errors)
        if c.is_complex():
            c, e = (consistent(real_parts(t)) for t in (c, e))
        wide = torch.float64 if c.dtype is torch.float64 else torch.float32
        tolerance = slack(c.dtype, self._longest)
        if c.dtype is not wide:
            c, e = c.to(wide), e.to(wide)
        difference = c - e
        if not math.isfinite(float(difference.sum())):
            misplaced = check_nonfinite(c, e)
            if misplaced:
                return misplaced
            difference = torch.nan_to_num(difference, nan=0.0, posinf=0.0, neginf=0.0)
        finding = self._positions(c, e, difference, errors, rows, tolerance)
        return finding or self._projections(difference, errors, rows, tolerance)

    def _positions(
        self,
        c: torch.Tensor,
        e: torch.Tensor,
        difference: torch.Tensor,
        errors: dict[str, Errors],
        rows: _Rows,
        tolerance: float,
    ) -> Finding | None:
        width = c.shape[-1] if c.ndim > 1 else 1
        largest = torch.tensor([5 * errors[name].largest for name in rows.names], dtype=c.dtype)[rows.styles]
        rms = row_rms(e, 1).expand(*e.shape[:-1], 1).reshape(-1) if c.ndim > 1 else e.abs()
        size = c.numel() // rows.calls
        if size <= POSITIONS:
            magnitude = torch.maximum(e.reshape(-1, width).abs(), rms[:, None])
            allowed = (largest[:, None] + tolerance * magnitude).reshape(-1)
            chosen, gap = None, difference.reshape(-1).abs()
        else:
            picks = torch.randint(0, size, (rows.calls, POSITIONS), generator=self._generator)
            chosen = (picks + size * torch.arange(rows.calls)[:, None]).reshape(-1)
            row = chosen // width
            allowed = largest[row] + tolerance * torch.maximum(e.reshape(-1)[chosen].abs(), rms[row])
            gap = difference.reshape(-1)[chosen].abs()
        wrong = gap > torch.nan_to_num(allowed)
        if not bool(wrong.any()):
            return None
        worst = int(torch.where(wrong, gap - torch.nan_to_num(allowed), 0.0).argmax())
        place = worst if chosen is None else int(chosen[worst])
        return Finding(
            "wrong_result",
            f"{_position(c, place)} is {float(c.reshape(-1)[place]):.6g}, eager gives "
            f"{float(e.reshape(-1)[place]):.6g}; difference {float(gap[worst]):.3g}, allowed "
            f"{float(allowed[worst]):.3g}; {int(wrong.sum())} of {len(gap)} elements looked at are beyond tolerance",
        )

    def _projections(
        self, difference: torch.Tensor, errors: dict[str, Errors], rows: _Rows, tolerance: float
    ) -> Finding | None:
        width = difference.shape[-1] if difference.ndim > 1 else 1
        matrix = difference.reshape(-1, width)
        per_call = matrix.shape[0] // rows.calls
        projected = (matrix @ self._draw_signs(width, matrix.dtype)).view(rows.calls, per_call, PROJECTIONS)
        projected = (projected * self._draw_signs(per_call, matrix.dtype)).view(-1, PROJECTIONS)
        count = len(rows.names)
        groups = rows.styles + count * torch.arange(rows.calls).repeat_interleave(per_call)
        sums = projected.new_zeros(count * rows.calls, PROJECTIONS).index_add_(0, groups, projected)
        sizes = torch.bincount(groups, minlength=count * rows.calls) * width
        measured = (sums.pow(2).mean(1) / sizes.clamp(min=1)).sqrt().view(rows.calls, count)
        for style, name in enumerate(rows.names):
            known = errors[name]
            m = multiple(int(sizes.view(rows.calls, count)[:, style].max()))
            limit = 1.5 * ((1 + m) * known.rmse + tolerance * known.rms)
            largest = float(measured[:, style].max())
            if largest > limit:
                return Finding(
                    "wrong_result",
                    f"rows of style `{name}` differ from eager's by {largest:.3g} (root mean square, by "
                    f"{PROJECTIONS} random projections), allowed {limit:.3g}",
                )
        return None

    def _rows(self, shape: torch.Size, blocks: Sequence[Blocks], errors: dict[str, Errors]) -> _Rows:
        names = list(errors)
        return _Rows(names, torch.cat([self._styles(shape, block, names) for block in blocks]), len(blocks))

    def _styles(self, shape: torch.Size, blocks: Blocks, names: list[str]) -> torch.Tensor:
        key = (tuple(shape), blocks.order)
        if key not in self._along:
            rows = math.prod(shape[:-1]) if shape else 1
            parts = blocks.parts(shape)
            if parts[0][1] is None:
                self._along[key] = torch.full((rows,), names.index(parts[0][0]))
            else:
                axis = blocks.where.axis
                assert axis is not None
                along = torch.empty(shape[axis], dtype=torch.int64)
                for name, part in parts:
                    along[part] = names.index(name)
                view = [1] * (len(shape) - 1)
                view[axis] = -1
                self._along[key] = along.view(view).expand(shape[:-1]).reshape(-1)
        return self._along[key]

    def _draw_signs(self, length: int, dtype: torch.dtype) -> torch.Tensor:
        needed = length * PROJECTIONS
        if self._signs.numel() < 2 * needed or self._signs.dtype is not dtype:
            bits = torch.randint(0, 2, (2 * needed + 4096,), dtype=torch.int8, generator=self._generator)
            self._signs = (bits * 2 - 1).to(dtype)
        start = self._dice.randrange(self._signs.numel() - needed + 1)
        return self._signs[start : start + needed].view(length, PROJECTIONS)


def _position(batch: torch.Tensor, place: int) -> str:
    """The position within its call of an element of a batch."""
    call = batch[0]
    return describe_position(call, place % max(call.numel(), 1))


def _differs(c: torch.Tensor, e: torch.Tensor) -> Finding:
    wrong = torch.nonzero((c != e).reshape(-1)).flatten()
    first = int(wrong[0]) if len(wrong) else 0
    return Finding(
        "wrong_result",
        f"{_position(c, first)} is {c.reshape(-1)[first].item()}, eager gives exactly "
        f"{e.reshape(-1)[first].item()}; {len(wrong)} of {c.numel()} elements differ",
    )
