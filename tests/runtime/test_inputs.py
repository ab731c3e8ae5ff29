"""Draws of the trials, and fresh values of timed calls."""

from __future__ import annotations

import torch

from kforge_mcp.runtime.arena import place_call
from kforge_mcp.runtime.freshness import FreshInputs
from kforge_mcp.runtime.inputs import EXTREMES, SCALES, TRIALS, block_axis, draws
from tests.runtime.judged_variants import variant

RMS = variant(lambda x, w: x * w, [torch.randn(32, 64), torch.ones(64)], parameters=1)


def _draw(trial: str, described: dict[str, object] = RMS) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return next(iter(draws(trial, described, block_axis(described), generator, ""))).tensors


def test_blocks_lie_along_an_axis_that_inputs_and_outputs_share() -> None:
    where = block_axis(RMS)
    assert (where.ndim, where.axis) == (2, 0)
    heads = variant(lambda q: q * 2, [torch.randn(1, 8, 16, 4)])
    assert block_axis(heads).axis == 1
    vector = variant(lambda x: x * 2, [torch.randn(64)])
    assert block_axis(vector).axis is None


def test_every_style_has_rows_of_its_own() -> None:
    generator = torch.Generator().manual_seed(1)
    (draw,) = draws(TRIALS[2], RMS, block_axis(RMS), generator, "")
    parts = dict(draw.blocks.parts((32, 64)))
    assert set(parts) == {style.name for style in SCALES}
    sizes = {name: float(draw.tensors[0][rows].abs().mean()) for name, rows in parts.items()}
    assert sizes["scale 1e3"] > 100 * sizes["scale 1"] > 1e4 * sizes["scale 1e-3"]
    shifted = draw.tensors[0][parts["shifted mean"]]
    assert float(shifted.mean()) > 1.5 * float(shifted.std())


def test_without_a_shared_axis_every_style_is_a_draw_of_its_own() -> None:
    vector = variant(lambda x: x * 2, [torch.randn(64)])
    found = list(draws(TRIALS[3], vector, block_axis(vector), torch.Generator().manual_seed(1), ""))
    assert [draw.blocks.names[draw.blocks.order[0]] for draw in found] == [style.name for style in EXTREMES]


def test_parameters_are_fresh_though_captured_ones_are_all_one() -> None:
    weight = _draw(TRIALS[1])[1]
    assert float(weight.std()) > 0.1


def test_special_values_stand_in_few_rows() -> None:
    values = _draw(TRIALS[4])[0]
    assert int(torch.isnan(values).sum()) == 1 and int(torch.isinf(values).sum()) == 2
    assert int((~torch.isfinite(values)).any(-1).sum()) == 3


def test_nonnegative_inputs_stay_nonnegative() -> None:
    positive = variant(lambda x: x.sqrt(), [torch.rand(32, 64) + 0.5])
    for trial in TRIALS[1:4]:
        assert float(_draw(trial, positive)[0].min()) >= 0


def test_a_large_mean_lies_on_a_grid_on_which_sums_are_exact() -> None:
    generator = torch.Generator().manual_seed(1)
    (draw,) = draws(TRIALS[3], RMS, block_axis(RMS), generator, "")
    rows = dict(draw.blocks.parts((32, 64)))["large mean"]
    values = draw.tensors[0][rows]
    assert float(values.mean()) > 20 * float(values.std())
    assert torch.equal(values.sum(-1).double(), values.double().sum(-1))


def test_no_value_is_used_twice() -> None:
    slot = place_call(RMS)
    fresh = FreshInputs(RMS, slot, block_axis(RMS), 5, "")
    image = fresh.image()
    seen: list[torch.Tensor] = []
    for _ in range(20):
        fresh.compose(image)
        seen.append(slot.inputs[0].view(image).clone())
    stacked = torch.stack(seen)
    repeated = (stacked[1:] == stacked[:-1]).double().mean()
    assert float(repeated) < 0.001
    ratios = stacked[:, :, 0] / stacked[:, :, 1]
    assert len(ratios.flatten().unique()) == ratios.numel()


