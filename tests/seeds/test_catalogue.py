"""Seeds against a float64 reference, through the compiled contract."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from kforge_mcp.candidate.plan import Plan, claims, configurations, parse_plan
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.variant import Variant
from kforge_mcp.seeds.catalogue import Seed, seeds_for
from kforge_mcp.store.workspace import Workspace
from tests.candidate.cards import (
    constant,
    dense,
    layer_norm,
    make_card,
    make_variant,
    rms_norm,
    rotary,
    strided,
    tensor,
)
from tests.compile.native import call
from tests.seeds.arrays import TOLERANCE, as_shaped, from_bits, to_bits


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    opened = Workspace.open(tmp_path_factory.mktemp("seeds") / "workspace")
    with JobContext.standalone(opened) as context:
        yield context
    opened.close()


def reference(card: OperatorCard, variant: Variant, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    if "q" in inputs:
        cos, sin = inputs["cos"][:, None], inputs["sin"][:, None]

        def rotate(x: np.ndarray) -> np.ndarray:
            half = x.shape[-1] // 2
            return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin

        return [rotate(inputs["q"]), rotate(inputs["k"])]
    x, *rest = inputs.values()
    if "RMS" in card.name:
        offset = 1.0 if "1.0 + self.weight" in card.reference_source else 0.0
        return [x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + 1e-6) * (rest[0] + offset)]
    centred = x - x.mean(axis=-1, keepdims=True)
    result = centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + 1e-5)
    return [result * rest[0] + rest[1] if rest else result]


def check(ctx: JobContext, seed: Seed, card: OperatorCard) -> None:
    plan = parse_plan(seed.source, card, "cpu")
    assert isinstance(plan, Plan), plan.message
    outcome = compile_candidate(ctx, plan, card, configurations(plan))
    assert isinstance(outcome, Compiled), outcome.message
    assert outcome.diagnostics == []
    random = np.random.default_rng(1)
    variants = {variant.variant_id: variant for variant in card.variants}
    judged: set[str] = set()
    for binary in outcome.binaries:
        for variant_id in binary.variants:
            variant = variants[variant_id]
            judged.add(variant_id)
            flats = [
                to_bits(random.standard_normal(spec.extent_bytes // spec.itemsize) + 0.25, spec.dtype)
                for spec in variant.tensors
            ]
            named = {
                argument.name: from_bits(as_shaped(flats[index], variant.tensors[index]), variant.tensors[index].dtype)
                for argument in variant.arguments
                for index in argument.tensors
            }
            outputs = [
                to_bits(np.full(spec.extent_bytes // spec.itemsize, np.nan), spec.dtype) for spec in variant.outputs
            ]
            call(binary, plan, variant, flats, outputs)
            for flat, spec, expected in zip(outputs, variant.outputs, reference(card, variant, named), strict=True):
                found = from_bits(as_shaped(flat, spec), spec.dtype)
                error = np.sqrt(np.mean((found - expected) ** 2)) / np.sqrt(np.mean(expected**2))
                assert error <= TOLERANCE[spec.dtype], (seed.name, binary.config, variant_id)
    assert judged == {variant.variant_id for variant in card.variants if claims(plan, variant, configurations(plan)[0])}


GEMMA = "output = self._norm(x.float())\noutput = output * (1.0 + self.weight.float())"
CARDS = {
    "rms_norm": make_card(
        rms_norm(2, 7, 1024), rms_norm(3, 129, variant_id="v1"), rms_norm(1, 1, 5, variant_id="v2"),
        rms_norm(2, 64, dtype="bf16", variant_id="v3"), rms_norm(2, 64, dtype="fp16", variant_id="v4"),
        rms_norm(2, 64, dtype="fp64", variant_id="v5"),
    ),
    "rms_norm_offset": make_card(rms_norm(4, 256), name="GemmaRMSNorm", reference_source=GEMMA),
    "layer_norm": make_card(
        layer_norm(2, 7, 768), layer_norm(5, 33, variant_id="v1"), layer_norm(2, 64, dtype="bf16", variant_id="v2"),
        name="LayerNorm",
    ),
    "layer_norm_plain": make_card(
        layer_norm(6, 100, affine=False), name="torch.nn.functional.layer_norm", level="torch"
    ),
    "rotary": make_card(
        rotary(batch=2, heads=4, heads_k=2, positions=9, size=64),
        rotary(batch=3, cos_batch=1, positions=5, size=10, variant_id="v1"),
        rotary(positions=1, size=128, dtype="bf16", variant_id="v2"),
        name="apply_rotary_pos_emb", level="function",
    ),
}  # fmt: skip


@pytest.mark.parametrize("family", CARDS)
def test_every_seed_of_a_family_is_right_in_every_configuration(ctx: JobContext, family: str) -> None:
    seeds = seeds_for(CARDS[family])
    assert len(seeds) == 2
    assert len({seed.name for seed in seeds}) == 2
    assert all(family.startswith(seed.family) for seed in seeds)
    for seed in seeds:
        check(ctx, seed, CARDS[family])


def test_a_tuned_seed_has_something_to_search() -> None:
    for card in CARDS.values():
        plan = parse_plan(seeds_for(card)[1].source, card, "cpu")
        assert isinstance(plan, Plan)
        assert len(configurations(plan)) > 1


def test_names_of_other_classes_are_taken_from_the_card(ctx: JobContext) -> None:
    variant = make_variant(
        "v0", [dense(4, 32), dense(32)], [tensor("x", 0), tensor("scale", 1), constant("eps", 1e-6)], [dense(4, 32)]
    )
    card = make_card(variant, name="RMSNorm")
    seed = seeds_for(card)[0]
    assert "x_load(from[i]) * scale * scale_load(weight[i])" in seed.source
    check(ctx, seed, card)


def test_a_variant_that_is_not_contiguous_is_left_to_eager(ctx: JobContext) -> None:
    view = make_variant(
        "v1",
        [strided((4, 8), (1, 4)), dense(8)],
        rms_norm(4, 8).arguments,
        [dense(4, 8)],
    )
    card = make_card(rms_norm(2, 3, 8), view)
    for seed in seeds_for(card):
        plan = parse_plan(seed.source, card, "cpu")
        assert isinstance(plan, Plan)
        assert [claims(plan, variant, configurations(plan)[0]) for variant in card.variants] == [True, False]
        check(ctx, seed, card)


@pytest.mark.parametrize(
    "card",
    [
        make_card(rms_norm(4, 8), name="Softmax", level="torch"),
        make_card(layer_norm(4, 8), name="LlamaMLP"),
        make_card(rms_norm(4, 8, dtype="int64"), name="LlamaRMSNorm"),
        make_card(rotary(size=15), name="apply_rotary_pos_emb"),
        make_card(make_variant("v0", [dense(4)], [tensor("x", 0)], [dense(4)]), name="LayerNorm"),
        make_card(make_variant("v0", [], [], [dense(4)]), name="RMSNorm"),
        make_card(name="LlamaRMSNorm"),
    ],
)  # fmt: skip
def test_a_card_of_another_structure_has_no_seeds(card: OperatorCard) -> None:
    assert seeds_for(card) == []
