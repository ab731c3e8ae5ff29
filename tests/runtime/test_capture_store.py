"""The budget of samples: what is held counts, equal contents count once."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime import blobs, capture_store
from kforge_mcp.runtime.capture_replay import _is_unsteady
from kforge_mcp.runtime.capture_store import Budget, Snapshot
from kforge_mcp.runtime.device_digest import device_digest

_KIB = 1024


def _tensor(size: int) -> torch.Tensor:
    return torch.randn(size // 4)


def test_what_calls_in_calls_hold_counts_before_it_is_stored(tmp_path):
    budget = Budget(str(tmp_path), 8 * _KIB)
    held = [Snapshot.take(_tensor(_KIB), budget) for _ in range(8)]
    assert all(snapshot.contents for snapshot in held)
    late = Snapshot.take(_tensor(_KIB), budget)
    assert late.contents is None
    assert late.recipe is not None
    del held
    assert Snapshot.take(_tensor(_KIB), budget).contents is not None


def test_one_tensor_passed_down_is_held_once(tmp_path):
    budget = Budget(str(tmp_path), 8 * _KIB)
    tensor = _tensor(_KIB)
    held = [Snapshot.take(tensor, budget) for _ in range(20)]
    assert {id(snapshot.contents) for snapshot in held} == {id(held[0].contents)}
    contents = held[0].contents
    assert contents is not None
    name = budget.store(held[0].digest, contents)
    assert blobs.read(str(tmp_path), name) == contents.data
    assert budget.left == 7 * _KIB
    again = Snapshot.take(tensor, budget)
    assert (again.contents, budget.stored(again.digest)) == (None, name)


def test_no_tensor_takes_more_than_an_eighth(tmp_path):
    budget = Budget(str(tmp_path), 8 * _KIB)
    assert Snapshot.take(_tensor(_KIB + 4), budget).contents is None
    assert Snapshot.take(_tensor(_KIB), budget).contents is not None


def test_a_mask_is_kept_whatever_the_budget(tmp_path):
    budget = Budget(str(tmp_path), 0)
    mask = torch.full((64, 64), float("-inf")).triu(1)
    snapshot = Snapshot.take(mask, budget)
    assert snapshot.recipe is not None
    assert snapshot.recipe["kind"] == "constant"
    assert snapshot.contents is not None
    assert budget.store(snapshot.digest, snapshot.contents, always=True)


def test_a_devices_tensor_comes_to_the_host_once(tmp_path, monkeypatch):
    """With a digest that needs no copy, as on a device, equal contents are copied for the first snapshot alone."""
    copies = []
    real = capture_store.to_bytes
    monkeypatch.setattr(capture_store, "to_bytes", lambda tensor: copies.append(1) or real(tensor))

    class Elsewhere(torch.Tensor):
        device = property(lambda self: torch.device("cuda:0"))

    tensor = _tensor(_KIB)
    budget = Budget(str(tmp_path), 8 * _KIB)
    monkeypatch.setattr(capture_store, "digest", lambda given: device_digest(given.as_subclass(torch.Tensor)))
    held = [Snapshot.take(tensor.as_subclass(Elsewhere), budget) for _ in range(3)]
    assert len(copies) == 1
    contents = held[0].contents
    assert contents is not None
    budget.store(held[0].digest, contents)
    del held, contents
    Snapshot.take(tensor.as_subclass(Elsewhere), budget)
    assert len(copies) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_eager_is_unsteady_where_two_runs_differ_by_rounding_alone(dtype):
    once = torch.randn(1000).to(dtype)
    rounded = once * (1 + torch.finfo(dtype).eps)
    assert not _is_unsteady([once], [once.clone()])
    assert _is_unsteady([once], [rounded])
    assert not _is_unsteady([once], [once * 1.5])
    assert not _is_unsteady([torch.arange(3)], [torch.arange(3) + 1])
