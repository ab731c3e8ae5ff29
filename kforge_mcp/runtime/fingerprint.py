"""Checks of timed outputs against eager's: sampled positions and random-sign projections, for every timed pair.

Positions: `|c - e| <= 5 max|e - o| + f eps max(|e|, rms of e's row)`. Projections: the root mean square over 64 of
the difference's projections, divided by sqrt(numel), `<= 1.5 ((1 + m) rmse(e, o) + f eps rms(o))`. Eager's errors
come from the trials in the same style. Where both outputs are in the referee's memory the projections are taken of
their difference: they are linear, and so lose nothing to cancellation.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import torch

from .checks import Errors, Finding, check_nonfinite, describe_position, multiple, row_rms, same_bits, slack
from .inputs import Blocks

POSITIONS = 8192
PROJECTIONS = 64


class Fingerprints:
    """Compares a timed call's outputs with eager's; one for all pairs of a variant."""

    def __init__(self, errors: Sequence[dict[str, Errors]], longest: int, seed: int) -> None:
        self._errors = errors
        self._longest = longest
        self._dice = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed & (2**63 - 1))
        self._signs = torch.empty(0)

    def compare(
        self, candidate: Sequence[torch.Tensor], eager: Sequence[torch.Tensor], blocks: Blocks
    ) -> Finding | None:
        """The first output that differs from eager's beyond tolerance, or None."""
        for index, (c, e) in enumerate(zip(candidate, eager, strict=True)):
            label = f"out{index}" if len(candidate) > 1 else "out"
            if c.numel() == 0:
                continue
            if not (c.is_floating_point() or c.is_complex()):
                finding = None if same_bits(c, e) else _differs(c, e)
            else:
                finding = self._compare(c, e, self._errors[index], blocks)
            if finding:
                return finding.during(label)
        return None

    def _compare(self, c: torch.Tensor, e: torch.Tensor, errors: dict[str, Errors], blocks: Blocks) -> Finding | None:
        if c.is_complex():
            c, e = torch.view_as_real(c), torch.view_as_real(e)
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
        return self._positions(c, e, difference, errors, blocks, tolerance) or self._projections(
            difference, errors, blocks, tolerance
        )

    def _positions(
        self,
        c: torch.Tensor,
        e: torch.Tensor,
        difference: torch.Tensor,
        errors: dict[str, Errors],
        blocks: Blocks,
        tolerance: float,
    ) -> Finding | None:
        width = c.shape[-1] if c.ndim else 1
        chosen = torch.randint(0, c.numel(), (POSITIONS,), generator=self._generator)
        if c.numel() <= POSITIONS:
            chosen = torch.arange(c.numel())
        rms = row_rms(e).reshape(-1)
        largest = _per_row(c, errors, blocks, lambda e: 5 * e.largest)
        at = e.reshape(-1)[chosen].abs()
        row = chosen // width
        allowed = largest[row] + tolerance * torch.maximum(torch.nan_to_num(at), torch.nan_to_num(rms[row]))
        excess = difference.reshape(-1)[chosen].abs() - allowed
        worst = int(excess.argmax())
        if float(excess[worst]) <= 0:
            return None
        place = int(chosen[worst])
        return Finding(
            "wrong_result",
            f"{describe_position(c, place)} is {float(c.reshape(-1)[place]):.6g}, eager gives "
            f"{float(e.reshape(-1)[place]):.6g}; allowed difference {float(allowed[worst]):.3g}; "
            f"{int((excess > 0).sum())} of {len(chosen)} sampled elements beyond tolerance",
        )

    def _projections(
        self, difference: torch.Tensor, errors: dict[str, Errors], blocks: Blocks, tolerance: float
    ) -> Finding | None:
        width = difference.shape[-1] if difference.ndim else 1
        matrix = difference.reshape(-1, width)
        rows = matrix.shape[0]
        projected = (matrix @ self._draw_signs(width, matrix.dtype)) * self._draw_signs(rows, matrix.dtype)
        styles, names = _row_styles(difference, blocks)
        sums = projected.new_zeros(len(names), PROJECTIONS).index_add_(0, styles, projected)
        counts = torch.bincount(styles, minlength=len(names)) * width
        measured = (sums.pow(2).mean(1) / counts.clamp(min=1)).sqrt()
        for style, name in enumerate(names):
            known = errors[name]
            m = multiple(int(counts[style]))
            limit = 1.5 * ((1 + m) * known.rmse + tolerance * known.rms)
            if float(measured[style]) > limit:
                return Finding(
                    "wrong_result",
                    f"rows of style `{name}` differ from eager's by {float(measured[style]):.3g} "
                    f"(root mean square, by {PROJECTIONS} random projections), allowed {limit:.3g}",
                )
        return None

    def _draw_signs(self, length: int, dtype: torch.dtype) -> torch.Tensor:
        needed = length * PROJECTIONS
        if self._signs.numel() < 2 * needed or self._signs.dtype is not dtype:
            bits = torch.randint(0, 2, (2 * needed + 4096,), dtype=torch.int8, generator=self._generator)
            self._signs = (bits * 2 - 1).to(dtype)
        start = self._dice.randrange(self._signs.numel() - needed + 1)
        return self._signs[start : start + needed].view(length, PROJECTIONS)


def _row_styles(tensor: torch.Tensor, blocks: Blocks) -> tuple[torch.Tensor, list[str]]:
    """For every row along the last dimension, the number of its style in the list of names."""
    shape = tensor.shape[: blocks.where.ndim] if blocks.where.axis is not None else tensor.shape
    rows = tensor.numel() // (tensor.shape[-1] if tensor.ndim else 1)
    parts = blocks.parts(shape)
    if parts[0][1] is None:
        return torch.zeros(rows, dtype=torch.int64), [parts[0][0]]
    axis = blocks.where.axis
    assert axis is not None
    along = torch.empty(shape[axis], dtype=torch.int64)
    for number, (_, part) in enumerate(parts):
        along[part] = number
    view = [1] * (tensor.ndim - 1)
    view[axis] = -1
    return along.view(view).expand(tensor.shape[:-1]).reshape(-1), [name for name, _ in parts]


def _per_row(tensor: torch.Tensor, errors: dict[str, Errors], blocks: Blocks, value: object) -> torch.Tensor:
    styles, names = _row_styles(tensor, blocks)
    assert callable(value)
    return torch.tensor([value(errors[name]) for name in names], dtype=tensor.dtype)[styles]


def _differs(c: torch.Tensor, e: torch.Tensor) -> Finding:
    wrong = torch.nonzero((c != e).reshape(-1)).flatten()
    first = int(wrong[0]) if len(wrong) else 0
    return Finding(
        "wrong_result",
        f"{describe_position(c, first)} is {c.reshape(-1)[first].item()}, eager gives exactly "
        f"{e.reshape(-1)[first].item()}; {len(wrong)} of {c.numel()} elements differ",
    )
