"""What the operators of `cuda_cards` give, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.variant import Variant
from kforge_mcp.seeds.activations import activation_of
from tests.seeds.arrays import from_bits, to_bits

Array = np.ndarray

_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda v: np.maximum(v, 0),
    "relu6": lambda v: np.clip(v, 0, 6),
    "leaky_relu": lambda v: np.where(v > 0, v, 0.01 * v),
    "elu": lambda v: np.where(v > 0, v, np.expm1(v)),
    "gelu": lambda v: 0.5 * v * (1 + np.vectorize(math.erf)(v / math.sqrt(2))),
    "gelu_tanh": lambda v: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
    "quick_gelu": lambda v: v / (1 + np.exp(-1.702 * v)),
    "silu": lambda v: v / (1 + np.exp(-v)),
    "sigmoid": lambda v: 1 / (1 + np.exp(-v)),
    "tanh": np.tanh,
    "hardswish": lambda v: v * np.clip(v + 3, 0, 6) / 6,
    "mish": lambda v: v * np.tanh(np.log1p(np.exp(v))),
}


def reference(family: str, card: OperatorCard, variant: Variant, inputs: dict[str, Array]) -> list[Array]:
    """The outputs of a card's operator; `inputs` are float64, or integers."""
    constants = {argument.name: argument.value for argument in variant.arguments if argument.kind == "constant"}
    x = next(iter(inputs.values()))
    rounded = lambda values: from_bits(to_bits(values, variant.tensors[0].dtype), variant.tensors[0].dtype)  # noqa: E731
    if family.startswith("residual"):
        total = rounded(x + inputs["residual"])
        return [_rms(total, 1e-6) * inputs["weight"], total][: len(variant.outputs)]
    if family.startswith("rms_norm"):
        return [_rms(x, 1e-6) * (inputs["weight"] + ("1.0 + self.weight" in card.reference_source))]
    if family.startswith("layer_norm"):
        return [_affine(_standard(x, -1), inputs, (-1,))]
    if family.startswith("group_norm"):
        groups = constants["num_groups"]
        assert isinstance(groups, int)
        grouped = _standard(x.reshape(x.shape[0], groups, -1), -1).reshape(x.shape)
        return [_affine(grouped, inputs, (-1, *[1] * (x.ndim - 2)))]
    if family == "batch_norm":
        shape = (-1, *[1] * (x.ndim - 2))
        mean, variance = (inputs[name].reshape(shape) for name in ("running_mean", "running_var"))
        return [_affine((x - mean) / np.sqrt(variance + 1e-5), inputs, shape)]
    if family == "softmax":
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return [powers / powers.sum(axis=-1, keepdims=True)]
    if family == "rotary":
        cos, sin = inputs["cos"][:, None], inputs["sin"][:, None]
        return [_rotate(inputs[name], cos, sin) for name in ("q", "k")]
    if family == "embedding":
        return [inputs["weight"][x.astype(np.int64)]]
    if family.startswith(("adaptive", "max_pool")):
        return [_pooled(family, x, constants, variant.outputs[0].shape)]
    if family == "gated_mlp":
        gate, up = (rounded(x @ inputs[f"{part}_proj_weight"].T) for part in ("gate", "up"))
        return [rounded(_FUNCTIONS["silu"](gate) * up) @ inputs["down_proj_weight"].T]
    if family == "swiglu":
        return [_FUNCTIONS["silu"](inputs["gate"]) * inputs["up"]]
    if family in ("silu_and_mul", "geglu"):
        first, second = np.split(x, 2, axis=-1)
        return [_FUNCTIONS["silu"](first) * second if family == "silu_and_mul" else first * _FUNCTIONS["gelu"](second)]
    activation = activation_of(card.name, constants.get("approximate"))
    assert activation
    return [_FUNCTIONS[activation.name](x)]


def _rms(x: Array, eps: float) -> Array:
    return x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + eps)


def _standard(x: Array, axis: int) -> Array:
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=axis, keepdims=True) + 1e-5)


def _affine(x: Array, inputs: dict[str, Array], shape: tuple[int, ...]) -> Array:
    if "weight" not in inputs:
        return x
    return x * inputs["weight"].reshape(shape) + inputs["bias"].reshape(shape)


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    half = x.shape[-1] // 2
    return x * cos + np.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def _pooled(family: str, x: Array, constants: Mapping[str, object], shape: Sequence[int]) -> Array:
    out = np.empty(shape)

    def two(name: str) -> list[int]:
        value = constants.get(name, constants["kernel_size"])
        return [value, value] if isinstance(value, int) else list(value)  # pyright: ignore[reportArgumentType]

    height, width = x.shape[-2:]
    for r in range(shape[-2]):
        for c in range(shape[-1]):
            if family.startswith("max_pool"):
                (kh, kw), (sh, sw), (ph, pw) = two("kernel_size"), two("stride"), two("padding")
                top, left = r * sh - ph, c * sw - pw
                rows, columns = slice(max(top, 0), top + kh), slice(max(left, 0), left + kw)
                out[..., r, c] = x[..., rows, columns].max(axis=(-2, -1))
            else:
                rows = slice(r * height // shape[-2], -(-(r + 1) * height // shape[-2]))
                columns = slice(c * width // shape[-1], -(-(c + 1) * width // shape[-1]))
                out[..., r, c] = x[..., rows, columns].mean(axis=(-2, -1))
    return out
