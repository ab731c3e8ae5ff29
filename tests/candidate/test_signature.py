from __future__ import annotations

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.candidate.signature import c_signature, groups, minimal_candidate
from kforge_mcp.records.variant import Argument
from tests.candidate.cards import (
    absent,
    candidate_text,
    constant,
    dense,
    layer_norm,
    make_card,
    make_variant,
    rms_norm,
    rotary,
    tensor,
)

LISTED = make_card(
    make_variant(
        "v0",
        [dense(4), dense(5, dtype="bf16"), dense(6, dtype="int64")],
        [
            Argument(name="tensors", kind="tensors", role="input", tensors=[0, 1]),
            tensor("index", 2),
            absent("mask"),
            constant("mode", "nearest"),
            constant("kernel_size", [3, 3]),
            constant("flag", True),
            constant("dim", -1),
            constant("nothing", None),
        ],
        [dense(9), dense(9, dtype="bool")],
    )
)
CARDS = [
    make_card(rms_norm(2, 64), rms_norm(4, 64, dtype="bf16", variant_id="v1")),
    make_card(layer_norm(2, 64), layer_norm(2, 64, dtype="fp64", variant_id="v1")),
    make_card(rotary()),
    LISTED,
]


def test_the_signature_of_a_plan_names_every_type() -> None:
    card = make_card(rms_norm(2, 64))
    text = candidate_text(
        'entry = "f"\nargs = ["hidden_states", "weight.shape[-1]", "variance_epsilon", "2 > 1", "out"]'
    )
    plan = parse_plan(text, card, "cpu")
    assert isinstance(plan, Plan)
    assert c_signature(card, plan) == (
        'extern "C" void f(const float* hidden_states, int64_t weight_shape_last, float variance_epsilon, '
        "bool argument3, float* out);"
    )


def test_variants_with_other_types_have_a_signature_of_their_own() -> None:
    card = CARDS[0]
    plan = parse_plan(candidate_text('entry = "f"\nargs = ["weight", "out"]'), card, "cpu")
    assert isinstance(plan, Plan)
    assert c_signature(card, plan).splitlines() == [
        'extern "C" void f(const float* weight, float* out);  // v0',
        'extern "C" void f(const uint16_t* weight, uint16_t* out);  // v1',
    ]
    first, second = groups(plan, card, {})
    assert [variant.variant_id for variant in first.variants] == ["v0"]
    assert second.dtypes == {"hidden_states": "bf16", "weight": "bf16", "out": "bf16"}


def test_the_signature_of_a_card_tells_what_stands_behind_its_names() -> None:
    text = c_signature(CARDS[0])
    assert text.startswith(
        'extern "C" void kernel(const hidden_states_t* hidden_states, const weight_t* weight, '
        "variance_epsilon_t variance_epsilon, out_t* out, int64_t out_numel);"
    )
    assert "// weight_t = float (fp32) or uint16_t (bf16)" in text
    assert "bf16_to_float" in text
    assert len(text) < 1500


def test_an_absent_tensor_has_the_type_it_has_elsewhere() -> None:
    with_bias = make_variant("v0", [dense(4), dense(4, dtype="fp64")], [tensor("x", 0), tensor("bias", 1)], [dense(4)])
    without = make_variant("v1", [dense(4)], [tensor("x", 0), absent("bias")], [dense(4)])
    card = make_card(with_bias, without)
    plan = parse_plan(candidate_text('entry = "f"\nargs = ["bias"]'), card, "cpu")
    assert isinstance(plan, Plan)
    (group,) = groups(plan, card, {})
    assert group.dtypes["bias"] == "fp64"
    assert "bias_t = double (fp64); null where absent" in c_signature(card)


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.variants[0].arguments[0].name)
def test_the_minimal_candidate_of_a_card_is_a_valid_plan(card: object) -> None:
    plan = parse_plan(minimal_candidate(card), card, "cpu")  # pyright: ignore[reportArgumentType]
    assert isinstance(plan, Plan), plan.message


def test_the_minimal_candidate_leaves_out_types_that_the_cpu_lacks() -> None:
    odd = make_variant("v1", [dense(4, dtype="complex64")], [tensor("x", 0)], [dense(4)])
    card = make_card(make_variant("v0", [dense(4)], [tensor("x", 0)], [dense(4)]), odd)
    plan = parse_plan(minimal_candidate(card), card, "cpu")
    assert isinstance(plan, Plan)
    assert [variant.variant_id for group in groups(plan, card, {}) for variant in group.variants] == ["v0"]
