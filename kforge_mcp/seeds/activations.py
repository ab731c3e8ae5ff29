"""Pointwise functions as C++ expressions of `v`, an `acc` (float or double)."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Activation:
    """A function; `constants` are names on the card that its expression uses."""

    name: str
    formula: str
    constants: tuple[str, ...] = ()


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        # Comparisons are turned so that NaN comes through.
        Activation("relu", "v < acc(0) ? acc(0) : v"),
        Activation("relu6", "v < acc(0) ? acc(0) : v > acc(6) ? acc(6) : v"),
        Activation("leaky_relu", "v < acc(0) ? v * static_cast<acc>(negative_slope) : v", ("negative_slope",)),
        Activation("elu", "v < acc(0) ? static_cast<acc>(alpha) * expm1(v) : v", ("alpha",)),
        Activation("gelu", "acc(0.5) * v * (acc(1) + erf(v * acc(0.70710678118654752)))"),
        Activation(
            "gelu_tanh",
            "acc(0.5) * v * (acc(1) + tanh(acc(0.79788456080286536) * (v + acc(0.044715) * v * v * v)))",
        ),
        Activation("quick_gelu", "v / (acc(1) + exp(acc(-1.702) * v))"),
        Activation("silu", "v / (acc(1) + exp(-v))"),
        Activation("sigmoid", "acc(1) / (acc(1) + exp(-v))"),
        Activation("tanh", "tanh(v)"),
        Activation("hardswish", "v * fmin(fmax(v + acc(3), acc(0)), acc(6)) / acc(6)"),
        Activation("mish", "v * tanh(log1p(exp(v)))"),
    )
}

_ALIASES = {
    "swish": "silu", "siluactivation": "silu", "geluactivation": "gelu", "gelunew": "gelu_tanh",
    "newgeluactivation": "gelu_tanh", "gelutanh": "gelu_tanh", "gelupytorchtanh": "gelu_tanh",
    "pytorchgelutanh": "gelu_tanh", "fastgeluactivation": "gelu_tanh", "quickgeluactivation": "quick_gelu",
    "quickgelu": "quick_gelu", "leakyrelu": "leaky_relu", "hardsilu": "hardswish",
}  # fmt: skip


def activation_of(name: str, approximate: object = "none") -> Activation | None:
    """The function that a class, function or configuration calls so; `approximate` is that of `torch.gelu`."""
    plain = re.sub(r"[^a-z0-9]", "", name.rpartition(".")[2].lower())
    found = ACTIVATIONS.get(_ALIASES.get(plain, plain))
    if found and found.name == "gelu" and plain == "gelu" and approximate == "tanh":
        return ACTIVATIONS["gelu_tanh"]
    return found
