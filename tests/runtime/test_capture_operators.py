"""Torch operators: one name for all spellings, arguments by name, and cards that replay."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from kforge_mcp.runtime import blobs
from kforge_mcp.runtime.capture_operators import operator_of
from kforge_mcp.runtime.reference import load_reference
from kforge_mcp.runtime.tensors import from_bytes
from kforge_mcp.runtime.values import flatten

X, Y, W = torch.randn(2, 3), torch.randn(2, 3), torch.randn(3, 3)
IMAGE = torch.randn(1, 2, 4, 4)


class _Seen(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def _named(run):
    """Name and named arguments of the one operator that a call is; tensors as their letters."""
    with _Seen() as seen:
        run()
    function, args, kwargs = seen.calls[0]
    operator = operator_of(function)
    assert operator is not None
    letters = {id(X): "X", id(Y): "Y", id(W): "W"}
    bound = operator.bind(args, kwargs)
    return operator.name, [(name, letters.get(id(value), value)) for name, _, value in bound or []]


@pytest.mark.parametrize(
    "run",
    [
        lambda: functional.softmax(X, -1),
        lambda: torch.softmax(X, dim=-1),
        lambda: X.softmax(-1),
        lambda: torch.special.softmax(X, -1),
        lambda: torch.ops.aten.softmax.int(X, -1),
    ],
)
def test_softmax_in_all_spellings_is_one_operator(run):
    assert _named(run) == ("torch.nn.functional.softmax", [("input", "X"), ("dim", -1), ("dtype", None)])


@pytest.mark.parametrize(
    ("run", "name", "arguments"),
    [
        (lambda: X @ W, "torch.matmul", [("input", "X"), ("other", "W")]),
        (lambda: torch.matmul(X, other=W), "torch.matmul", [("input", "X"), ("other", "W")]),
        (lambda: X + Y, "torch.add", [("input", "X"), ("other", "Y"), ("alpha", 1)]),
        (lambda: torch.add(X, Y, alpha=1), "torch.add", [("input", "X"), ("other", "Y"), ("alpha", 1)]),
        (lambda: 2 + X, "torch.add", [("input", "X"), ("other", 2), ("alpha", 1)]),
        (lambda: 1 - X, "torch.rsub", [("input", "X"), ("other", 1)]),
        (lambda: X / 2, "torch.div", [("input", "X"), ("other", 2)]),
        (lambda: torch.true_divide(X, 2), "torch.div", [("input", "X"), ("other", 2)]),
        (lambda: X**2, "torch.pow", [("input", "X"), ("exponent", 2)]),
        (lambda: X > 0, "torch.gt", [("input", "X"), ("other", 0)]),
        (lambda: X.mul_(1), "torch.Tensor.mul_", [("input", "X"), ("other", 1)]),
        (lambda: X.relu(), "torch.nn.functional.relu", [("input", "X")]),
        (lambda: functional.relu(X), "torch.nn.functional.relu", [("input", "X")]),
        (
            lambda: functional.linear(X, W),
            "torch.nn.functional.linear",
            [("input", "X"), ("weight", "W"), ("bias", None)],
        ),
        (
            lambda: X.sum(axis=1, keepdims=True),
            "torch.sum",
            [("input", "X"), ("dim", [1]), ("keepdim", True), ("dtype", None)],
        ),
        (lambda: X.repeat(1, 2), "torch.Tensor.repeat", [("input", "X"), ("repeats", [1, 2])]),
        (lambda: X.amax(dim=0), "torch.amax", [("input", "X"), ("dim", [0]), ("keepdim", False)]),
        (lambda: X.permute(1, 0), "torch.permute", [("input", "X"), ("dims", [1, 0])]),
        (
            lambda: X.unfold(1, 2, 1),
            "torch.Tensor.unfold",
            [("input", "X"), ("dimension", 1), ("size", 2), ("step", 1)],
        ),
        (lambda: X.float(), "torch.Tensor.float", [("input", "X")]),
        (lambda: X[0], "torch.Tensor.__getitem__", [("input", "X"), ("key", 0)]),
    ],
)  # fmt: skip
def test_operators_have_one_name_and_their_arguments_too(run, name, arguments):
    assert _named(run) == (name, arguments)


def test_operators_without_a_python_signature_are_bound_from_what_torch_states():
    name, arguments = _named(lambda: functional.max_pool2d(IMAGE, 2))
    assert name == "torch.nn.functional.max_pool2d"
    assert [item[0] for item in arguments][:4] == ["input", "kernel_size", "stride", "padding"]
    name, arguments = _named(lambda: torch.einsum("ij,jk->ik", X, W))
    assert (name, arguments[0]) == ("torch.einsum", ("equation", "ij,jk->ik"))
    assert arguments[1][1][1] is W


def test_questions_about_a_tensor_are_no_operators():
    with _Seen() as seen:
        _ = X.shape, X.size(0), X.dim(), X.is_contiguous()
    assert [operator_of(function) for function, _, _ in seen.calls] == [None] * 4


def test_all_spellings_are_one_card_and_equal_calls_one_variant(sample):
    captured = sample("model(lambda self, x: x.softmax(-1) + torch.softmax(x, dim=-1) + nn.functional.softmax(x, -1))")
    card = captured.card("torch.nn.functional.softmax")
    assert (card["level"], card["qualified_name"]) == ("torch", "torch.nn.functional:softmax")
    assert len(card["variants"]) == 1
    assert [call[0] for call in captured.answer["calls"]].count(card["label"]) == 3
    assert card["patch_sites"] == ["torch.nn.functional:softmax", "torch:Tensor.softmax", "torch:softmax"]
    assert captured.card("torch.add")["variants"][0]["arguments"][0]["name"] == "input"
    assert "# dispatches to aten._softmax" in card["reference_source"]


def test_a_torch_card_replays_bit_for_bit_by_its_own_spelling(sample):
    captured = sample("model(lambda self, x: x.transpose(1, 2).softmax(-1))")
    card = captured.card("torch.nn.functional.softmax")
    (variant,) = card["variants"]
    assert variant["call"]["function"] == "torch:Tensor.softmax"
    assert card["reference"]["imports"] == []
    given = [from_bytes(spec, blobs.read(captured.root, spec["sample"])) for spec in variant["tensors"]]
    (output,) = flatten(load_reference(card["reference"], captured.root).call(given, variant["call"]))
    torch.manual_seed(0)
    assert torch.equal(output, torch.randn(2, 4, 8).transpose(1, 2).softmax(-1))
    assert variant["tensors"][0]["stride"] == [32, 1, 8]


def test_what_an_operator_itself_calls_is_not_counted_again(sample):
    captured = sample("model(lambda self, x: nn.functional.multi_margin_loss(x[0], torch.arange(4)) + 0)")
    operators = [name for name in captured.names() if name.startswith("torch.")]
    assert operators == ["torch.Tensor.__getitem__", "torch.nn.functional.multi_margin_loss", "torch.add"]


def test_a_custom_operator_is_a_card_that_needs_its_file(sample):
    extra = """
