"""Operators called between launches give what torch gives, through the stable ABI's dispatcher."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kforge_mcp.candidate.operators import OPERATORS
from kforge_mcp.export.operator_calls import DEFAULTS
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument
from tests.candidate.cards import absent, candidate_text, constant, dense, make_variant, strided, tensor
from tests.export.cuda.conftest import Item, Session, as_json, item

COPY = """
[[step]]
kernel = "copy"
grid = ["1"]
block = ["32"]
args = ["{source}", "{destination}"]
"""
NOTED = '[[step]]\nkernel = "noted"\ngrid = ["1"]\nblock = ["32"]\nargs = ["a", "{destination}"]\n'


def call(operator: str, args: list[str], out: str | list[str] = "out") -> str:
    return f'[[step]]\ncall = "{operator}"\nargs = {as_json(args)}\nout = {as_json(out)}\n'.replace("'", '"')


def single(name: str, step: str, tensors: list[TensorSpec], outputs: list[TensorSpec], *more: Argument) -> Item:
    """A candidate of one call on tensors `a`, `b`, ..., with a launch, which every candidate needs."""
    names = [tensor(letter, index) for index, letter in enumerate("abcd"[: len(tensors)])]
    variant = make_variant("v0", tensors, [*names, *more], outputs)
    destination = "out" if len(outputs) == 1 else "out0"
    launch = NOTED.format(destination=destination)
    code = f"__global__ void noted(const a_t* a, {destination}_t* b) {{}}\n"
    return item(name, candidate_text(step + launch, code), variant)


CASES: list[tuple[Item, str]] = [
    (
        single("Linear", call("aten::linear", ["a", "b", "c"]), [dense(2, 3, 8), dense(5, 8), dense(5)],
               [dense(2, 3, 5)]),
        "torch.nn.functional.linear(a, b, c)",
    ),
    (
        single("Plain", call("aten::linear", ["a", "b"]), [dense(3, 8), dense(5, 8)], [dense(3, 5)]),
        "torch.nn.functional.linear(a, b)",
    ),
    (single("Matmul", call("aten::matmul", ["a", "b"]), [dense(3, 8), dense(8, 5)], [dense(3, 5)]), "a @ b"),
    (
        single("Bmm", call("aten::bmm", ["a", "b"]), [dense(2, 3, 8), dense(2, 8, 5)],
               [strided((2, 3, 5), (15, 1, 3))]),
        "torch.bmm(a, b)",
    ),
    (
        single(
            "Addmm", call("aten::addmm", ["a", "b", "c", "2", "half"]), [dense(5), dense(3, 8), dense(8, 5)],
            [dense(3, 5)], constant("half", 0.5),
        ),
        "torch.addmm(a, b, c, beta=2, alpha=0.5)",
    ),
    (
        single("Addmm", call("aten::addmm", ["a", "b", "c"]), [dense(5), dense(3, 8), dense(8, 5)], [dense(3, 5)]),
        "torch.addmm(a, b, c)",
    ),
    (
        item(
            "Conv",
            candidate_text(
                '[[step]]\ncall = "aten::convolution"\nout = "out"\n'
                'args = ["a", "b", "c", ["1", "2"], ["1"], ["1", "1"], "no", ["0"], "1"]\n'
                + NOTED.format(destination="out"),
                "__global__ void noted(const a_t* a, out_t* b) {}\n",
            ),
            make_variant(
                "v0", [dense(1, 3, 8, 8), dense(4, 3, 3, 3)],
                [tensor("a", 0), tensor("b", 1), absent("c"), constant("no", False)], [dense(1, 4, 8, 4)],
            ),
        ),
        "torch.nn.functional.conv2d(a, b, None, (1, 2), 1)",
    ),
    (
        single(
            "Attention", call("aten::scaled_dot_product_attention", ["a", "b", "c", "mask", "0", "yes", "half"]),
            [dense(1, 2, 6, 8), dense(1, 2, 6, 8), dense(1, 2, 6, 8)], [dense(1, 2, 6, 8)],
            absent("mask"), constant("yes", True), constant("half", 0.5),
        ),
        "torch.nn.functional.scaled_dot_product_attention(a, b, c, None, 0.0, True, scale=0.5)",
    ),
    (
        single(
            "Topk", call("aten::topk", ["a", "3"], ["out0", "out1"]), [dense(4, 9)],
            [dense(4, 3), dense(4, 3, dtype="int64")],
        ),
        "torch.topk(a, 3)",
    ),
    (
        single(
            "Sort", call("aten::sort", ["a", "0", "yes"], ["out0", "out1"]), [dense(4, 9)],
            [dense(4, 9), dense(4, 9, dtype="int64")], constant("yes", True),
        ),
        "torch.sort(a, 0, True)",
    ),
    (
        single("Embedding", call("aten::embedding", ["a", "b"]), [dense(9, 4), dense(3, dtype="int64")], [dense(3, 4)]),
        "torch.nn.functional.embedding(b, a)",
    ),
]  # fmt: skip

CHAIN = item(
    "Chain",
    candidate_text(
        call("aten::linear", ["a", "b"], "h")
        + COPY.format(source="h", destination="act")
        + call("aten::linear", ["act", "c"]),
        "__global__ void copy(const float* h, float* act) {}\n",
    ).replace(
        "// ///\n__", '// [workspace]\n// act = {dtype = "fp32", shape = ["a.shape[0]", "b.shape[0]"]}\n// ///\n__'
    ),
    make_variant(
        "v0", [dense(3, 8), dense(6, 8), dense(5, 6)], [tensor("a", 0), tensor("b", 1), tensor("c", 2)], [dense(3, 5)]
    ),
)


@pytest.fixture(scope="module")
def session(built: Callable[[list[Item]], Session]) -> Session:
    return built([*[one for one, _ in CASES], CHAIN])


def test_each_operator_gives_what_torch_gives(session: Session) -> None:
    script = []
    for number, (one, reference) in enumerate(CASES):
        variant = one.card.variants[0]
        made = [
            f"torch.randint(0, 9, {spec.shape})" if spec.dtype == "int64" else f"torch.randn({spec.shape})"
            for spec in variant.tensors
        ]
        passed = [
            "abcd"[a.tensors[0]] if a.kind == "tensor" else "None" for a in variant.arguments if a.kind != "constant"
        ]
        name = one.card.name.lower() + ("_2" if number and one.card.name == CASES[number - 1][0].card.name else "")
        script.append(
            f"""
