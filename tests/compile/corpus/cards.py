"""The cards that the kernels of this folder are written for."""

from __future__ import annotations

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument, Variant
from tests.candidate.cards import absent, constant, dense, make_card, make_variant, tensor

EPS = constant("eps", 1e-6)


def card(inputs: dict[str, TensorSpec], *outputs: TensorSpec, more: tuple[Argument, ...] = ()) -> OperatorCard:
    """A card with one variant of named tensors."""
    arguments = [*(tensor(name, index) for index, name in enumerate(inputs)), *more]
    return make_card(make_variant("v0", list(inputs.values()), arguments, list(outputs)), name="Corpus")


def rows(dtype: str) -> OperatorCard:
    """64 rows of 1,024."""
    return card({"x": dense(64, 1024, dtype=dtype)}, dense(64, 1024, dtype=dtype), more=(EPS,))


def pair(dtype: str) -> OperatorCard:
    """Two vectors and a number."""
    one = dense(4096, dtype=dtype)
    return card({"a": one, "b": one}, one, more=(constant("scale", 2.0),))


def gemm(dtype: str) -> OperatorCard:
    """A matrix product of 256 by 128 and 128 by 192."""
    a, b = dense(256, 128, dtype=dtype), dense(128, 192, dtype=dtype)
    return card({"a": a, "b": b}, dense(256, 192, dtype=dtype))


def _list() -> OperatorCard:
    listed = Argument(name="tensors", kind="tensors", role="input", tensors=[0, 1, 2])
    variant = Variant.model_validate(make_variant("v0", [dense(4096)] * 3, [listed], [dense(4096)]).model_dump())
    return make_card(variant, name="Corpus")


_BF16 = "bf16"
_HEADS = dense(8, 128, 64)

CARDS: dict[str, OperatorCard] = {
    **{f"rows_{dtype}": rows(dtype) for dtype in ("fp32", "fp16", "bf16")},
    **{f"pair_{dtype}": pair(dtype) for dtype in ("fp32", "fp16", "bf16")},
    **{f"gemm_{dtype}": gemm(dtype) for dtype in ("fp32", "fp16", "bf16")},
    "rowsum_fp32": card({"x": dense(64, 1024)}, dense(64)),
    "reduce_fp32": card({"x": dense(65536)}, dense(1)),
    "square_fp32": card({"x": dense(512, 512)}, dense(512, 512)),
    "counts_int32": card({"x": dense(10000, dtype="int32")}, dense(256, dtype="int32")),
    "counts_int64": card({"x": dense(10000, dtype="int64")}, dense(256, dtype="int64")),
    "image": card({"x": dense(2, 8, 32, 32), "weight": dense(8, 3, 3)}, dense(2, 8, 32, 32)),
    "gather": card({"index": dense(300, dtype="int64"), "table": dense(1000, 64)}, dense(300, 64)),
    "mlp_bf16": card(
        {"x": dense(32, 256, dtype=_BF16), "w1": dense(512, 256, dtype=_BF16), "w2": dense(256, 512, dtype=_BF16)},
        dense(32, 256, dtype=_BF16),
    ),
    "sort": card({"x": dense(16, 2048)}, dense(16, 2048), dense(16, 2048, dtype="int64")),
    "fp8": card({"x": dense(4096, dtype="fp8_e4m3")}, dense(4096), more=(constant("scale", 0.5),)),
    "mixed": card({"x": dense(64, 1024, dtype=_BF16), "weight": dense(1024)}, dense(64, 1024, dtype=_BF16)),
    "double": card({"x": dense(64, 256, dtype="fp64")}, dense(64, 256, dtype="fp64"), more=(EPS,)),
    "complex": card({"x": dense(1024, dtype="complex64")}, dense(1024, dtype="complex64")),
    "nullable": card({"x": dense(64, 256)}, dense(64, 256), more=(absent("bias"),)),
    "list": _list(),
    "inplace": card({"x": dense(4096)}, dense(4096)).model_copy(update={"mutates": "x"}),
    "bools": card({"x": dense(4096), "mask": dense(4096, dtype="bool")}, dense(4096)),
    "attention": card({"q": _HEADS, "k": _HEADS, "v": _HEADS}, _HEADS),
}
