"""Input values for the validity trials: the captured sample, fresh draws, and draws that stress a kernel.

Stress is laid out in blocks: along one axis that inputs and outputs share, every block of rows is drawn in one
style, so that errors of one style cannot hide behind another's magnitude.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from . import blobs
from .recipes import distinct
from .recipes import draw as draw_recipe
from .tensors import DTYPES, allocate, fill, position

TRIALS = (
    "captured sample",
    "fresh inputs and parameters",
    "mixed scales",
    "constants, ties and extremes",
    "infinities and NaN",
)
SHIFT = 2.0
"""Mean of shifted values in their standard deviations."""
LARGE_MEAN = 128.0
"""The same where values lie on a grid on which plain sums are exact: there E[x^2] - E[x]^2 loses the square of this in
precision, and an honest variance (two passes, Welford's, in whatever order) at most this, which is forgiven."""
LARGE_MEAN_16 = 32.0
"""The same for 16-bit types, whose mantissa holds no more."""
_GRID_STEPS = 8


@dataclass(frozen=True)
class Style:
    """How the values of one block are made from ordinary ones; `spread` is their standard deviation."""

    name: str
    apply: Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]


def _scaled(scale: float, shift: float) -> Callable[[torch.Tensor, float, torch.Generator], torch.Tensor]:
    return lambda values, spread, generator: values * scale + shift * spread


def _constant_rows(values: torch.Tensor, spread: float, generator: torch.Generator) -> torch.Tensor:
    """One small power of two per row: its mean is exact in any order of summation, or its error negligible."""
    rows = values[..., :1] if values.ndim else values
    device = generator.device
    signs = torch.randint(0, 2, rows.shape, generator=generator, device=device) * 2 - 1
    steps = torch.randint(0, 2, rows.shape, generator=generator, device=device)
    return (signs * torch.exp2(-6.0 - steps)).expand_as(values)


