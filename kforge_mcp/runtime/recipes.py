"""Recipes: what a captured tensor looks like, and fresh tensors that look like it.

A recipe is the JSON of the control plane's `InputRecipe`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from . import blobs
from .tensors import allocate, fill

POINTS = 129
_MAXIMUM_SAMPLE = 1 << 16
_MAXIMUM_PART = 1 << 22
_MASK_VALUES = 2
_FLIPPED = 0.25
_FARTHEST = 8
_EMPTY: dict[str, Any] = {
    "kind": "",
    "quantiles": [],
    "zeros_share": 0.0,
    "low": 0,
    "high": 0,
    "sorted_last": False,
    "distinct_last": False,
    "true_share": 0.0,
}
_FP8 = (torch.float8_e4m3fn, torch.float8_e5m2)


def describe(tensor: torch.Tensor) -> dict[str, Any]:
    """The recipe of a tensor: its distribution, or `constant` where its very bits carry the meaning.

    Constant are masks (infinities, values near the end of the dtype's range, two levels, booleans in blocks) and
    single integers. A floating tensor of one value only, such as a fresh norm's weight, is given a spread around
    that value: otherwise no check could tell a kernel that ignores it. Signs are kept, so variances stay positive.
    """
    return {**_EMPTY, **_describe(tensor.dtype, distinct(tensor.detach()))}


def _describe(dtype: torch.dtype, flat: torch.Tensor) -> dict[str, Any]:
    if flat.numel() == 0:
        return {"kind": "constant"}
    if dtype is torch.bool:
        return _describe_bool(flat)
    if not (dtype.is_floating_point or dtype.is_complex):
        return _describe_integers(flat)
    return _describe_values(dtype, flat)


def draw(
    spec: dict[str, Any],
    generator: torch.Generator,
    *,
    blob_root: str = "",
    scale: float = 1.0,
    shift: float = 0.0,
) -> torch.Tensor:
    """A fresh tensor with the layout of `spec`, its values from `spec["recipe"]`; gaps are not initialised.

    The values are drawn on the generator's device. The tensor is there too if that is no CPU, else on its own device.
    Floating values come out as `value * scale + shift`. A `constant` recipe reads the sample from `blob_root`, a
    `varied` one (which no capture makes, see `examination.py`) shuffles a mask and moves positions.
    """
    tensor = allocate(spec, generator.device if generator.device.type != "cpu" else None)
    recipe = spec["recipe"]
    if recipe["kind"] in ("constant", "varied"):
        if spec.get("sample"):
            fill(tensor, blobs.read(blob_root, spec["sample"]))
        return _vary(tensor, generator) if recipe["kind"] == "varied" else tensor
    for part in _parts(_writable(tensor)):
        _draw_part(part, recipe, generator, scale, shift)
    return tensor


def _parts(base: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor in pieces, each with the whole last axis, so that drawing needs little memory beside it."""
    if base.numel() <= _MAXIMUM_PART or base.ndim == 0 or (base.ndim == 1 and not base.is_floating_point()):
        yield base
        return
    axis = next((axis for axis, size in enumerate(base.shape[:-1]) if size > 1), base.ndim - 1)
    if axis == base.ndim - 1 and not base.is_floating_point():
        yield base
        return
    for piece in base.split(max(1, _MAXIMUM_PART * base.shape[axis] // base.numel()), dim=axis):
        yield from _parts(piece)


def _draw_part(
    base: torch.Tensor, recipe: dict[str, Any], generator: torch.Generator, scale: float, shift: float
) -> None:
    if recipe["kind"] == "bool":
        base.copy_(_uniform(base.shape, generator) < recipe["true_share"])
    elif recipe["kind"] == "integers":
        span = recipe["high"] - recipe["low"] + 1
        if recipe.get("distinct_last") and base.ndim and span >= base.shape[-1]:
            values = _draw_distinct(recipe, base.shape, generator)
        else:
            low, end = recipe["low"], recipe["high"] + 1
            values = torch.randint(low, end, base.shape, generator=generator, device=generator.device)
        if recipe["sorted_last"] and base.ndim:
            values = values.sort(dim=-1).values
            # Offsets begin at 0 and end at a length: the ends are kept.
            values[..., 0], values[..., -1] = recipe["low"], recipe["high"]
        base.copy_(values)
    elif base.dtype.is_complex:
        parts = _draw_values(recipe, (*base.shape, 2), generator, torch.float32)
        base.copy_(torch.view_as_complex(parts.mul_(scale).add_(shift)))
    else:
        wide = torch.float64 if base.dtype is torch.float64 else torch.float32
        base.copy_(_draw_values(recipe, tuple(base.shape), generator, wide).mul_(scale).add_(shift))


def is_mask(tensor: torch.Tensor) -> bool:
    """Whether a captured tensor may be a mask: two values at most, those of integers 0 and 1."""
    values = distinct(tensor)
    if values.numel() < 2 or values.ndim == 0 or values.shape[-1] < 2 or values.is_complex():
        return False
    if values.dtype is torch.bool:
        return True
    low, high = values.double().min(), values.double().max()
    if values.is_floating_point():
        return bool(low < high) and bool(((values.double() == low) | (values.double() == high)).all())
    return int(low) >= 0 and int(high) <= 1


def is_position(tensor: torch.Tensor) -> bool:
    """Whether captured integers may be positions or an index: a single one, or consecutive ones in every row."""
    values = distinct(tensor)
    if values.is_floating_point() or values.is_complex() or values.dtype is torch.bool or values.numel() == 0:
        return False
    return values.numel() == 1 or (values.shape[-1] > 1 and bool((values.diff(dim=-1) == 1).all()))


def _vary(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if is_mask(tensor):
        return _vary_mask(tensor, generator)
    distinct(tensor).add_(int(torch.randint(1, _FARTHEST + 1, (), generator=generator, device=generator.device)))
    return tensor


def _vary_mask(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Shuffle a mask within its rows. One that masks nothing, or everything, has a quarter of its places flipped, but
    never a whole row: what is left of a row keeps softmax and means defined, whichever value stands for masked."""
    values = distinct(tensor)
    rows = values.reshape(-1, values.shape[-1])
    if bool((rows == rows[0, 0]).all()):
        device = generator.device
        flips = torch.rand(rows.shape, generator=generator, device=device) < _FLIPPED
        kept = torch.randint(0, rows.shape[-1], (len(rows), 1), generator=generator, device=device)
        flips = flips.scatter_(1, kept, torch.zeros_like(kept, dtype=torch.bool)).to(rows.device)
        rows = torch.where(flips, (1 - rows[0, 0].long()).to(rows.dtype), rows)
    else:
        rows = rows.gather(
            1, torch.rand(rows.shape, generator=generator, device=generator.device).argsort(-1).to(rows.device)
        )
    values.copy_(rows.view(values.shape))
    return tensor


def _draw_distinct(recipe: dict[str, Any], shape: torch.Size, generator: torch.Generator) -> torch.Tensor:
    """Rows of integers of the range, each at most once in a row."""
    size = recipe["high"] - recipe["low"] + 1
    rows = _uniform((*shape[:-1], size), generator)
    return rows.argsort(dim=-1)[..., : shape[-1]] + recipe["low"]


def _draw_values(
    recipe: dict[str, Any], shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype
) -> torch.Tensor:
    quantiles = torch.tensor(recipe["quantiles"] or [0.0], dtype=dtype, device=generator.device)
    steps = quantiles.diff(append=quantiles[-1:])
    place = _uniform(shape, generator, dtype).mul_(len(quantiles) - 1)
    index = place.floor().long()
    values = steps[index].mul_(place.sub_(index)).add_(quantiles[index])
    if recipe["zeros_share"]:
        values.masked_fill_(_uniform(shape, generator) < recipe["zeros_share"], 0.0)
    return values


def _uniform(shape: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.rand(shape, generator=generator, dtype=dtype, device=generator.device)


def distinct(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with every stride-0 dimension reduced to one element, so that each element can be written once."""
    for dimension, (size, step) in enumerate(zip(tensor.shape, tensor.stride(), strict=True)):
        if step == 0 and size > 1:
            tensor = tensor.narrow(dimension, 0, 1)
    return tensor


def _writable(tensor: torch.Tensor) -> torch.Tensor:
    """A view of every element once: `_distinct`, or the flat extent where elements overlap otherwise."""
    base = distinct(tensor)
    count = 1 + sum((size - 1) * step for size, step in zip(base.shape, base.stride(), strict=True))
    if base.numel() and count < base.numel():
        return tensor.as_strided((count,), (1,), tensor.storage_offset())
    return base


def _describe_bool(flat: torch.Tensor) -> dict[str, Any]:
    if flat.numel() > 1 and flat.ndim and flat.shape[-1] > 2:
        changes = (flat[..., 1:] != flat[..., :-1]).sum(-1)
        if int(changes.max()) <= 1:
            return {"kind": "constant"}
    return {"kind": "bool", "true_share": flat.double().mean().item()}


def _describe_integers(flat: torch.Tensor) -> dict[str, Any]:
    if flat.numel() == 1:
        return {"kind": "constant"}
    low, high = int(flat.min()), int(flat.max())
    last = flat.sort(dim=-1).values.diff(dim=-1) if flat.ndim and flat.shape[-1] > 1 else None
    # A few tokens that happen to differ are no permutation: nearly the whole range must be there.
    is_distinct = last is not None and bool((last > 0).all()) and high - low + 1 <= 2 * flat.shape[-1]
    rises = flat.ndim > 0 and flat.shape[-1] > 1 and bool((flat[..., 1:] >= flat[..., :-1]).all())
    return {
        "kind": "integers",
        "low": low,
        "high": high,
        "sorted_last": rises and high > low,
        "distinct_last": is_distinct,
    }


def _describe_values(dtype: torch.dtype, flat: torch.Tensor) -> dict[str, Any]:
    values = torch.view_as_real(flat) if dtype.is_complex else flat
    limit = torch.finfo(dtype).max / 2
    ordered = _sample(values).to("cpu", torch.float64).sort().values
    if not bool(torch.isfinite(ordered).all()):
        return {"kind": "constant"}
    low, high = ordered[0].item(), ordered[-1].item()
    if dtype not in _FP8 and max(-low, high) >= limit:
        return {"kind": "constant"}
    if low == high:
        return _spread(*sorted((0.5 * low, 1.5 * low))) if low else _spread(-0.5, 0.5)
    levels = 1 + int((ordered[1:] != ordered[:-1]).sum())
    if levels <= _MASK_VALUES < ordered.numel() // 2:
        return {"kind": "constant"}
    nonzero = ordered[ordered != 0]
    places = torch.linspace(0, nonzero.numel() - 1, POINTS, dtype=torch.float64, device="cpu").round().long()
    return {
        "kind": "quantiles",
        "quantiles": [float(f"{value:.6g}") for value in nonzero[places].tolist()],
        "zeros_share": 1 - nonzero.numel() / ordered.numel(),
    }


def _spread(low: float, high: float) -> dict[str, Any]:
    return {"kind": "quantiles", "quantiles": torch.linspace(low, high, 3, dtype=torch.float64).tolist()}


def _sample(values: torch.Tensor) -> torch.Tensor:
    """At most 2^16 of the values, evenly picked, with the extremes among them."""
    flat = values.reshape(-1)
    if flat.numel() <= _MAXIMUM_SAMPLE:
        return flat
    picked = flat[:: flat.numel() // _MAXIMUM_SAMPLE][:_MAXIMUM_SAMPLE]
    if flat.dtype in _FP8:
        return picked
    return torch.cat([picked, flat.min().reshape(1), flat.max().reshape(1)])
