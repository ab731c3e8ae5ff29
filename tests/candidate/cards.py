"""Hand-made cards as capture makes them."""

from __future__ import annotations

from kforge_mcp.records.card import Level, OperatorCard
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument, Variant


def dense(*shape: int, dtype: str = "fp32") -> TensorSpec:
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec.model_validate({"dtype": dtype, "shape": list(shape), "stride": stride})


def strided(shape: tuple[int, ...], stride: tuple[int, ...], dtype: str = "fp32") -> TensorSpec:
    return TensorSpec.model_validate({"dtype": dtype, "shape": list(shape), "stride": list(stride)})


def tensor(name: str, index: int, role: str = "input") -> Argument:
    return Argument.model_validate({"name": name, "kind": "tensor", "role": role, "tensors": [index]})


def constant(name: str, value: object) -> Argument:
    return Argument.model_validate({"name": name, "kind": "constant", "role": "constant", "value": value})


def absent(name: str) -> Argument:
    return Argument(name=name, kind="none", role="input")


def make_variant(
    variant_id: str, tensors: list[TensorSpec], arguments: list[Argument], outputs: list[TensorSpec]
) -> Variant:
    return Variant(
        variant_id=variant_id, tensors=tensors, arguments=arguments, outputs=outputs, call={}, calls=4, eager_us=100.0
    )


def make_card(
    *variants: Variant, name: str = "LlamaRMSNorm", level: Level = "module", reference_source: str = ""
) -> OperatorCard:
    return OperatorCard(
        card_id="card_test",
        project_id="project_test",
        level=level,
        name=name,
        qualified_name=f"models:{name}",
        eligible=True,
        calls=4,
        eager_us=400.0,
        share=0.1,
        gain_ceiling=1.1,
        worth_it=True,
        variants=list(variants),
        reference_source=reference_source,
    )


def rms_norm(*shape: int, dtype: str = "fp32", variant_id: str = "v0") -> Variant:
    """As `LlamaRMSNorm.forward` is captured."""
    return make_variant(
        variant_id,
        [dense(*shape, dtype=dtype), dense(shape[-1], dtype=dtype)],
        [
            tensor("hidden_states", 0),
            tensor("weight", 1, "parameter"),
            constant("variance_epsilon", 1e-6),
        ],
        [dense(*shape, dtype=dtype)],
    )


def layer_norm(*shape: int, dtype: str = "fp32", affine: bool = True, variant_id: str = "v0") -> Variant:
    """As `torch.nn.LayerNorm.forward` is captured."""
    vector = dense(shape[-1], dtype=dtype)
    return make_variant(
        variant_id,
        [dense(*shape, dtype=dtype), vector, vector] if affine else [dense(*shape, dtype=dtype)],
        [
            tensor("input", 0),
            *([tensor("weight", 1, "parameter"), tensor("bias", 2, "parameter")] if affine else []),
            constant("normalized_shape", [shape[-1]]),
            constant("eps", 1e-5),
        ],
        [dense(*shape, dtype=dtype)],
    )


def rotary(
    batch: int = 1, heads: int = 4, heads_k: int = 2, positions: int = 10, size: int = 16, dtype: str = "fp32",
    cos_batch: int | None = None, variant_id: str = "v0",
) -> Variant:  # fmt: skip
    """As `apply_rotary_pos_emb` of a Llama is captured: queries and keys are transposed views."""

    def heads_view(count: int) -> TensorSpec:
        stride = (positions * count * size, size, count * size, 1)
        return strided((batch, count, positions, size), stride, dtype)

    angles = dense(cos_batch or batch, positions, size, dtype=dtype)
    return make_variant(
        variant_id,
        [heads_view(heads), heads_view(heads_k), angles, angles],
        [tensor("q", 0), tensor("k", 1), tensor("cos", 2), tensor("sin", 3), constant("unsqueeze_dim", 1)],
        [heads_view(heads), heads_view(heads_k)],
    )


def candidate_text(metadata: str, code: str = "") -> str:
    """A candidate with this TOML as its block."""
    block = "".join(f"// {line}\n" for line in metadata.strip("\n").split("\n"))
    return f"// /// kforge\n{block}// ///\n{code}"