def _ties(values: torch.Tensor, spread: float, generator: torch.Generator) -> torch.Tensor:
    """Small integers: many equal values, exact results of linear operators. A row and its mirror image have a mean
    of exactly zero: rounding that repeats with every equal value would add up in a plain sum."""
    width = values.shape[-1] if values.ndim else 1
    device = generator.device
    half = torch.randint(-2, 3, (*values.shape[:-1], (width + 1) // 2), generator=generator, device=device)
    mirrored = torch.cat([half, -half], -1)[..., :width]
    return mirrored[..., torch.randperm(width, generator=generator, device=device)].reshape(values.shape)


def _large_mean(values: torch.Tensor, spread: float, generator: torch.Generator) -> torch.Tensor:
    step = 2.0 ** math.floor(math.log2(spread / _GRID_STEPS))
    mean = 2.0 ** math.ceil(math.log2((LARGE_MEAN if values.dtype.itemsize > 2 else LARGE_MEAN_16) * spread))
    return torch.round(values / step) * step + mean


def _extremes(values: torch.Tensor, spread: float, generator: torch.Generator) -> torch.Tensor:
    """Beyond what a half-precision intermediate holds; of both signs in one row, all negative in the next, where a
    maximum begun at zero is wrong."""
    largest = min(1e7, torch.finfo(values.dtype).max ** 0.5 / 16)
    outliers = torch.rand(values.shape, generator=generator, device=generator.device) < 0.01
    large = values * (largest / 10) * torch.where(outliers, 10.0, 1.0)
    return torch.where(_every_other_row(values, generator), -large.abs() - largest / 10 * spread, large)


def _tiny(values: torch.Tensor, spread: float, generator: torch.Generator) -> torch.Tensor:
    """Zeros in one row; in the next, values that a half-precision intermediate loses."""
    return torch.where(_every_other_row(values, generator), values * 1e-12, 0.0)


def _every_other_row(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """True in every other row, for broadcasting; which begins is drawn."""
    rows = values.shape[:-1].numel() if values.ndim else 1
    device = generator.device
    chosen = torch.arange(rows, device=device) % 2 == torch.randint(0, 2, (), generator=generator, device=device)
    return chosen.view(*values.shape[:-1], 1) if values.ndim else chosen[0]


SCALES = (
    Style("scale 1", _scaled(1.0, 0.0)),
    Style("scale 1e-3", _scaled(1e-3, 0.0)),
    Style("scale 1e3", _scaled(1e3, 0.0)),
    Style("shifted mean", _scaled(1.0, SHIFT)),
)
"""The styles of timed inputs too: a kernel cannot tell a checking phase by them."""
EXTREMES = (
    Style("equal values in a row", _constant_rows),
    Style("small integers", _ties),
    Style("large values", _extremes),
    Style("zeros and tiny values", _tiny),
    Style("large mean", _large_mean),
)
FORGIVEN = {"large mean": LARGE_MEAN}
"""By style: how much more than the rounding of its results an honest kernel may lose, where that is computed in 32 bits
or more."""
_PLAIN = (Style("scale 1", _scaled(1.0, 0.0)),)


@dataclass(frozen=True)
class BlockAxis:
    """The axis along which blocks lie, for tensors of `ndim` dimensions; `axis` None: a call has one style."""

    ndim: int = 0
    axis: int | None = None
    lead: tuple[int, ...] = ()
    """The largest output's shape up to the axis: a result of fewer dimensions that begins with it has the same rows."""

    def applies(self, shape: Sequence[int], blocks: int) -> bool:
        """Whether a tensor of this shape is divided."""
        return self.axis is not None and len(shape) == self.ndim and shape[self.axis] >= blocks

    def divides_result(self, shape: Sequence[int], blocks: int) -> bool:
        """Whether a result of this shape is divided: a row's mean or variance is of that row's style."""
        alike = bool(self.lead) and tuple(shape[: len(self.lead)]) == self.lead
        return self.applies(shape, blocks) or (alike and self.lead[-1] >= blocks)


@dataclass(frozen=True)
class Blocks:
    """Which style each block has: block `i` of the axis is of style `order[i]`."""

    where: BlockAxis
    names: tuple[str, ...]
    order: tuple[int, ...]

    def rows(self, size: int) -> torch.Tensor:
        """The style of each index along an axis of this size."""
        return _rows(self.order, size)

    def parts(self, shape: Sequence[int]) -> list[tuple[str, torch.Tensor | None]]:
        """The styles in a tensor of this shape, each with its indices along the axis; None is the whole tensor."""
        return self._parts(shape, self.where.applies(shape, len(self.order)))

    def result_parts(self, shape: Sequence[int]) -> list[tuple[str, torch.Tensor | None]]:
        """The same for a result, which may have fewer dimensions than what is divided. Then it is looked at as a whole
        too: where sizes coincide its places may be columns, to which no style and no forgiveness belongs."""
        parts, whole = self._parts(shape, self.where.divides_result(shape, len(self.order))), self.parts(shape)
        return parts if len(whole) == len(parts) else parts + whole

    def _parts(self, shape: Sequence[int], divided: bool) -> list[tuple[str, torch.Tensor | None]]:
        if not divided:
            return [(" and ".join(sorted({self.names[style] for style in self.order})), None)]
        axis = self.where.axis
        assert axis is not None
        rows = self.rows(shape[axis])
        return [(self.names[style], torch.nonzero(rows == style).flatten()) for style in sorted(set(self.order))]


@functools.lru_cache(256)
def _rows(order: tuple[int, ...], size: int) -> torch.Tensor:
    return torch.tensor(order)[torch.arange(size) * len(order) // size]


@dataclass(frozen=True)
class Draw:
    """Values for every tensor of a variant."""

    trial: str
    tensors: list[torch.Tensor]
    blocks: Blocks


def block_axis(variant: dict[str, Any]) -> BlockAxis:
    """The first axis, not the last, that the largest output shares with a floating input and that holds blocks."""
    largest = max(variant["outputs"], key=lambda spec: torch.Size(spec["shape"]).numel())
    shape = largest["shape"]
    styled = [spec for index, spec in enumerate(variant["tensors"]) if is_styled(variant, index)]
    for axis in range(len(shape) - 1):
        alike = [s for s in styled if len(s["shape"]) == len(shape) and s["shape"][axis] == shape[axis]]
        if shape[axis] >= max(len(SCALES), len(EXTREMES)) and alike:
            return BlockAxis(len(shape), axis, tuple(shape[: axis + 1]))
    return BlockAxis()


def is_styled(variant: dict[str, Any], index: int) -> bool:
    """Whether stress changes a tensor: floating inputs whose bits carry no meaning of their own."""
    spec = variant["tensors"][index]
    role = next((a["role"] for a in variant["arguments"] if index in a["tensors"]), "input")
    recipe = spec.get("recipe") or {"kind": "constant"}
    drawn = recipe["kind"] == "quantiles" and not recipe.get("in_range", False)
    dtype = DTYPES[spec["dtype"]]
    return role in ("input", "constant") and drawn and (dtype.is_floating_point or dtype.is_complex)


def draws(
    trial: str, variant: dict[str, Any], where: BlockAxis, generator: torch.Generator, blob_root: str
) -> Iterator[Draw]:
    """The draws of one trial: one, or one per style where no axis can hold blocks."""
    if trial == TRIALS[0]:
        tensors = [_sample(spec, generator, blob_root) for spec in variant["tensors"]]
        yield Draw(trial, tensors, Blocks(where, ("captured values",), (0,)))
        return
    styles = {TRIALS[2]: SCALES, TRIALS[3]: EXTREMES}.get(trial, _PLAIN)
    names = tuple(style.name for style in styles)
    orders = [(index,) for index in range(len(styles))]
    if where.axis is not None:
        orders = [tuple(torch.randperm(len(styles), generator=generator, device=generator.device).tolist())]
    for order in orders:
        blocks = Blocks(where, names, order)
        tensors = [draw_recipe(spec, generator, blob_root=blob_root) for spec in variant["tensors"]]
        for index, tensor in enumerate(tensors):
            if is_styled(variant, index):
                _restyle(tensor, styles, blocks, generator)
                if trial == TRIALS[4]:
                    _make_nonfinite(distinct(tensor), generator)
        yield Draw(trial, tensors, blocks)


def spread_of(values: torch.Tensor) -> float:
    """Standard deviation, 1 where there is none."""
    values = torch.view_as_real(values) if values.is_complex() else values.float()
    spread = float(values.std()) if values.numel() > 1 else 0.0
    return spread or 1.0


def _sample(spec: dict[str, Any], generator: torch.Generator, blob_root: str) -> torch.Tensor:
    if spec.get("sample"):
        return fill(allocate(spec, generator.device), blobs.read(blob_root, spec["sample"]))
    return draw_recipe(spec, generator, blob_root=blob_root)


def _restyle(tensor: torch.Tensor, styles: Sequence[Style], blocks: Blocks, generator: torch.Generator) -> None:
    values = distinct(tensor)
    parts = blocks.parts(values.shape)
    if values.is_complex():
        values = torch.view_as_real(values)
    spread = spread_of(values)
    nonnegative = values.numel() > 0 and float(values.float().min()) >= 0
    for style, part in zip(sorted(set(blocks.order)), parts, strict=False):
        rows = None if part[1] is None else part[1].to(values.device)
        index = () if rows is None else (slice(None),) * (blocks.where.axis or 0) + (rows,)
        ordinary = values[index].float() if values.dtype.itemsize == 1 else values[index]
        changed = styles[style].apply(ordinary, spread, generator)
        if values.dtype.itemsize == 1:
            limit = torch.finfo(values.dtype).max
            changed = changed.clamp(-limit, limit)
        values[index] = (changed.abs() if nonnegative else changed).to(values.dtype)


def _make_nonfinite(values: torch.Tensor, generator: torch.Generator) -> None:
    """A NaN, an infinity and a negative infinity, each in a row of its own while there are rows."""
    rows = values.numel() // values.shape[-1] if values.ndim and values.shape[-1] else values.numel()
    if values.numel() == 0:
        return
    specials = (float("nan"), float("inf"), float("-inf"))[: max(1, min(3, rows - 1))]
    for special, row in zip(
        specials, torch.randperm(rows, generator=generator, device=generator.device).tolist(), strict=False
    ):
        width = values.shape[-1] if values.ndim else 1
        column = int(torch.randint(0, width, (), generator=generator, device=generator.device))
        values[position(row * width + column, values.shape)] = special
