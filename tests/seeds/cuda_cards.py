"""Cards of the families that have CUDA seeds, as capture makes them."""

from __future__ import annotations

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument, Variant
from tests.candidate.cards import absent, constant, dense, layer_norm, make_card, make_variant, rms_norm, rotary, tensor

F = "torch.nn.functional."
GEMMA = "output = self._norm(x.float())\noutput = output * (1.0 + self.weight.float())"
MLP = (
    "def forward(self, x):\n"
    "    down_proj = self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))\n"
    "    return down_proj\n"
)
RESIDUAL = "def forward(self, x, residual):\n    residual = x + residual\n    return self.norm(residual), residual\n"


def softmax(*shape: int, dtype: str = "fp32", out: str = "", dim: int = -1, variant_id: str = "v0") -> Variant:
    arguments = [tensor("input", 0), constant("dim", dim), absent("dtype")]
    return make_variant(variant_id, [dense(*shape, dtype=dtype)], arguments, [dense(*shape, dtype=out or dtype)])


def group_norm(*shape: int, groups: int, dtype: str = "fp32", affine: bool = True, variant_id: str = "v0") -> Variant:
    x, vector = dense(*shape, dtype=dtype), dense(shape[1], dtype=dtype)
    named = [tensor("weight", 1), tensor("bias", 2)] if affine else [absent("weight"), absent("bias")]
    arguments = [tensor("input", 0), constant("num_groups", groups), *named, constant("eps", 1e-5)]
    return make_variant(variant_id, [x, vector, vector] if affine else [x], arguments, [x])


def batch_norm(*shape: int, dtype: str = "fp32", training: bool = False, variant_id: str = "v0") -> Variant:
    x, vector = dense(*shape, dtype=dtype), dense(shape[1], dtype=dtype)
    names = ["input", "running_mean", "running_var", "weight", "bias"]
    arguments = [tensor(name, index) for index, name in enumerate(names)]
    arguments += [constant("training", training), constant("momentum", 0.1), constant("eps", 1e-5)]
    return make_variant(variant_id, [x, vector, vector, vector, vector], arguments, [x])


def pointwise(*shape: int, dtype: str = "fp32", variant_id: str = "v0", **constants: object) -> Variant:
    x = dense(*shape, dtype=dtype)
    arguments = [tensor("input", 0), *(constant(name, value) for name, value in constants.items())]
    return make_variant(variant_id, [x], arguments, [x])


def pair(*shape: int, dtype: str = "bf16") -> Variant:
    x = dense(*shape, dtype=dtype)
    return make_variant("v0", [x, x], [tensor("up", 0), tensor("gate", 1)], [x])


def halves(*shape: int, dtype: str = "bf16") -> Variant:
    both = dense(*shape[:-1], 2 * shape[-1], dtype=dtype)
    return make_variant("v0", [both], [tensor("x", 0)], [dense(*shape, dtype=dtype)])


def mlp(rows: int, hidden: int, inner: int, dtype: str = "bf16") -> Variant:
    wide, narrow = dense(inner, hidden, dtype=dtype), dense(hidden, inner, dtype=dtype)
    x = dense(1, rows, hidden, dtype=dtype)
    names = ["x", "gate_proj_weight", "up_proj_weight", "down_proj_weight"]
    arguments = [tensor(name, index) for index, name in enumerate(names)]
    return make_variant("v0", [x, wide, wide, narrow], arguments, [x])


def embedding(rows: int, size: int, *shape: int, dtype: str = "fp32", variant_id: str = "v0") -> Variant:
    arguments: list[Argument] = [
        tensor("input", 0), tensor("weight", 1), absent("padding_idx"), absent("max_norm"),
        constant("norm_type", 2.0), constant("scale_grad_by_freq", False), constant("sparse", False),
    ]  # fmt: skip
    tensors = [dense(*shape, dtype="int64"), dense(rows, size, dtype=dtype)]
    return make_variant(variant_id, tensors, arguments, [dense(*shape, size, dtype=dtype)])