@torch.library.custom_op("kforge_test::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
"""
    captured = sample("model(lambda self, x: torch.ops.kforge_test.twice(x))", extra=extra)
    card = captured.card("torch.ops.kforge_test.twice")
    assert len(card["variants"]) == 1
    assert len(card["reference"]["imports"]) == 1


def test_the_parts_of_an_index_have_names_of_their_own(sample):
    captured = sample("model(lambda self, x: x[..., 1:7:2, torch.tensor([1, 0, 1])])")
    (variant,) = captured.card("torch.Tensor.__getitem__")["variants"]
    said = [(item["name"], item.get("value"), item.get("tensors")) for item in variant["arguments"]]
    assert said == [("input", None, [0]), ("key_0", "...", None), ("key_1", "1:7:2", None), ("key_2", None, [1])]


@pytest.mark.parametrize("index", ["..., 0", ":, 1:", "None, ::2", "1:", "0"])
def test_an_index_of_slices_and_numbers_gives_a_view_and_says_so(sample, index):
    captured = sample(f"model(lambda self, x: x[{index}])")
    assert "view of its input" in captured.reason("torch.Tensor.__getitem__")


def test_writing_to_a_slice_says_that_it_writes_in_place(sample):
    extra = "def forward(self, x):\n    x = x + 1\n    x[:, 1:] = 0.5\n    return x\n"
    captured = sample("model(forward)", extra=extra)
    assert captured.reason("torch.Tensor.__setitem__") == "writes into an input in place"


def test_torchs_own_attention_keeps_its_fast_path(sample):
    extra = "layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()\n"
    captured = sample("model(lambda self, x: self.a(x), a=layer)", extra=extra)
    assert "torch._transformer_encoder_layer_fwd" in captured.names()
    assert captured.answer["notes"] == []
    assert torch.overrides.has_torch_function([torch.nn.Parameter(X), X]) is False


def test_calls_inside_a_transform_are_left_out_with_the_reason(sample):
    captured = sample("model(lambda self, x: torch.func.vmap(helper)(x))")
    assert captured.reason("helper") == "runs inside a torch.func transform"
    assert captured.reason("torch.add") == "runs inside a torch.func transform"


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_a_module_under_two_transforms_is_left_out_with_the_reason(sample):
    captured = sample(
        "model(lambda self, x: torch.func.vmap(self.a)(torch.func.jvp(self.a, (x,), (x,))[1]) + x, a=Norm(8))"
    )
    assert captured.reason("Norm") == "runs inside a torch.func transform"
    assert captured.card("torch.add")["variants"]
