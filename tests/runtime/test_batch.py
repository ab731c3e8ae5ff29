"""What a batch of calls may leave behind in shared memory."""

from __future__ import annotations

import itertools
import mmap
import random
from types import SimpleNamespace

import pytest
import torch

from kforge_mcp.runtime.arena import GUARD, Arena, first_new, place_call
from kforge_mcp.runtime.batch import Batch, Bound, arena_bytes, bind_arguments
from kforge_mcp.runtime.freshness import FreshInputs
from kforge_mcp.runtime.inputs import block_axis
from tests.runtime.judged_variants import variant

VARIANT = variant(lambda x, w: x * w, [torch.randn(8, 64), torch.ones(64)], parameters=1)
WORKSPACES = [{"dtype": "fp32", "shape": [10], "init": "zero"}, {"dtype": "int32", "shape": [3], "init": "none"}]


def _batch(in_place: dict[int, int] | None = None) -> tuple[Batch, list[torch.Tensor]]:
    slot = place_call(VARIANT, WORKSPACES)
    bound = Bound(0, slot, 0, (), in_place or {})
    side = SimpleNamespace(is_candidate=True, arena=Arena(arena_bytes([slot], [2])))
    batch = Batch(side, bound, 2, random.Random(1), 1.0)  # type: ignore[arg-type]
    fresh = FreshInputs(VARIANT, slot, block_axis(VARIANT), 1, "")
    images = [fresh.image(), fresh.image()]
    for memory, image in zip(batch.memories, images, strict=True):
        fresh.compose(image)
        memory.copy_(image)
    return batch, images


def test_places_are_guarded_aligned_and_apart() -> None:
    slot = place_call(VARIANT, WORKSPACES)
    places = sorted((*slot.inputs, *slot.outputs, *slot.workspaces), key=lambda place: place.start)
    assert places[0].start >= GUARD and slot.size - places[-1].start - places[-1].size >= GUARD
    for left, right in itertools.pairwise(places):
        assert right.start - left.start - left.size >= GUARD
    assert [place.start % 64 for place in slot.outputs] == [0]
    for place, spec in zip(slot.inputs, VARIANT["tensors"], strict=True):
        assert place.start % 64 == spec["alignment"]


def test_outputs_and_workspaces_may_be_written() -> None:
    batch, images = _batch()
    slot = place_call(VARIANT, WORKSPACES)
    for memory in batch.memories:
        for place in (*slot.outputs, *slot.workspaces):
            place.view(memory).fill_(3)
    assert batch.trespass(images) is None


@pytest.mark.parametrize("name", ["inputs", "outputs", "workspaces"])
@pytest.mark.parametrize("offset", [-GUARD, -1, 0, GUARD - 1])
def test_a_byte_beside_any_tensor_is_noticed(name: str, offset: int) -> None:
    batch, images = _batch()
    for place in getattr(place_call(VARIANT, WORKSPACES), name):
        position = place.start + offset if offset < 0 else place.start + place.size + offset
        batch.memories[1][position] ^= 1
        finding = batch.trespass(images)
        assert finding is not None and finding.reason == "out_of_bounds", finding
        batch.memories[1][position] ^= 1
    assert batch.trespass(images) is None


def test_a_changed_input_is_named() -> None:
    batch, images = _batch()
    slot = place_call(VARIANT, WORKSPACES)
    slot.inputs[1].view(batch.memories[0])[5] += 1
    finding = batch.trespass(images)
    assert finding is not None and finding.reason == "input_mutated" and "`t1`" in finding.message


def test_an_input_changed_in_place_is_the_output() -> None:
    batch, images = _batch({0: 0})
    slot = place_call(VARIANT, WORKSPACES)
    slot.inputs[0].view(batch.memories[0]).fill_(2)
    assert batch.trespass(images) is None
    assert float(batch.outputs()[0][0].sum()) == 2 * 8 * 64
    slot.inputs[1].view(batch.memories[0])[0] += 1
    assert batch.trespass(images) is not None


def test_gaps_of_a_strided_output_are_not_its_own() -> None:
    described = {**VARIANT, "outputs": [{**VARIANT["outputs"][0], "stride": [80, 1]}]}
    slot = place_call(described)
    side = SimpleNamespace(is_candidate=True, arena=Arena(arena_bytes([slot], [1])))
    batch = Batch(side, Bound(0, slot, 0, (), {}), 1, random.Random(1), 1.0)  # type: ignore[arg-type]
    image = FreshInputs(described, slot, block_axis(described), 1, "").image()
    batch.memories[0].copy_(image)
    slot.outputs[0].view(batch.memories[0]).fill_(1)
    assert batch.trespass([image]) is None
    slot.outputs[0].flat(batch.memories[0])[70] = 1
    finding = batch.trespass([image])
    assert finding is not None and "between the elements" in finding.message


def test_slots_begin_elsewhere_every_time() -> None:
    slot = place_call(VARIANT)
    side = SimpleNamespace(is_candidate=True, arena=Arena(arena_bytes([slot], [1])))
    dice = random.Random(1)
    batches = [Batch(side, Bound(0, slot, 0, (), {}), 1, dice, 1.0) for _ in range(50)]  # type: ignore[arg-type]
    assert len({batch.memories[0].data_ptr() for batch in batches}) > 20


def test_arguments_are_bound_to_places_and_types() -> None:
    slot = place_call(VARIANT, WORKSPACES)
    arguments = bind_arguments(
        [
            {"kind": "tensor", "index": 1},
            {"kind": "output", "index": 0},
            {"kind": "workspace", "index": 1},
            {"kind": "null"},
            {"kind": "scalar", "scalar_type": "float", "value": "inf"},
            {"kind": "scalar", "scalar_type": "bool", "value": True},
        ],
        slot,
    )
    assert arguments == (
        ("pointer", slot.inputs[1].start),
        ("pointer", slot.outputs[0].start),
        ("pointer", slot.workspaces[1].start),
        ("null", 0),
        ("float", float("inf")),
        ("bool", True),
    )


def test_pages_touched_far_from_the_calls_are_noticed() -> None:
    arena = Arena(1 << 22)
    arena.memory[:4096] = 1
    before = arena.touched()
    assert first_new(before, arena.touched()) is None
    arena.memory[3 << 20] = 1
    assert first_new(before, arena.touched()) == (3 << 20) // mmap.PAGESIZE


def test_poison_of_indices_has_every_bit_and_what_a_call_left_can_be_kept() -> None:
    made = variant(lambda x: x.argmax(-1), [torch.randn(256, 32)])
    slot = place_call(made)
    fresh = FreshInputs(made, slot, block_axis(made), 1, "")
    fresh.calibrate_poison([torch.arange(256) % 32])
    image = fresh.image()
    fresh.compose(image)
    poison = slot.outputs[0].view(image)
    plausible = (poison >= 0) & (poison < 33)
    assert 64 < int(plausible.sum()) < 192
    assert int((poison.abs() > 2**32).sum()) > 64
    ((place, left),) = fresh.left_behind(image)
    assert place is slot.outputs[0]
    assert torch.equal(left.view(torch.int64), poison)