def test_zeros_stay_zero_and_masks_stay_masks() -> None:
    x = torch.randn(32, 64)
    x[x < 0] = 0
    described = variant(lambda x: x * 2, [x])
    slot = place_call(described)
    fresh = FreshInputs(described, slot, block_axis(described), 5, "")
    image = fresh.image()
    blocks = fresh.compose(image)
    values = slot.inputs[0].view(image)
    unshifted = dict(blocks.parts((32, 64)))["scale 1"]
    assert 0.2 < float((values[unshifted] == 0).double().mean()) < 0.8
    tiny = torch.finfo(torch.float32).tiny
    assert not bool(((values != 0) & (values.abs() < tiny)).any())


def test_integers_stay_in_range_and_sorted_where_they_were() -> None:
    positions, indices = torch.arange(16).repeat(2, 1), torch.randint(3, 9, (50,))
    described = variant(lambda p, i: p.sum() + i, [positions, indices])
    slot = place_call(described)
    fresh = FreshInputs(described, slot, block_axis(described), 5, "")
    image = fresh.image()
    for _ in range(5):
        fresh.compose(image)
        p, i = (place.view(image) for place in slot.inputs)
        assert bool((p[:, 1:] >= p[:, :-1]).all()) and int(p.min()) >= 0 and int(p.max()) <= 15
        assert int(i.min()) >= 3 and int(i.max()) <= 8


def test_overlapping_inputs_keep_their_distance() -> None:
    storage = torch.randn(8, 96)
    described = variant(lambda q, k: q * k, [storage[:, :32], storage[:, 32:64]])
    slot = place_call(described)
    assert slot.inputs[1].start - slot.inputs[0].start == 32 * 4


def test_expanded_inputs_are_filled_once() -> None:
    described = variant(lambda x: x * 2, [torch.randn(1, 64).expand(32, 64)])
    slot = place_call(described)
    fresh = FreshInputs(described, slot, block_axis(described), 5, "")
    image = fresh.image()
    fresh.compose(image)
    values = slot.inputs[0].view(image)
    assert values.stride() == (0, 1) and torch.equal(values[0], values[31])


def test_what_all_blocks_share_leaves_each_at_its_own_scale() -> None:
    heads, angles = torch.randn(1, 8, 16, 4), torch.rand(1, 16, 4) * 2 - 1
    described = variant(lambda q, cos: q * cos.unsqueeze(1), [heads, angles])
    slot = place_call(described)
    fresh = FreshInputs(described, slot, block_axis(described), 5, "")
    image = fresh.image()
    for _ in range(20):
        blocks = fresh.compose(image)
        q, cos = (place.view(image) for place in slot.inputs)
        assert float(cos.abs().max()) <= 1
        plain = dict(blocks.parts(tuple(q.shape)))["scale 1"]
        assert float((q * cos.unsqueeze(1))[:, plain].abs().max()) < 10


def test_offsets_keep_their_ends_and_permutations_stay_permutations() -> None:
    offsets, order = torch.tensor([0, 3, 7, 20]), torch.randperm(50)
    described = variant(lambda o, p: o.sum() + p, [offsets, order])
    slot = place_call(described)
    fresh = FreshInputs(described, slot, block_axis(described), 5, "")
    image = fresh.image()
    for _ in range(5):
        fresh.compose(image)
        o, p = (place.view(image) for place in slot.inputs)
        assert (int(o[0]), int(o[-1])) == (0, 20) and bool((o.diff() >= 0).all())
        assert len(p.unique()) == 50


def test_large_values_are_all_negative_in_some_rows_and_tiny_ones_stand_beside_zeros() -> None:
    described = variant(lambda x: x * 2, [torch.randn(40, 64)])
    generator = torch.Generator().manual_seed(1)
    (draw,) = draws("constants, ties and extremes", described, block_axis(described), generator, "")
    parts = {style: draw.tensors[0][part] for style, part in draw.blocks.parts((40, 64))}
    large, tiny = parts["large values"], parts["zeros and tiny values"]
    negative = (large < 0).all(-1)
    assert negative.any() and not negative.all()
    assert float(large.abs().max()) > 65504 and float(large[negative].max()) < -1e4
    assert sorted({bool(row.any()) for row in tiny}) == [False, True]
    assert 0 < float(tiny.abs().max()) < 1e-10