expected = [{{"arguments": [{{"kind": "tensor"}}, {{"kind": "output"}}]}}] * 99
assert load({number}, 0, {one.symbols}) == ""
{", ".join("abcd"[: len(made)])}, = {", ".join(made)},
wanted, found = {reference}, torch.ops.gpukernels.{name}({", ".join(passed)}, 0)
many = isinstance(wanted, tuple)
wanted, found = (wanted, found) if many else ([wanted], [found])
for one, two, stride in zip(wanted, found, {[spec.stride for spec in variant.outputs]}):
    assert torch.equal(one, two), {name!r}
    assert list(two.stride()) == stride, {name!r}
assert launches[-1][2] == [a.data_ptr(), found[0].data_ptr()], {name!r}
"""
        )
    session("\n".join(script))


def test_a_launch_between_two_calls_works_on_their_memory(session: Session) -> None:
    session(
        f"""
assert load({len(CASES)}, 0, {CHAIN.symbols}) == ""
expected = [{{"arguments": [{{"kind": "intermediate"}}, {{"kind": "workspace"}}]}}]

def gelu(config, pointers):
    source, destination = [(ctypes.c_float * 18).from_address(at) for at in pointers]
    for index in range(18):
        destination[index] = max(source[index], 0.0)

kernels["_copy"] = [gelu]
a, b, c = torch.randn(3, 8), torch.randn(6, 8), torch.randn(5, 6)
wanted = torch.nn.functional.linear(torch.relu(torch.nn.functional.linear(a, b)), c)
assert torch.equal(torch.ops.gpukernels.chain(a, b, c, 0), wanted)
"""
    )


def test_left_out_arguments_are_what_torch_says(toolbox) -> None:
    kinds = {name: [[slot.name, slot.required] for slot in one.slots] for name, one in OPERATORS.items()}
    toolbox.python(
        f"""
import torch
defaults = {DEFAULTS!r}
for name, slots in {kinds!r}.items():
    schema = getattr(torch.ops.aten, name.partition("::")[2]).default._schema
    assert len(schema.arguments) == len(slots), name
    for argument, (slot, required) in zip(schema.arguments, slots):
        assert argument.has_default_value() != required, (name, slot)
        if not required:
            assert defaults[name][slot] == argument.default_value, (name, slot)
"""
    )
