"""The sampling pass on constructed models: cards, variants, eligibility, and a workload left as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kforge_mcp.runtime import blobs
from kforge_mcp.runtime import capture as capture_module
from kforge_mcp.runtime.capture import capture
from kforge_mcp.runtime.recipes import draw
from kforge_mcp.runtime.reference import load_reference
from kforge_mcp.runtime.tensors import from_bytes
from kforge_mcp.runtime.values import flatten


def _tensors(captured: Any, variant: dict[str, Any]) -> list[torch.Tensor]:
    return [from_bytes(spec, blobs.read(captured.root, spec["sample"])) for spec in variant["tensors"]]


def _arguments(variant: dict[str, Any]) -> list[tuple[str, str, Any]]:
    return [
        (item["name"], item["kind"], item.get("value") if item["kind"] == "constant" else item.get("tensors"))
        for item in variant["arguments"]
    ]


def test_a_module_class_becomes_a_card_with_its_parameters_and_constants(sample):
    captured = sample("model(lambda self, x: self.b(self.a(x)), a=Norm(8), b=Norm(8))")
    card = captured.card("Norm")
    (variant,) = card["variants"]
    assert _arguments(variant) == [
        ("hidden_states", "tensor", [0]),
        ("weight", "tensor", [1]),
        ("eps", "constant", 1e-6),
        ("config_hidden_size", "constant", 8),
    ]
    assert [item["role"] for item in variant["arguments"]] == ["input", "parameter", "constant", "constant"]
    assert [item["path"] for item in variant["arguments"]][2:] == ["self.eps", "self.config.hidden_size"]
    assert variant["outputs"][0]["shape"] == [2, 4, 8]
    assert [call[0] for call in captured.answer["calls"]].count(card["label"]) == 2
    assert "def forward(self, hidden_states)" in card["reference_source"]


def test_the_reference_replays_bit_for_bit_from_stored_samples(sample):
    captured = sample("model(lambda self, x: self.a(x), a=Norm(8))")
    card = captured.card("Norm")
    (variant,) = card["variants"]
    hidden, weight = _tensors(captured, variant)
    torch.manual_seed(0)
    assert torch.equal(hidden, torch.randn(2, 4, 8))
    reference = load_reference(card["reference"], captured.root)
    (output,) = flatten(reference.call([hidden, weight], variant["call"]))
    assert torch.equal(output, captured.module.Norm(8)(hidden))


def test_the_reference_uses_fresh_parameters_also_in_double_precision(sample):
    captured = sample("model(lambda self, x: self.a(x), a=Norm(8))")
    card = captured.card("Norm")
    (variant,) = card["variants"]
    generator = torch.Generator().manual_seed(1)
    fresh = [draw(spec, generator, blob_root=captured.root) for spec in variant["tensors"]]
    assert fresh[1].std() > 0
    reference = load_reference(card["reference"], captured.root)
    single = reference.call(fresh, variant["call"])
    double = reference.call([tensor.double() for tensor in fresh], variant["call"])
    assert double.dtype is torch.float64
    torch.testing.assert_close(single.double(), double, rtol=1e-5, atol=1e-6)
    assert not torch.equal(single, reference.call([fresh[0], fresh[1] * 2], variant["call"]))


def test_a_function_becomes_a_card_with_defaults_keywords_and_absent_tensors(sample):
    captured = sample("model(lambda self, x: scale_rows(x, x[0], bias=None))")
    card = captured.card("scale_rows")
    (variant,) = card["variants"]
    assert _arguments(variant) == [
        ("x", "tensor", [0]),
        ("weight", "tensor", [1]),
        ("power", "constant", 2),
        ("bias", "none", None),
    ]
    assert [item["path"] for item in variant["arguments"]] == ["args[0]", "args[1]", "default.power", "kwargs.bias"]
    assert card["patch_sites"] == [f"{captured.module.__name__}:scale_rows"]
    assert "def helper(x)" in card["reference_source"]
    assert card["children"] == [captured.card("helper")["label"], "torch torch:mul", "torch torch:pow"]
    # The second tensor is a view of the first: candidates see one storage.
    assert variant["tensors"][0]["storage_id"] == variant["tensors"][1]["storage_id"]


def test_decorated_functions_are_cards_too(sample):
    captured = sample("model(lambda self, x: wrapped_function(x))")
    assert len(captured.card("wrapped_function")["variants"]) == 1


def test_a_function_held_by_a_module_is_a_card(sample):
    captured = sample("model(lambda self, x: self.a(x), a=HoldsFunction())")
    assert len(captured.card("wrapped_function")["variants"]) == 1


def test_a_function_imported_elsewhere_is_watched_and_restored_there(sample):
    extra = """
