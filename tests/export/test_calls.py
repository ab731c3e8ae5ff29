"""Which captured calls a package can recognise, and which variants of a candidate it serves."""

from __future__ import annotations

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.export.calls import cannot_dispatch
from kforge_mcp.export.kernels import Kernel, NotPackaged, assemble
from kforge_mcp.records.result import VariantVerdict
from kforge_mcp.records.variant import Argument


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"call": {"args": [{"tuple": [{"t": 0}]}], "kwargs": {"w": {"t": 1}}}}, ""),
        ({"call": {"args": [{"object": "m:Cache", "fields": {"k": {"t": 0}}}], "kwargs": {}}}, "inside an object"),
        ({"output_tree": {"object": "m:Output", "fields": {"x": {"t": 0}}}}, "returns an object"),
        ({"output_tree": {"dict": [[{"v": "x"}, {"t": 0}]]}}, ""),
        ({"arguments": [Argument(name="x", kind="tensors", role="input", tensors=[0, 1])]}, "list of tensors"),
        ({"arguments": [Argument(name="x", kind="tensor", role="input", tensors=[0])]}, "constant of it"),
        ({"outputs": []}, "returns no tensor"),
        ({"call": {"args": [{"t": 0}], "kwargs": {}, "parameters": {"a": 1, "b": 1}}}, "one tensor"),
    ],
)
def test_calls_that_cannot_be_recognised_say_why(sample_cards, changes, words) -> None:
    variant = sample_cards[0].variants[0].model_copy(update=changes)
    reason = cannot_dispatch(variant)
    assert (words in reason) if words else reason == ""


def test_only_variants_that_holdout_showed_faster_are_served(sample_cards, sample_source) -> None:
    norm = sample_cards[0]
    first = norm.variants[0]
    second, third = (first.model_copy(update={"variant_id": name}) for name in ("v_other", "v_unclaimed"))
    card = norm.model_copy(update={"variants": [first, second, third]})
    plan = parse_plan(sample_source, card, "cpu")
    assert isinstance(plan, Plan)
    binary = Binary(path="k.so", digest="", config={}, variants=["v_norm", "v_other", "v_unclaimed"], entry="norm")
    shown = [
        VariantVerdict(variant_id="v_norm", verdict="faster"),
        VariantVerdict(variant_id="v_other", verdict="no_difference_shown"),
        VariantVerdict(variant_id="v_unclaimed", claimed=False),
    ]
    made = assemble(card, plan, {}, [binary], candidate_id="c", holdout=shown[0], verdicts=shown)
    assert isinstance(made, Kernel)
    assert [served.variant.variant_id for served in made.variants] == ["v_norm"]
    assert made.left_out == {"v_other": "holdout: no difference shown", "v_unclaimed": "not claimed by the candidate"}
    nothing = assemble(card, plan, {}, [binary], candidate_id="c", holdout=shown[0], verdicts=shown[1:])
    assert isinstance(nothing, NotPackaged)
    assert "no difference shown" in nothing.reason
