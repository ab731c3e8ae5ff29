"""Every family of CUDA seeds runs on the GPU and is as right as eager, by the judge's rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.variant import Variant
from kforge_mcp.seeds.catalogue import seeds_for
from tests.gpu.programs import bits_of, prepared
from tests.seeds.arrays import TOLERANCE, as_shaped, from_bits
from tests.seeds.cuda_cards import CARDS
from tests.seeds.references import reference

EPSILON = {"fp32": 2**-23, "fp64": 2**-52, "bf16": 2**-7, "fp16": 2**-10}
ACTIVATIONS = frozenset({
    "relu", "relu_inplace", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "hardswish", "mish",
    "relu6", "quick_gelu",
})  # fmt: skip


def operator(family: str) -> str:
    """Its function in `eager.py`."""
    if family in ACTIVATIONS:
        return "activation"
    for suffix in ("_plain", "_windows", "_module", "_one"):
        family = family.removesuffix(suffix)
    return family


def of(card: OperatorCard, variant: Variant) -> dict[str, Any]:
    constants = {one.name: one.value for one in variant.arguments if one.kind == "constant"}
    short = card.name.rsplit(".", 1)[-1]
    return {**constants, "operator": short, "out": variant.outputs[0].dtype, "outputs": len(variant.outputs)}


@pytest.mark.parametrize("family", CARDS)
def test_a_seed_is_as_right_as_eager(
    ctx: JobContext, launcher: Any, tmp_path: Path, record_property: Callable[[str, object], None], family: str
) -> None:
    card, _ = CARDS[family]
    for seed in seeds_for(card, "cuda"):
        for one in prepared(ctx, tmp_path, seed.source, card):
            variant = one.variant
            names = {a.name: a.tensors[0] for a in variant.arguments if a.kind == "tensor"}
            job = {"eager": operator(family), "names": names, "constants": of(card, variant), "time": True}
            answer = launcher.run({**one.job, **job})
            assert answer["status"] == "ok", answer["message"]
            assert answer["intact"]
            assert answer["unchanged"]
            inputs: dict[str, np.ndarray] = {}
            for name, index in names.items():
                spec = variant.tensors[index]
                shaped = as_shaped(one.arrays[index], spec)
                inputs[name] = from_bits(shaped, spec.dtype) if spec.dtype in TOLERANCE else shaped.astype(np.float64)
            wanted = reference(family, card, variant, inputs)
            for number, (spec, right) in enumerate(zip(variant.outputs, wanted, strict=True)):
                found = from_bits(as_shaped(bits_of(answer["outputs"][number], spec), spec), spec.dtype)
                eager = from_bits(bits_of(answer["eager"][number], spec), spec.dtype).reshape(spec.shape)
                own, other, size = rms(found - right), rms(eager - right), rms(right)
                factor = 0.5 if spec.itemsize <= 2 else 4.0
                allowed = (2 if right.size >= 1000 else 3) * other + factor * EPSILON[spec.dtype] * size
                assert own <= allowed, (seed.name, variant.variant_id, own, other)
                if number == 0:
                    shape = "x".join(str(n) for n in variant.tensors[0].shape)
                    record_property(
                        "row",
                        f"{family:28} {seed.name:26} {spec.dtype:5} {shape:18} {own / size:9.1e} {other / size:9.1e} "
                        f"{answer['candidate_us']:8.1f} {answer['eager_us']:8.1f} {answer['call_us']:7.1f} "
                        f"{answer['eager_call_us']:7.1f}",
                    )


def rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(np.square(values))))
