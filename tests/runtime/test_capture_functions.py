"""Which functions of a model's code become cards, however they are held, and that all are put back."""

from __future__ import annotations

import sys

import pytest


def test_a_static_method_is_a_card_and_put_back(sample):
    extra = """
class Owner(nn.Module):
    @staticmethod
    def scale(x, factor=2.0):
        return x * factor
    def forward(self, x):
        return self.scale(x) + Owner.scale(x, 3.0)
kept = Owner.__dict__["scale"]
"""
    captured = sample("model(lambda self, x: self.a(x), a=Owner())", extra=extra)
    card = captured.card("scale")
    assert card["qualified_name"] == f"{captured.module.__name__}:Owner.scale"
    assert len(card["variants"]) == 2
    assert card["reference"]["qualname"] == "Owner.scale"
    assert vars(captured.module.Owner)["scale"] is captured.module.kept


def test_a_function_in_a_registry_is_watched_there_and_put_back(sample):
    extra = """
def swish(x):
    return x * torch.sigmoid(x)
ACTIVATIONS = {"swish": swish, "other": lambda x: x + 1.0}
plain = dict(ACTIVATIONS)
class Looks(nn.Module):
    def forward(self, x):
        return ACTIVATIONS["swish"](x) + ACTIVATIONS["other"](x)
"""
    captured = sample("model(lambda self, x: self.a(x), a=Looks())", extra=extra)
    assert len(captured.card("swish")["variants"]) == 1
    assert captured.reason("other") == "cannot be imported by its name, so it cannot be rerun elsewhere"
    assert captured.module.plain == captured.module.ACTIVATIONS


def test_a_registry_that_is_a_mapping_object_is_looked_into(sample):
    extra = """
from collections.abc import MutableMapping
class Registry(MutableMapping):
    _global = {}
    def __getitem__(self, key): return self._global[key]
    def __setitem__(self, key, value): self._global[key] = value
    def __delitem__(self, key): del self._global[key]
    def __iter__(self): return iter(self._global)
    def __len__(self): return len(self._global)
REGISTRY = Registry()
def attend(x):
    return x.softmax(-1) * 2
REGISTRY["attend"] = attend
class Looks(nn.Module):
    def forward(self, x):
        return REGISTRY["attend"](x)
"""
    captured = sample("model(lambda self, x: self.a(x), a=Looks())", extra=extra)
    assert len(captured.card("attend")["variants"]) == 1
    assert captured.module.REGISTRY["attend"] is captured.module.attend


@pytest.mark.parametrize(
    "decorator",
    [
        "def decorate(f):\n    def anything(*a, **k):\n        return f(*a, **k)\n    return anything\n",
        "def decorate(f):\n    @functools.wraps(f)\n    def any(*a, **k):\n        return f(*a, **k)\n    return any\n",
        "def decorate(f):\n    f.kernel_name = 'fast'\n    return f\n",
        (
            "class decorate:\n    def __init__(self, f):\n        functools.update_wrapper(self, f)\n"
            "    def __call__(self, *a, **k):\n        return self.__wrapped__(*a, **k)\n"
        ),
    ],
)
def test_decorated_functions_are_cards_by_the_name_that_holds_them(sample, decorator):
    extra = f"{decorator}\n@decorate\ndef mine(x):\n    return x * 2.0 + 1.0\nkept = mine\n"
    captured = sample("model(lambda self, x: mine(x))", extra=extra)
    card = captured.card("mine")
    assert len(card["variants"]) == 1
    assert card["reference"]["qualname"] == "mine"
    assert captured.module.mine is captured.module.kept


def test_functions_imported_from_the_models_own_folder_are_cards(sample, tmp_path):
    (tmp_path / "own_operators.py").write_text("def tripled(x):\n    return x * 3.0\n")
    captured = sample("model(lambda self, x: three(x))", extra="from own_operators import tripled as three\n")
    card = captured.card("tripled")
    assert card["qualified_name"] == "own_operators:tripled"
    assert len(card["patch_sites"]) == 2
    assert captured.module.three is sys.modules.pop("own_operators").tripled


def test_an_environment_inside_the_folder_is_not_the_models_own(sample, tmp_path, monkeypatch):
    packages = tmp_path / ".venv" / "site-packages"
    packages.mkdir(parents=True)
    (packages / "installed_operators.py").write_text("def quadrupled(x):\n    return x * 4.0\n")
    monkeypatch.syspath_prepend(str(packages))
    captured = sample("model(lambda self, x: quadrupled(x))", extra="from installed_operators import quadrupled\n")
    assert "quadrupled" not in captured.names()
    sys.modules.pop("installed_operators")


def test_a_function_of_another_library_is_not_the_models_own(sample):
    captured = sample(
        "model(lambda self, x: tree_map(lambda y: y * 2, x))", extra="from torch.utils._pytree import tree_map\n"
    )
    assert "tree_map" not in captured.names()


def test_what_torch_compile_made_is_left_alone(sample):
    extra = """
class Compiled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Double()
        self.inner.compile(backend="eager")
    def forward(self, x):
        return self.inner(x)
compiled = torch.compile(helper, backend="eager")
"""
    captured = sample("model(lambda self, x: compiled(self.a(x)), a=Compiled())", extra=extra)
    assert captured.answer["notes"] == []
    assert "compiled by torch.compile" in captured.reason("Double")
    assert not [label for label, _, parent in captured.answer["calls"] if label == "torch torch:mul"]


def test_layers_that_differ_in_their_number_are_one_variant(sample):
    extra = """
class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.layer_idx = number
    def forward(self, x):
        return x * 2.0 if self.layer_idx >= 0 else x
class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer(number) for number in range(4))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
    captured = sample("model(lambda self, x: self.a(x), a=Stack())", extra=extra)
    card = captured.card("Layer")
    (variant,) = card["variants"]
    assert [item["name"] for item in variant["arguments"]] == ["x"]
    assert [call[1] for call in captured.answer["calls"] if call[0] == card["label"]] == [variant["key"]] * 4


def test_layers_that_compute_by_their_number_are_not_taken_for_one(sample):
    extra = """
class Layer(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.layer_idx = number
    def forward(self, x):
        return x * (1.0 + self.layer_idx)
"""
    captured = sample("model(lambda self, x: self.b(self.a(x)), a=Layer(0), b=Layer(1))", extra=extra)
    assert captured.card("Layer")["variants"] == []
    assert captured.reason("Layer") == "depends on the number of its layer"


def test_a_function_that_takes_a_module_names_it_and_where_to_look(sample):
    extra = """
def attend(module, x):
    return x * module.scale


class Attention(nn.Module):
    scale = 2.0

    def forward(self, x):
        return attend(self, x) + 1
"""
    captured = sample("model(lambda self, x: self.a(x), a=Attention())", extra=extra)
    assert captured.reason("attend") == "takes the module Attention itself as args[0]; see that module's card"
    assert len(captured.card("Attention")["variants"]) == 1


def test_the_parts_of_a_tuple_with_an_absent_tensor_have_names(sample):
    extra = """
def scaled(x, factors):
    cosine, offset = factors
    return x * cosine if offset is None else x * cosine + offset
"""
    captured = sample("model(lambda self, x: scaled(x, (x.cos(), None)))", extra=extra)
    (variant,) = captured.card("scaled")["variants"]
    said = [(item["name"], item["kind"], item["path"]) for item in variant["arguments"]]
    assert said == [
        ("x", "tensor", "args[0]"), ("factors_0", "tensor", "args[1][0]"), ("factors_1", "none", "args[1][1]"),
    ]  # fmt: skip