def pooled(shape: tuple[int, ...], out: tuple[int, ...], dtype: str = "fp32", **constants: object) -> Variant:
    arguments = [tensor("input", 0)]
    arguments += [constant(name, value) if value is not None else absent(name) for name, value in constants.items()]
    return make_variant("v0", [dense(*shape, dtype=dtype)], arguments, [dense(*out, dtype=dtype)])


def residual_norm(*shape: int, outputs: int = 2, dtype: str = "bf16") -> Variant:
    x: TensorSpec = dense(*shape, dtype=dtype)
    arguments = [tensor("x", 0), tensor("residual", 1), tensor("weight", 2), constant("variance_epsilon", 1e-6)]
    return make_variant("v0", [x, x, dense(shape[-1], dtype=dtype)], arguments, [x] * outputs)


def torch_card(name: str, *variants: Variant, mutates: str = "") -> OperatorCard:
    card = make_card(*variants, name=F + name, level="torch")
    return card.model_copy(update={"mutates": mutates})


def max_pooled(shape: tuple[int, ...], out: tuple[int, ...]) -> Variant:
    return pooled(shape, out, kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False, return_indices=False)


CARDS: dict[str, tuple[OperatorCard, list[str]]] = {
    "rms_norm": (
        make_card(
            rms_norm(2, 7, 1024, dtype="bf16"),
            rms_norm(5, 33, variant_id="v1"),
            rms_norm(3, 72, dtype="fp16", variant_id="v2"),
            rms_norm(2, 10000, variant_id="v3"),
        ),
        ["rms_norm_rows", "rms_norm_block"],
    ),
    "rms_norm_offset": (
        make_card(rms_norm(4, 256, dtype="bf16"), name="GemmaRMSNorm", reference_source=GEMMA),
        ["rms_norm_rows", "rms_norm_block"],
    ),
    "layer_norm": (
        torch_card(
            "layer_norm",
            layer_norm(2, 7, 1536, dtype="bf16"),
            layer_norm(6, 100, variant_id="v1"),
            layer_norm(3, 40, dtype="fp64", variant_id="v2"),
        ),
        ["layer_norm_rows", "layer_norm_block"],
    ),
    "layer_norm_plain": (
        make_card(layer_norm(6, 100, affine=False), name="LayerNorm"),
        ["layer_norm_rows", "layer_norm_block"],
    ),
    "softmax": (
        torch_card(
            "softmax",
            softmax(1, 8, 12, 512),
            softmax(3, 77, dtype="bf16", out="fp32", variant_id="v1"),
            softmax(2, 3, 64, dtype="fp16", dim=2, variant_id="v2"),
        ),
        ["softmax_rows", "softmax_block"],
    ),
    "group_norm": (
        torch_card(
            "group_norm",
            group_norm(1, 128, 64, 64, groups=32, dtype="bf16"),
            group_norm(2, 6, 5, 5, groups=3, variant_id="v1"),
            group_norm(2, 8, 128, 96, groups=2, variant_id="v2"),
            group_norm(3, 6, groups=2, variant_id="v3"),
        ),
        ["group_norm_block", "group_norm_split"],
    ),
    "group_norm_plain": (
        torch_card("group_norm", group_norm(2, 8, 16, groups=4, affine=False)),
        ["group_norm_block", "group_norm_split"],
    ),
    "batch_norm": (
        torch_card(
            "batch_norm",
            batch_norm(4, 16, 14, 14),
            batch_norm(2, 5, 7, 7, dtype="fp16", variant_id="v1"),
            batch_norm(8, 10, variant_id="v2"),
        ),
        ["batch_norm_planes"],
    ),
    "relu": (
        torch_card(
            "relu", pointwise(4, 1000, inplace=False), pointwise(13, dtype="bf16", inplace=False, variant_id="v1")
        ),
        ["relu_packs"],
    ),
    "relu_inplace": (torch_card("relu", pointwise(4, 1000, inplace=True), mutates="input"), ["relu_packs"]),
    "gelu": (torch_card("gelu", pointwise(4, 1000, dtype="bf16", approximate="none")), ["gelu_packs"]),
    "gelu_tanh": (
        torch_card("gelu", pointwise(4, 1000, approximate="tanh"), pointwise(3, approximate="none", variant_id="v1")),
        ["gelu_tanh_packs"],
    ),
    "silu": (
        torch_card(
            "silu", pointwise(4, 1000, dtype="bf16", inplace=False), pointwise(9, inplace=False, variant_id="v1")
        ),
        ["silu_packs"],
    ),
    "sigmoid": (make_card(pointwise(4, 100), name="torch.sigmoid", level="torch"), ["sigmoid_packs"]),
    "tanh": (make_card(pointwise(4, 100, dtype="fp16"), name="torch.tanh", level="torch"), ["tanh_packs"]),
    "leaky_relu": (
        torch_card("leaky_relu", pointwise(4, 100, negative_slope=0.01, inplace=False)),
        ["leaky_relu_packs"],
    ),
    "elu": (torch_card("elu", pointwise(4, 100, alpha=1.0, inplace=False)), ["elu_packs"]),
    "hardswish": (torch_card("hardswish", pointwise(4, 100, inplace=False)), ["hardswish_packs"]),
    "mish": (torch_card("mish", pointwise(4, 100, inplace=False)), ["mish_packs"]),
    "relu6": (torch_card("relu6", pointwise(4, 100, inplace=False)), ["relu6_packs"]),
    "quick_gelu": (make_card(pointwise(4, 100, dtype="bf16"), name="QuickGELUActivation"), ["quick_gelu_packs"]),
    "swiglu": (make_card(pair(4, 96), name="swiglu", level="function"), ["gated_silu_pair"]),
    "silu_and_mul": (make_card(halves(2, 3, 96), name="SiluAndMul"), ["gated_silu_halves"]),
    "geglu": (
        make_card(
            halves(7, 50, dtype="fp32"),
            name="geglu",
            level="function",
            reference_source="x, gate = x.chunk(2, dim=-1)\nreturn x * F.gelu(gate)",
        ),
        ["gated_gelu_halves"],
    ),
    "gated_mlp": (
        make_card(mlp(5, 64, 96), name="LlamaMLP", reference_source=MLP).model_copy(
            update={"children": [F + "silu", F + "linear"]}
        ),
        ["gated_silu_mlp"],
    ),
    "rotary": (
        make_card(
            rotary(batch=2, heads=4, heads_k=2, positions=9, size=64, dtype="bf16"),
            rotary(batch=3, cos_batch=1, positions=5, size=10, variant_id="v1"),
            name="apply_rotary_pos_emb",
            level="function",
        ),
        ["rotary_positions"],
    ),
    "embedding": (
        torch_card("embedding", embedding(100, 64, 2, 9, dtype="bf16"), embedding(50, 7, 4, variant_id="v1")),
        ["embedding_rows"],
    ),
    "adaptive_avg_pool2d": (
        torch_card("adaptive_avg_pool2d", pooled((4, 32, 7, 7), (4, 32, 1, 1), output_size=[1, 1])),
        ["adaptive_avg_pool2d_lanes"],
    ),
    "adaptive_avg_pool2d_windows": (
        torch_card("adaptive_avg_pool2d", pooled((3, 10, 13), (3, 4, 5), dtype="bf16", output_size=[4, 5])),
        ["adaptive_avg_pool2d_lanes"],
    ),
    "max_pool2d": (torch_card("max_pool2d", max_pooled((2, 8, 28, 28), (2, 8, 14, 14))), ["max_pool2d_windows"]),
    "max_pool2d_module": (
        make_card(
            pooled(
                (2, 8, 9, 9), (2, 8, 3, 4), dtype="fp16", kernel_size=[3, 2], stride=None, padding=[0, 0], dilation=1
            ),
            name="MaxPool2d",
        ),
        ["max_pool2d_windows"],
    ),
    "residual_rms_norm": (
        make_card(residual_norm(3, 5, 256), name="AddRMSNorm", reference_source=RESIDUAL),
        ["residual_rms_norm_rows", "residual_rms_norm_block"],
    ),
    "residual_rms_norm_one": (
        make_card(residual_norm(7, 100, outputs=1, dtype="fp32"), name="FusedAddRMSNorm"),
        ["residual_rms_norm_rows", "residual_rms_norm_block"],
    ),
}
