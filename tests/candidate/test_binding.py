from __future__ import annotations

from kforge_mcp.candidate.binding import BoundArgument, BoundWorkspace, bind, bind_workspaces
from kforge_mcp.candidate.plan import Plan, Rejected, parse_plan
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.variant import Argument
from tests.candidate.cards import (
    absent,
    candidate_text,
    constant,
    dense,
    make_card,
    make_variant,
    rms_norm,
    rotary,
    tensor,
)


def plan_for(card: OperatorCard, metadata: str) -> Plan:
    plan = parse_plan(candidate_text(metadata), card, "cpu")
    assert isinstance(plan, Plan), plan.message
    return plan


def test_arguments_bind_in_the_order_of_the_parameters() -> None:
    card = make_card(rms_norm(2, 8, 64))
    plan = plan_for(
        card,
        """entry = "k"
args = ["out", "weight", "hidden_states", "variance_epsilon", "out.numel", "weight is None", "A", "F", "scratch"]
[tunables]
A = [4]
F = [0.5]
[workspace]
scratch = { dtype = "fp32", shape = ["A", "out.shape[0]"], init = "zero" }""",
    )
    config = {"A": 4, "F": 0.5}
    assert bind(plan, card.variants[0], config) == [
        BoundArgument(kind="output", index=0, name="out"),
        BoundArgument(kind="tensor", index=1, name="weight"),
        BoundArgument(kind="tensor", index=0, name="hidden_states"),
        BoundArgument(kind="scalar", scalar_type="float", value=1e-6),
        BoundArgument(kind="scalar", scalar_type="int64", value=1024),
        BoundArgument(kind="scalar", scalar_type="bool", value=False),
        BoundArgument(kind="scalar", scalar_type="int64", value=4),
        BoundArgument(kind="scalar", scalar_type="float", value=0.5),
        BoundArgument(kind="workspace", index=0, name="scratch"),
    ]
    (space,) = bind_workspaces(plan, card.variants[0], config)
    assert isinstance(space, BoundWorkspace)
    assert (space.shape, space.init, space.size_bytes) == ([4, 2], "zero", 32)


def test_floating_constants_are_doubles_where_tensors_are_fp64() -> None:
    card = make_card(rms_norm(8, 4, dtype="fp64"))
    plan = plan_for(card, 'entry = "k"\nargs = ["variance_epsilon"]')
    (bound,) = bind(plan, card.variants[0], {})
    assert isinstance(bound, BoundArgument)
    assert bound.scalar_type == "double"


def test_several_outputs_and_strides_of_views_bind() -> None:
    card = make_card(rotary(positions=10, heads=4, size=16))
    plan = plan_for(
        card, 'entry = "f"\nargs = ["out1", "q.stride[1]", "q.stride[2]", "out0.stride[2]", "unsqueeze_dim"]'
    )
    bound = bind(plan, card.variants[0], {})
    assert not isinstance(bound, Rejected)
    assert bound[0] == BoundArgument(kind="output", index=1, name="out1")
    assert [argument.value for argument in bound[1:]] == [16, 64, 64, 1]


def test_absent_tensors_are_null_and_lists_are_taken_by_element() -> None:
    listed = Argument(name="tensors", kind="tensors", role="input", tensors=[1, 0])
    variant = make_variant("v0", [dense(4), dense(5)], [listed, absent("mask"), constant("dim", None)], [dense(9)])
    card = make_card(variant)
    plan = plan_for(card, 'entry = "k"\nargs = ["tensors[0]", "tensors[-1]", "mask", "dim", "tensors[0].numel"]')
    assert bind(plan, variant, {}) == [
        BoundArgument(kind="tensor", index=1, name="tensors[0]"),
        BoundArgument(kind="tensor", index=0, name="tensors[1]"),
        BoundArgument(kind="null", name="mask"),
        BoundArgument(kind="null", name="dim"),
        BoundArgument(kind="scalar", scalar_type="int64", value=5),
    ]
    for text, part in (("tensors", "pass its elements"), ("tensors[2]", "out of range"), ("mask.numel", "absent")):
        rejected = parse_plan(candidate_text(f'entry = "k"\nargs = ["{text}"]'), card, "cpu")
        assert isinstance(rejected, Rejected)
        assert part in rejected.message


def test_a_type_that_the_cpu_lacks_is_refused_by_name() -> None:
    card = make_card(make_variant("v0", [dense(4, dtype="complex64")], [tensor("x", 0)], [dense(4)]))
    rejected = parse_plan(candidate_text('entry = "k"\nargs = ["x"]'), card, "cpu")
    assert isinstance(rejected, Rejected)
    assert "complex64" in rejected.message