import sys, types
elsewhere = sys.modules.setdefault("elsewhere_of_" + __name__, types.ModuleType("elsewhere_of_" + __name__))
elsewhere.renamed = helper
"""
    captured = sample("model(lambda self, x: elsewhere.renamed(x))", extra=extra)
    name = captured.module.__name__
    assert set(captured.card("helper")["patch_sites"]) == {f"elsewhere_of_{name}:renamed", f"{name}:helper"}
    assert captured.module.elsewhere.renamed is captured.module.helper


def test_nothing_stays_patched(sample):
    before = torch.nn.Module.__call__
    extra = "taken = []\nplain_helper = helper\n"
    captured = sample("model(lambda self, x: (taken.append(helper), helper(self.a(x)))[1], a=Norm(8))", extra=extra)
    assert torch.nn.Module.__call__ is before
    assert captured.module.helper is captured.module.plain_helper
    assert not hasattr(captured.module.helper, "__wrapped__")


def test_references_to_a_wrapper_taken_during_the_run_are_put_back(sample):
    extra = """
plain_helper = helper
def body(self, x):
    global alias
    alias = self.alias = helper
    return alias(x)
"""
    captured = sample("model(body)", extra=extra)
    assert captured.module.alias is captured.module.plain_helper


def test_one_class_with_other_shapes_and_constants_has_a_variant_each(sample):
    captured = sample("model(lambda self, x: self.b(self.a(x)[:1]), a=Norm(8), b=Norm(8, eps=1e-3))")
    variants = captured.card("Norm")["variants"]
    assert [variant["tensors"][0]["shape"] for variant in variants] == [[2, 4, 8], [1, 4, 8]]
    assert [variant["arguments"][2]["value"] for variant in variants] == [1e-6, 1e-3]
    card = captured.card("Norm")
    reference = load_reference(card["reference"], captured.root)
    for variant in variants:
        hidden, weight = _tensors(captured, variant)
        module = captured.module.Norm(8, eps=variant["arguments"][2]["value"])
        assert torch.equal(reference.call([hidden, weight], variant["call"]), module(hidden))


def test_other_strides_are_another_variant_and_are_kept(sample):
    captured = sample("model(lambda self, x: helper(x) + helper(x.transpose(1, 2).contiguous().transpose(1, 2)))")
    strides = [variant["tensors"][0]["stride"] for variant in captured.card("helper")["variants"]]
    assert strides == [[32, 8, 1], [32, 1, 4]]


def test_stride_zero_and_storage_offset_survive(sample):
    captured = sample("model(lambda self, x: helper(x[1:, :1].expand(1, 4, 8)))")
    (variant,) = captured.card("helper")["variants"]
    spec = variant["tensors"][0]
    assert (spec["stride"], spec["storage_offset"]) == ([32, 0, 1], 32)
    assert variant["unique_bytes"] == 8 * 4 + 32 * 4


def test_names_that_c_cannot_have_get_an_underscore(sample):
    captured = sample("model(lambda self, x: self.b([self.a(x), x], x), a=Optional(), b=Listed())")
    (optional,) = captured.card("Optional")["variants"]
    assert _arguments(optional) == [
        ("out_", "tensor", [0]),
        ("mask", "none", None),
        ("double_", "constant", False),
        ("shift", "tensor", [1]),
        ("bias", "none", None),
    ]
    (listed,) = captured.card("Listed")["variants"]
    assert _arguments(listed) == [("pair", "tensors", [0, 1]), ("register_", "tensor", [1])]


def test_several_outputs_keep_their_structure(sample):
    captured = sample("model(lambda self, x: gives_two(x)[0])")
    (variant,) = captured.card("gives_two")["variants"]
    assert len(variant["outputs"]) == 2
    assert variant["output_tree"]["tuple"][1] == {"v": None}


def test_tuples_of_numbers_are_constants(sample):
    captured = sample("model(lambda self, x: keeps_list(x))")
    (variant,) = captured.card("keeps_list")["variants"]
    assert ("steps", "constant", [1, 2]) in _arguments(variant)


def test_a_parameter_shared_by_two_modules_is_one_tensor(sample):
    extra = """
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 8)
        self.b.weight = self.a.weight
    def forward(self, x):
        return self.b(self.a(x))
