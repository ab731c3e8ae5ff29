"""Fresh values for timed calls, cheaply: values never repeat, and nothing about them tells a phase of judging.

A pool is drawn once from the recipe. Each call takes a window at a random place, flips random low mantissa bits of
every element (no two calls share a value that a cache could recognise, and a stale result is wrong far beyond
rounding), and scales or shifts blocks of rows by freshly drawn factors.
"""

from __future__ import annotations

import random
from typing import Any

import torch

from . import blobs
from .arena import Place, Slot, blank
from .inputs import SCALES, SHIFT, BlockAxis, Blocks, is_styled, spread_of
from .recipes import distinct
from .recipes import draw as draw_recipe

_LOW_BITS = {
    torch.float64: (torch.int64, 40),
    torch.float32: (torch.int32, 12),
    torch.float16: (torch.int16, 5),
    torch.bfloat16: (torch.int16, 4),
}
_SCALES = torch.tensor([1.0, 1e-3, 1e3, 1.0])
_SHIFTS = torch.tensor([0.0, 0.0, 0.0, SHIFT])
_NAMES = tuple(style.name for style in SCALES)


class _Pool:
    """Values of one tensor, half as many again as a call needs, with noise of the same length."""

    def __init__(self, spec: dict[str, Any], place: Place, generator: torch.Generator, blob_root: str) -> None:
        self.place = place
        self.recipe = spec.get("recipe") or {"kind": "constant"}
        self.count = place.size // place.dtype.itemsize
        self.fixed: torch.Tensor | None = None
        if self.recipe["kind"] == "varied" and self.count:
            # Other than the captured one, but one for all timed calls: a mask takes longer to draw than to use.
            drawn = draw_recipe(spec, generator, blob_root=blob_root)
            self.fixed = drawn.as_strided((self.count,), (1,), drawn.storage_offset()).clone().view(torch.uint8)
            return
        if self.recipe["kind"] == "constant" or self.count == 0:
            data = blobs.read(blob_root, spec["sample"]) if spec.get("sample") else bytes(place.size)
            device = generator.device
            self.fixed = torch.frombuffer(bytearray(data), dtype=torch.uint8).to(device) if data else None
            return
        self.spec = spec
        # Positions and permutations are no draws of one element after another: a window of a pool would break them.
        self.ordered = self.recipe.get("sorted_last", False) or self.recipe.get("distinct_last", False)
        if self.ordered:
            return
        length = self.count + max(self.count // 2, 64)
        flat = {**spec, "shape": [length], "stride": [1], "storage_offset": 0}
        self.values = draw_recipe(flat, generator, blob_root=blob_root)
        self.spread = spread_of(self.values) if place.dtype.is_floating_point or place.dtype.is_complex else 1.0
        self.noise: torch.Tensor | None = None
        kind = torch.float32 if place.dtype is torch.complex64 else place.dtype
        if kind in _LOW_BITS:
            integer, bits = _LOW_BITS[kind]
            self.values = self.values.view(kind).view(integer)
            device, shape = generator.device, self.values.shape
            self.noise = torch.randint(0, 1 << bits, shape, dtype=integer, generator=generator, device=device)
            self.full = None if self.recipe.get("zeros_share", 0) == 0 else -(self.values != 0).to(integer)
            self.scratch = torch.empty(self.count * self.values.numel() // length, dtype=integer, device=device)

    def window(self, dice: random.Random, generator: torch.Generator) -> torch.Tensor:
        """Fresh values for the flat extent of the tensor."""
        place = self.place
        if self.ordered:
            drawn = draw_recipe(self.spec, generator)
            return drawn.as_strided((self.count,), (1,), drawn.storage_offset())
        wide = self.values.numel() // (self.count + max(self.count // 2, 64))
        size = self.count * wide
        start = wide * dice.randrange(self.values.numel() // wide - self.count + 1)
        values = self.values[start : start + size]
        if self.noise is None:
            return values
        other = dice.randrange(self.noise.numel() - size + 1)
        noise = self.noise[other : other + size]
        if self.full is not None:
            noise = noise & self.full[start : start + size]
        torch.bitwise_xor(values, noise, out=self.scratch)
        return self.scratch.view(place.dtype)


class FreshInputs:
    """Fills images with fresh inputs, guard bytes and poison for one variant."""

    def __init__(
        self,
        variant: dict[str, Any],
        slot: Slot,
        where: BlockAxis,
        seed: int,
        blob_root: str,
        device: torch.device | str = "cpu",
    ) -> None:
        self.slot = slot
        self.where = where
        self._dice = random.Random(seed)
        self._device = torch.device(device)
        self._generator = torch.Generator(device).manual_seed(seed & (2**63 - 1))
        self._calibrated = False
        self._rows = torch.Generator().manual_seed(seed >> 1)
        self._pools = [
            _Pool(spec, place, self._generator, blob_root)
            for spec, place in zip(variant["tensors"], slot.inputs, strict=True)
        ]
        self._styled = [is_styled(variant, index) for index in range(len(slot.inputs))]
        gaps = [stop - start for start, stop in self._gaps()]
        longest = max([*gaps, *(p.size for p in slot.workspaces), 1])
        self._bytes = torch.randint(
            0, 256, (2 * longest + 4096,), dtype=torch.uint8, generator=self._generator, device=self._device
        )
        self._poison = [_poison_pool(place, self._generator) for place in slot.outputs]
        self._calibrated = False

    def image(self) -> torch.Tensor:
        """A private image of the slot, everything in it random or fixed."""
        image = blank(self.slot.size, self._device)
        image.random_(0, 256, generator=self._generator)
        for pool in self._pools:
            if pool.fixed is not None:
                image[pool.place.start : pool.place.start + pool.place.size] = pool.fixed
        return image

    def calibrate_poison(self, outputs: list[torch.Tensor]) -> None:
        """Make poison look like real outputs, once: of their magnitude, or within their range."""
        if self._calibrated:
            return
        self._calibrated = True
        for pool, output in zip(self._poison, outputs, strict=True):
            if output.numel() == 0 or pool.numel() == 0:
                continue
            if pool.is_floating_point():
                values = output.double()
                finite = values[torch.isfinite(values)]
                rms = float(finite.pow(2).mean().sqrt()) if finite.numel() else 1.0
                scale = min(max(rms, 1e-6), float(torch.finfo(pool.dtype).max) / 16)
                pool.copy_(pool.float() * scale if pool.dtype.itemsize == 1 else pool * scale)
            elif pool.dtype is not torch.bool and not pool.is_complex():
                low, high = int(output.min()), int(output.max())
                span = (low, max(high, low + 1) + 1)
                alike = torch.randint(*span, pool.shape, generator=self._generator, device=self._device)
                pool.copy_(_half_wild(alike.to(pool.dtype), self._generator))

    def compose(self, image: torch.Tensor) -> Blocks:
        """Fill an image for a new call; returns the styles of its blocks."""
        names = len(_NAMES)
        if self.where.axis is None:
            blocks = Blocks(self.where, _NAMES, (self._dice.randrange(names),))
        else:
            blocks = Blocks(self.where, _NAMES, tuple(self._dice.sample(range(names), names)))
        for pool, styled in zip(self._pools, self._styled, strict=True):
            if pool.fixed is None:
                values = pool.window(self._dice, self._generator)
                if styled:
                    self._style(pool, values, blocks, image)
                else:
                    pool.place.flat(image).copy_(values)
        self.renew_surroundings(image)
        return blocks

    def place_values(self, image: torch.Tensor, tensors: list[torch.Tensor]) -> None:
        """Put the tensors of a trial into an image."""
        for place, tensor in zip(self.slot.inputs, tensors, strict=True):
            if place.size:
                count = place.size // place.dtype.itemsize
                place.flat(image).copy_(tensor.as_strided((count,), (1,), tensor.storage_offset()))

    def left_behind(self, memory: torch.Tensor) -> list[tuple[Place, torch.Tensor]]:
        """A copy of what a call left in outputs and workspaces: what it may find there when memory is used again."""
        kept = [place for place, zeroed in zip(self.slot.workspaces, self.slot.zeroed, strict=True) if not zeroed]
        places = [place for place in (*self.slot.outputs, *kept) if place.size]
        return [(place, memory[place.start : place.start + place.size].clone()) for place in places]

    def renew_surroundings(self, image: torch.Tensor) -> None:
        """New guard bytes, new poison, workspaces as the candidate asked for them."""
        for start, stop in self._gaps():
            self._scatter(image, start, stop)
        for place, zeroed in zip(self.slot.workspaces, self.slot.zeroed, strict=True):
            if zeroed:
                image[place.start : place.start + place.size] = 0
            else:
                self._scatter(image, place.start, place.start + place.size)
        for place, pool in zip(self.slot.outputs, self._poison, strict=True):
            count = place.size // place.dtype.itemsize
            if count:
                start = self._dice.randrange(pool.numel() - count + 1)
                place.flat(image).copy_(pool[start : start + count])

    def _scatter(self, image: torch.Tensor, start: int, stop: int) -> None:
        other = self._dice.randrange(self._bytes.numel() - (stop - start) + 1)
        image[start:stop] = self._bytes[other : other + stop - start]

    def _gaps(self) -> list[tuple[int, int]]:
        edges, position = [], 0
        for start, stop in sorted((p.start, p.start + p.size) for p in self.slot.inputs):
            if start > position:
                edges.append((position, start))
            position = max(position, stop)
        if self.slot.input_bytes > position:
            edges.append((position, self.slot.input_bytes))
        return [*edges, *self.slot.guards()]

    def _style(self, pool: _Pool, values: torch.Tensor, blocks: Blocks, image: torch.Tensor) -> None:
        place = pool.place
        source = distinct(values.as_strided(place.shape, place.stride))
        target = distinct(place.view(image))
        if self.where.applies(target.shape, len(blocks.order)):
            axis = self.where.axis
            assert axis is not None
            styles = blocks.rows(target.shape[axis])
            shape = [1] * target.ndim
            shape[axis] = -1
        else:
            # As in the trials: what is not divided is shared by all blocks, and must leave each at its own scale.
            styles, shape = torch.tensor([min(blocks.order)]), [1] * target.ndim
        factors = _SCALES[styles] * (0.6 + 0.4 * torch.rand(len(styles), generator=self._rows))
        shifts = _SHIFTS[styles] * factors * pool.spread
        shifts, factors = torch.stack([shifts, factors]).to(self._device)
        kind = target.dtype
        if kind.itemsize == 1:
            limit = torch.finfo(kind).max
            wide = torch.addcmul(shifts.view(shape), source.float(), factors.view(shape))
            target.copy_(wide.clamp(-limit, limit))
            return
        torch.addcmul(shifts.to(kind).view(shape), source, factors.to(kind).view(shape), out=target)


def _poison_pool(place: Place, generator: torch.Generator) -> torch.Tensor:
    count = place.size // place.dtype.itemsize
    length = count + max(count // 2, 64)
    device = generator.device
    if place.dtype.is_floating_point or place.dtype.is_complex:
        wide = torch.float64 if place.dtype is torch.float64 else torch.float32
        if place.dtype.is_complex:
            return torch.view_as_complex(torch.randn(length, 2, generator=generator, device=device))
        return torch.randn(length, dtype=wide, generator=generator, device=device).to(place.dtype)
    if place.dtype is torch.bool:
        return torch.randint(0, 2, (length,), generator=generator, device=device).to(torch.bool)
    small = torch.randint(0, 100, (length,), generator=generator, device=device)
    return _half_wild(small.to(place.dtype), generator)


def _half_wild(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Every second one, at random, of any bits: where all look like results, the upper half of an index would be zero
    already, and a kernel that writes the lower half would pass."""
    count, device = values.numel() * values.dtype.itemsize, generator.device
    wild = torch.randint(0, 256, (count,), dtype=torch.uint8, generator=generator, device=device).view(values.dtype)
    return torch.where(torch.rand(values.shape, generator=generator, device=device) < 0.5, values, wild)
