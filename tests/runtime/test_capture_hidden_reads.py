"""Tensors that a call reads without being given them, and values that it takes to the host."""

from __future__ import annotations

import pytest

EXTRA = """
import types
import numpy as np
TABLE = torch.linspace(0.0, 1.0, 8)
TABLES = {"a": [torch.linspace(0.0, 1.0, 8)]}
SETTINGS = types.SimpleNamespace(table=torch.linspace(0.0, 1.0, 8))
LAYER = nn.Linear(8, 8)
NUMBERS = np.ones(8, dtype=np.float32)
def by_global(x):
    return x * TABLE
def by_helper(x):
    return by_global(x) + 1.0
def by_view(x):
    return x * TABLE[None]
def by_list(x):
    return x * TABLES["a"][0]
def by_settings(x):
    return x * SETTINGS.table
def by_layer(x):
    return LAYER(x)
def by_default(x, table=TABLE):
    return x * table
def close_over(table):
    def by_closure(x):
        return x * table
    return by_closure
by_closure = close_over(TABLE.clone())
@functools.cache
def cached(size):
    return torch.linspace(0.0, 1.0, size)
cached(8)
def by_cache(x):
    return x * cached(8)
class Listed(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = [torch.linspace(0.0, 1.0, 8)]
        self.settings = types.SimpleNamespace(first=1, table=torch.linspace(0.0, 1.0, 8))
    def forward(self, x):
        return x * self.tables[0]
class Configured(Listed):
    def forward(self, x):
        return x * self.settings.table
class Reads(nn.Module):
    def forward(self, x):
        return x * TABLE
def makes_its_own(x):
    y = torch.tensor([1.0, 2.0]).sum() * torch.arange(8)
    y[0] = 0.5
    return x * y + x.new_tensor([3.0]) + torch.from_numpy(NUMBERS)
def by_tolist(x):
    return x * 2.0 if x.flatten()[:2].tolist()[0] > -100.0 else x * 3.0
def by_numpy(x):
    return x * 2.0 if x.detach().numpy().sum() > -1e9 else x * 3.0
def by_asarray(x):
    return x * float(np.abs(np.asarray(x.sum(-1))).max())
def by_item(x):
    return x * 2.0 if x.sum().item() > -1e9 else x * 3.0
def by_truth(x):
    return x * 2.0 if (x > -1e9).all() else x * 3.0
def by_int(x):
    return x * int(x.abs().max() + 1)
def by_written(x):
    y = torch.zeros(8)
    y.copy_(x[0, 0])
    return x * 2.0 if y.tolist()[0] > -100.0 else x * 3.0
def by_constants(x):
    steps = torch.linspace(0.0, 1.0, x.shape[1])
    for step in steps.tolist():
        x = x + step
    if torch.zeros_like(x).sum().item() == 0.0:
        x = x * steps[1].item()
    return x
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("by_global", "the tensor TABLE"),
        ("by_helper", "the tensor TABLE"),
        ("by_view", "the tensor TABLE"),
        ("by_list", "the tensor TABLES['a'][0]"),
        ("by_settings", "the tensor SETTINGS.table"),
        ("by_layer", "the tensor LAYER.weight"),
        ("by_closure", "the tensor table"),
        ("by_cache", "a tensor of shape [8]"),
    ],
)
def test_a_tensor_read_without_being_given_is_named(sample, name, said):
    card = sample(f"model(lambda self, x: {name}(x) + 1)", extra=EXTRA).card(name)
    assert card["variants"] == []
    assert f"reads {said}, which it is not given" in str(next(iter(card["refused"])))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Listed", "self.tables[0]"),
        ("Configured", "self.settings.table"),
        ("Reads", "TABLE"),
    ],
)
def test_a_module_that_reads_a_tensor_past_its_state_names_it(sample, name, said):
    card = sample(f"model(lambda self, x: self.k(x) + 1, k={name}())", extra=EXTRA).card(name)
    assert card["variants"] == []
    assert f"reads the tensor {said}, which it is not given" in str(next(iter(card["refused"])))


def test_a_default_that_is_a_tensor_is_named(sample):
    card = sample("model(lambda self, x: by_default(x) + 1)", extra=EXTRA).card("by_default")
    assert "reads the tensor table, the default of a parameter, without being given it" in card["refused"]


def test_what_a_call_makes_itself_is_not_hidden(sample):
    card = sample("model(lambda self, x: makes_its_own(x) + 1)", extra=EXTRA).card("makes_its_own")
    assert card["refused"] == {}


@pytest.mark.parametrize("name", ["by_tolist", "by_numpy", "by_asarray", "by_item", "by_truth", "by_int", "by_written"])
def test_values_taken_to_the_host_make_a_call_ineligible(sample, name):
    card = sample(f"model(lambda self, x: {name}(x) + 1)", extra=EXTRA).card(name)
    assert card["variants"] == []
    assert "depends on values in its shapes or control flow" in str(card["refused"])


def test_constants_taken_to_the_host_change_nothing(sample):
    import torch

    own = {name: vars(torch.Tensor).get(name) for name in ("tolist", "numpy", "__dlpack__")}
    card = sample("model(lambda self, x: by_constants(x) + 1)", extra=EXTRA).card("by_constants")
    assert card["refused"] == {}
    assert {name: vars(torch.Tensor).get(name) for name in own} == own
