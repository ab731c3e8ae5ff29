"""Recipes: what is drawn looks like what was captured."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge_mcp.runtime import blobs
from kforge_mcp.runtime.recipes import describe, draw
from kforge_mcp.runtime.tensors import specification, to_bytes


def _redraw(tensor: torch.Tensor, *, seed: int = 0, blob_root: str = "", **options: float) -> torch.Tensor:
    spec = {**specification(tensor), "recipe": describe(tensor), "sample": ""}
    if blob_root:
        spec["sample"] = blobs.write(blob_root, to_bytes(tensor))
    return draw(spec, torch.Generator().manual_seed(seed), blob_root=blob_root, **options)


def test_floating_values_keep_their_distribution():
    torch.manual_seed(0)
    captured = torch.randn(64, 512) * 3 + 1
    drawn = _redraw(captured)
    assert drawn.mean().item() == pytest.approx(1.0, abs=0.1)
    assert drawn.std().item() == pytest.approx(3.0, abs=0.2)
    assert drawn.max() <= captured.max() + 1e-4


def test_the_share_of_zeros_is_kept():
    drawn = _redraw(torch.relu(torch.linspace(-1, 1, 10_000)))
    assert (drawn == 0).float().mean().item() == pytest.approx(0.5, abs=0.03)
    assert (drawn >= 0).all()


def test_a_fresh_norms_weight_gets_a_spread_of_its_sign():
    drawn = _redraw(torch.ones(1024))
    assert drawn.min() >= 0.5
    assert drawn.max() <= 1.5
    assert drawn.std() > 0.1
    assert _redraw(torch.full((64,), -2.0)).max() < 0


def test_zeros_get_a_spread_around_zero():
    drawn = _redraw(torch.zeros(1024))
    assert drawn.min() < -0.1
    assert drawn.max() > 0.1


def test_indices_stay_in_range():
    drawn = _redraw(torch.randint(3, 40, (8, 100)))
    assert drawn.dtype is torch.int64
    assert drawn.min() >= 3
    assert drawn.max() < 40


def test_positions_stay_sorted():
    drawn = _redraw(torch.arange(512)[None])
    assert (drawn.diff() >= 0).all()
    assert drawn.shape == (1, 512)


def test_offsets_keep_their_first_and_last_value():
    offsets = torch.arange(0, 4096, 4)
    drawn = _redraw(offsets)
    assert (drawn[0], drawn[-1]) == (offsets[0], offsets[-1])
    assert not drawn.equal(offsets)


@pytest.mark.parametrize(
    "mask",
    [
        torch.full((6, 6), float("-inf")).triu(1),
        torch.full((6, 6), torch.finfo(torch.float32).min).triu(1),
        torch.ones(6, 6, dtype=torch.bool).tril(),
        torch.tensor([1.0, 1, 1, 1, 0, 0, 0, 0]),
        torch.tensor([7]),
    ],
    ids=["infinite", "largest", "causal", "padding", "single"],
)
def test_masks_and_single_integers_keep_their_bits(tmp_path, mask):
    assert torch.equal(_redraw(mask, blob_root=str(tmp_path)), mask)


def test_random_booleans_keep_their_share():
    drawn = _redraw(torch.arange(20_000).remainder(4) == 0)
    assert drawn.float().mean().item() == pytest.approx(0.25, abs=0.02)


def test_scale_and_shift_act_on_floating_values_alone():
    values = torch.linspace(1, 2, 1000)
    assert _redraw(values, scale=10.0, shift=100.0).min() >= 110
    assert _redraw(torch.arange(5), scale=10.0).max() <= 4


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn, torch.complex64])
def test_every_floating_dtype_is_drawn(dtype):
    drawn = _redraw(torch.linspace(-2, 2, 50).to(dtype))
    assert drawn.dtype is dtype
    wide = torch.view_as_real(drawn) if dtype.is_complex else drawn.float()
    assert wide.abs().max() <= 2


def test_seeds_make_values_differ_and_repeat():
    captured = torch.randn(100)
    assert torch.equal(_redraw(captured, seed=1), _redraw(captured, seed=1))
    assert not torch.equal(_redraw(captured, seed=1), _redraw(captured, seed=2))


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=0, max_size=3),
    steps=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    offset=st.integers(0, 3),
)
def test_layout_is_kept_whatever_the_strides(sizes, steps, offset):
    strides = steps[: len(sizes)]
    storage = torch.arange(100, dtype=torch.float32)
    captured = storage.as_strided(sizes, strides, offset)
    drawn = _redraw(captured)
    assert drawn.shape == captured.shape
    assert drawn.stride() == captured.stride()
    if captured.numel():
        assert drawn.data_ptr() % 64 == captured.data_ptr() % 64
        assert torch.isfinite(drawn).all()


def test_permutations_stay_permutations():
    drawn = _redraw(torch.stack([torch.randperm(50), torch.randperm(50)]))
    assert torch.equal(drawn.sort(dim=-1).values, torch.arange(50).expand(2, 50))
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(_redraw(torch.arange(3, 40)), torch.arange(3, 40))


def test_more_values_than_a_range_has_are_drawn_with_repetition():
    spec = {**specification(torch.arange(100)), "recipe": describe(torch.arange(50)), "sample": ""}
    drawn = draw(spec, torch.Generator().manual_seed(0))
    assert drawn.min() == 0
    assert drawn.max() == 49


def test_a_few_tokens_that_differ_are_no_permutation():
    assert not describe(torch.tensor([5, 900, 77, 3]))["distinct_last"]


def test_large_tensors_are_drawn_in_parts(monkeypatch):
    """Every element is written, in every layout, and repeated ones once."""
    monkeypatch.setattr("kforge_mcp.runtime.recipes._MAXIMUM_PART", 16)
    for tensor in (torch.rand(5, 7, 9) + 1, (torch.rand(300) + 1), (torch.rand(9, 40) + 1).t(), torch.rand(1, 90) + 1):
        drawn = _redraw(tensor)
        assert drawn.min() >= 1
        assert drawn.max() <= 2 + 1e-6
        assert drawn.unique().numel() > tensor.numel() // 2
    assert torch.equal(_redraw(torch.arange(100)), torch.arange(100))