"""
    captured = sample("model(lambda self, x: self.a(x), a=Tied())", extra=extra)
    (variant,) = captured.card("Tied")["variants"]
    assert variant["call"]["parameters"] == {"a.weight": 1, "a.bias": 2, "b.weight": 1, "b.bias": 3}
    assert [item["name"] for item in variant["arguments"]] == ["x", "a_weight", "a_bias", "b_bias"]


def test_an_infinite_constant_is_said_by_name(sample):
    captured = sample("model(lambda self, x: takes_infinity(x, float('inf')))")
    (variant,) = captured.card("takes_infinity")["variants"]
    assert ("limit", "constant", "inf") in _arguments(variant)
    assert variant["call"]["args"][1] == {"f": "inf"}


@pytest.mark.parametrize(
    ("body", "name", "said"),
    [
        ("lambda self, x: writes(x)", "writes", "writes into an input"),
        ("lambda self, x: draws(x)", "draws", "random"),
        ("lambda self, x: gives_view(x) + 1", "gives_view", "view of its input"),
        ("lambda self, x: gives_input(x) + 1", "gives_input", "the input itself"),
        ("lambda self, x: gives_selection(x)", "gives_selection", "depends on values"),
        ("lambda self, x: branches(x)", "branches", "depends on values"),
        ("lambda self, x: takes_object(x, self.config)", "takes_object", "Settings as args[1]"),
    ],
)
def test_functions_that_are_not_pure_say_why(sample, body, name, said):
    captured = sample(f"model({body}, config=configured())", extra=_CONFIGURED)
    assert captured.card(name)["variants"] == []
    assert said in captured.reason(name)


_CONFIGURED = """
def configured():
    settings = Settings()
    settings.gain = 2.0
    return settings
"""


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [
        ("Counts()", "Counts", "keeps state"),
        ("WritesBuffer()", "WritesBuffer", "writes into its parameters or buffers"),
        ("HoldsTensor()", "HoldsTensor", "neither parameters nor buffers (it: table)"),
        ("HoldsLambda()", "HoldsLambda", "cannot be pickled"),
        ("hooked()", "Double", "has hooks"),
        ("patched()", "Double", "forward of its own"),
        ("Drops()", "Drops", "random"),
        ("nn.Identity()", "Identity", "the input itself"),
    ],
)
def test_modules_that_are_not_pure_say_why(sample, part, name, said):
    captured = sample(f"model(lambda self, x: self.a(x) + 0, a={part})", extra=_SPOILED)
    assert captured.card(name)["variants"] == []
    assert said in captured.reason(name)


_SPOILED = """
def hooked():
    module = Double()
    module.register_forward_hook(lambda module, args, result: None)
    return module

def patched():
    module = Double()
    module.forward = functools.partial(torch.mul, other=3.0)
    return module

class Drops(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, training=True)
"""


def test_functions_without_tensors_are_no_cards(sample):
    captured = sample("model(lambda self, x: x * without_tensors(2))")
    assert "without_tensors" not in captured.names()


def test_a_card_with_some_eligible_calls_keeps_those(sample):
    extra = """
def maybe(x, write):
    if write:
        x.add_(1)
    return x + 1
"""
    captured = sample("model(lambda self, x: maybe(maybe(x.clone(), True), False))", extra=extra)
    card = captured.card("maybe")
    assert len(card["variants"]) == 1
    assert list(card["refused"].values()) == [1]


def test_a_call_that_raises_inside_the_model_is_not_eligible(sample):
    extra = """
def fails(x):
    raise KeyError("absent")

def body(self, x):
    try:
        return fails(x)
    except KeyError:
        return helper(x)
"""
    captured = sample("model(body)", extra=extra)
    assert captured.names() == ["Body", "helper", "torch.add"]


def test_the_whole_model_is_left_to_its_parts(sample):
    extra = """
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Norm(8)
    def forward(self, x):
        return self.a(x) * 2
"""
    captured = sample("(Whole(), torch.ones(2, 8))", extra=extra)
    assert captured.reason("Whole") == "is the whole model; see its parts"


def test_a_model_that_is_one_operator_is_a_card(sample):
    captured = sample("(Norm(8), torch.randn(2, 8))")
    assert len(captured.card("Norm")["variants"]) == 1


def test_calls_carry_the_tree_between_cards(sample):
    captured = sample("model(lambda self, x: helper(self.a(x)), a=nn.Sequential(Norm(8), Double()))")
    assert captured.card("Norm")["parents"] == [captured.card("Sequential")["label"]]
    assert captured.card("Body")["children"] == sorted(
        [captured.card("Sequential")["label"], captured.card("helper")["label"]]
    )
    calls = captured.answer["calls"]
    outer = [index for index, call in enumerate(calls) if not call[0].startswith("torch ")]
    assert [calls[index][0].rpartition(":")[2] for index in outer] == ["Body", "Sequential", "Norm", "Double", "helper"]
    assert [calls[index][2] for index in outer] == [-1, 0, 1, 1, 0]
    assert [label for label, _, parent in calls if parent == outer[3]] == ["torch torch:mul"]


def test_matrix_products_are_counted_and_gathers_read_what_they_give(sample):
    captured = sample(
        "model(lambda self, x: self.b(self.a(x)[0, :, 0].long().abs() % 4), a=nn.Linear(8, 16), b=E())",
        extra="E = lambda: nn.Embedding(1000, 8)",
    )
    (linear,) = captured.card("Linear")["variants"]
    assert linear["flops"] == 2 * 8 * 8 * 16
    assert linear["unique_bytes"] == 4 * (64 + 128 + 16 + 128)
    (embedding,) = captured.card("Embedding")["variants"]
    assert embedding["unique_bytes"] == 4 * 8 + 4 * 8 * 4 + 4 * 8 * 4


def test_beyond_the_budget_recipes_stand_in_for_samples(sample):
    captured = sample("model(lambda self, x: self.a(x), a=Norm(8))", max_bytes=0)
    (variant,) = captured.card("Norm")["variants"]
    assert [spec["sample"] for spec in variant["tensors"]] == ["", ""]
    assert all(spec["recipe"]["kind"] == "quantiles" for spec in variant["tensors"])
    assert "exceed max_bytes" in captured.answer["notes"][0]


def test_indices_that_fresh_values_would_break_keep_their_captured_values(sample):
    extra = """
