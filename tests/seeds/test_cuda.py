"""CUDA seeds: each is found by the card's structure, compiles for three generations of GPUs and spills nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kforge_mcp.candidate.plan import Plan, claims, configurations, parse_plan, source_key
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.search.proposals import starter, starters
from kforge_mcp.seeds.catalogue import Seed, seeds_for
from kforge_mcp.store.workspace import Workspace
from tests.candidate.cards import constant, dense, make_card, make_variant, strided, tensor
from tests.seeds.cuda_cards import (
    CARDS,
    batch_norm,
    embedding,
    group_norm,
    halves,
    max_pooled,
    mlp,
    pointwise,
    pooled,
    softmax,
    torch_card,
)

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    opened = Workspace.open(tmp_path_factory.mktemp("seeds") / "workspace")
    with JobContext.standalone(opened) as context:
        yield context
    opened.close()


def plan_of(seed: Seed, card: OperatorCard) -> Plan:
    plan = parse_plan(seed.source, card, "cuda")
    assert isinstance(plan, Plan), plan.message
    return plan


def check(ctx: JobContext, seed: Seed, card: OperatorCard) -> None:
    plan = plan_of(seed, card)
    configs = configurations(plan)
    wanted = [(ARCHITECTURES, [configs[0]]), (("sm_90a",), configs[-1:])]
    for architectures, some in wanted:
        outcome = compile_candidate(ctx, plan, card, some, architectures=architectures)
        assert isinstance(outcome, Compiled), f"{outcome.message}\n{outcome.diagnostics}"
        assert outcome.diagnostics == []
        assert {binary.arch for binary in outcome.binaries} == set(architectures)
        for binary in outcome.binaries:
            assert binary.kernels
            for kernel in binary.kernels:
                assert kernel.registers > 0
                spilled = kernel.spill_store_bytes + kernel.spill_load_bytes + kernel.stack_bytes
                assert spilled == 0, (binary.arch, binary.config, kernel)


@pytest.mark.parametrize("family", CARDS)
def test_every_seed_compiles_without_spills(ctx: JobContext, family: str) -> None:
    card, names = CARDS[family]
    seeds = seeds_for(card, "cuda")
    assert [seed.name for seed in seeds] == names
    for seed in seeds:
        assert len(configurations(plan_of(seed, card))) > 1
        check(ctx, seed, card)


@pytest.mark.parametrize(
    "card",
    [
        torch_card("softmax", softmax(2, 8), softmax(2, 8, dim=0, variant_id="v1")),
        torch_card("softmax", softmax(2, 8), softmax(2, 8, dtype="fp64", variant_id="v1")),
        torch_card("group_norm", group_norm(2, 8, groups=2), group_norm(2, 8, groups=2, dtype="fp64", variant_id="v1")),
        torch_card(
            "group_norm",
            group_norm(2, 8, groups=2),
            group_norm(1, 2, 1 << 15, 1 << 16, groups=1, dtype="bf16", variant_id="v1"),
        ),
        torch_card("batch_norm", batch_norm(2, 8, 4, 4), batch_norm(2, 8, 4, 4, training=True, variant_id="v1")),
        torch_card("gelu", pointwise(8, approximate="tanh"), pointwise(8, approximate="none", variant_id="v1")),
        torch_card(
            "relu",
            pointwise(4, 8),
            make_variant("v1", [strided((4, 8), (1, 4))], [tensor("input", 0)], [strided((4, 8), (1, 4))]),
        ),
    ],
)  # fmt: skip
def test_a_variant_that_does_not_fit_is_left_to_eager(card: OperatorCard) -> None:
    seeds = seeds_for(card, "cuda")
    assert seeds
    for seed in seeds:
        plan = plan_of(seed, card)
        assert [claims(plan, variant, configurations(plan)[0]) for variant in card.variants] == [True, False]


@pytest.mark.parametrize(
    "card",
    [
        torch_card("softmax", softmax(2, 8, dim=0)),
        torch_card("log_softmax", softmax(2, 8)),
        torch_card("group_norm", group_norm(2, 8, 4, groups=3)),
        torch_card("batch_norm", batch_norm(2, 8, 4, 4, training=True)),
        torch_card("gelu", pointwise(8, dtype="fp8_e4m3", approximate="none")),
        torch_card("embedding", embedding(10, 4, 3).model_copy(update={"outputs": [dense(3, 5)]})),
        make_card(embedding(10, 4, 3), name="ScaledWordEmbedding"),
        make_card(halves(2, 8), name="LlamaMLP"),
        make_card(mlp(2, 8, 16), name="LlamaMLP", reference_source="return self.down_proj(self.up_proj(x))"),
        make_card(
            make_variant("v0", [dense(4)], [tensor("x", 0), constant("eps", 1e-5)], [dense(4)]), name="AddRMSNorm"
        ),
        make_card(name="LlamaRMSNorm"),
        # Nothing in a condition tells these two variants apart.
        torch_card(
            "max_pool2d",
            max_pooled((2, 8, 8, 8), (2, 8, 4, 4)),
            pooled((2, 8, 8, 8), (2, 8, 4, 4), kernel_size=2, stride=None, padding=0, dilation=1).model_copy(
                update={"variant_id": "v1"}
            ),
        ),
    ],
)  # fmt: skip
def test_a_card_of_another_structure_has_no_cuda_seeds(card: OperatorCard) -> None:
    assert seeds_for(card, "cuda") == []


def test_seeds_of_the_two_targets_are_told_apart() -> None:
    card = CARDS["rms_norm"][0]
    assert all("__global__" in seed.source for seed in seeds_for(card, "cuda"))
    assert all("__global__" not in seed.source for seed in seeds_for(card))


def test_a_search_starts_from_the_seeds_of_its_target() -> None:
    card = CARDS["rms_norm"][0]
    offered = list(starters(card, target="cuda"))
    assert [one.name for one in offered] == ["rms_norm_rows", "rms_norm_block"]
    held = source_key(plan_of(seeds_for(card, "cuda")[0], card))
    assert [one.name for one in starters(card, {held}, target="cuda")] == ["rms_norm_block"]
    other = starter(make_card(*card.variants, name="Mystery"), "cuda")
    assert other is not None
    assert (other.name, "__global__" in other.source) == ("minimal", True)
