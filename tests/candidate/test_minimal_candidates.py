"""The candidate that a card's page shows compiles as it stands, for every type that a target has."""

from __future__ import annotations

import pytest

from kforge_mcp.candidate.c_types import CPU_TYPES, CUDA_TYPES
from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.candidate.signature import minimal_candidate
from kforge_mcp.compile.compiler import CompileFailed, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target
from tests.candidate.cards import constant, dense, make_card, make_variant, tensor
from tests.candidate.test_signature import CARDS


def of_every_type(target: Target) -> OperatorCard:
    dtypes = list(CPU_TYPES if target == "cpu" else CUDA_TYPES)
    arguments = [tensor(f"x_{dtype}", index) for index, dtype in enumerate(dtypes)]
    constants = [constant("dim", -1), constant("eps", 0.5), constant("flag", True), constant("mode", "nearest")]
    tensors = [dense(8, dtype=dtype) for dtype in dtypes]
    return make_card(make_variant("v0", tensors, [*arguments, *constants], tensors))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_minimal_candidates_compile_without_a_complaint(ctx: JobContext, target: Target) -> None:
    for card in (*CARDS, of_every_type(target)):
        plan = parse_plan(minimal_candidate(card, target), card, target)
        assert isinstance(plan, Plan), plan.message
        outcome = compile_candidate(ctx, plan, card, configurations(plan))
        assert not isinstance(outcome, CompileFailed), outcome.message
        assert outcome.diagnostics == []