def segments(x, lengths):
    return torch.segment_reduce(x[0], "sum", lengths=lengths)
"""
    captured = sample("model(lambda self, x: segments(x, torch.tensor([2, 0, 1, 1])))", extra=extra)
    (variant,) = captured.card("segments")["variants"]
    assert variant["tensors"][1]["recipe"]["kind"] == "constant"


def test_a_workload_whose_results_differ_between_runs_is_said(sample):
    assert sample("model(lambda self, x: helper(x))").answer["notes"] == []
    captured = sample("model(lambda self, x: draws(x))")
    assert captured.answer["notes"] == ["two runs of the workload gave different results: it is not deterministic"]


def test_a_cuda_target_without_a_gpu_says_what_is_missing(sample, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("this machine has a usable GPU")
    payload = {"pass": "timing", "entry": "x.py:build", "project_dir": str(tmp_path), "target": "cuda"}
    with pytest.raises(Exception, match=r"target_unavailable.*CUDA"):
        capture(payload, lambda event: None)


def test_under_autocast_only_what_it_does_not_change_is_eligible(sample):
    extra = """
def body(self, x):
    with torch.autocast("cpu", torch.bfloat16):
        return self.a(helper(x))
"""
    captured = sample("model(body, a=nn.Linear(8, 8))", extra=extra)
    (variant,) = captured.card("helper")["variants"]
    assert variant["call"]["autocast"] == "bf16"
    assert captured.reason("Linear") == "runs under autocast, which changes its result"


@pytest.mark.parametrize(
    ("times", "kinds", "reason"),
    [
        (0, ["quantiles", "integers"], ""),
        (1, ["quantiles", "constant"], ""),
        (2, [], "fails the GPU when it is run again"),
    ],
)
def test_a_variant_that_cost_the_gpu_keeps_its_integers_and_then_is_left_out(sample, monkeypatch, times, kinds, reason):
    real = capture_module._complete
    monkeypatch.setattr(
        capture_module,
        "_complete",
        lambda card, workload, prover, _: real(card, workload, prover, [f"{card.target.label} #0"] * times),
    )
    extra = "def spread(x, places): return x * places.sum()\n"
    captured = sample("model(lambda self, x: spread(x, torch.tensor([0, 3, 1, 1])))", extra=extra)
    variants = captured.card("spread")["variants"]
    assert [spec["recipe"]["kind"] for variant in variants for spec in variant["tensors"]] == kinds
    assert captured.reason("spread") == reason


def test_an_argument_whose_fields_refuse_to_be_read_costs_its_card_not_the_capture(sample):
    extra = """
import dataclasses
@dataclasses.dataclass
class Config:
    size: int = 8
    def __getattribute__(self, name):
        if name == "size":
            raise RuntimeError("ambiguous")
        return super().__getattribute__(name)
class Configured(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Config()
    def forward(self, x, config):
        if config is None:
            return x * self.config.size
        return x * 2
"""
    captured = sample("model(lambda self, x: self.a(helper(x), Config()), a=Configured())", extra=extra)
    assert "whose fields cannot be read" in captured.reason("Configured")
    assert captured.card("helper")["variants"]


def test_a_constant_that_refuses_to_be_read_is_none(sample):
    extra = """
class Guarded:
    def __getattribute__(self, name):
        if name == "size":
            raise RuntimeError("ambiguous")
        return super().__getattribute__(name)
class Reads(nn.Module):
    def __init__(self):
        super().__init__()
        self.config = Guarded()
    def forward(self, x):
        try:
            return x * self.config.size
        except RuntimeError:
            return x * 2
"""
    captured = sample("model(lambda self, x: self.a(x), a=Reads())", extra=extra)
    (variant,) = captured.card("Reads")["variants"]
    assert _arguments(variant) == [("x", "tensor", [0])]
