"""Operators that the benchmarks judge: seven of differing cost, from a microsecond to a few hundred."""

from __future__ import annotations

import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from kforge_mcp.judge.adversaries import cards  # noqa: E402

cards.SOURCES |= {
    "bench_gelu": """
def bench_gelu(x):
    return torch.nn.functional.gelu(x)
""",
    "bench_group_norm": """
def bench_group_norm(x, weight, bias):
    return torch.nn.functional.group_norm(x, 8, weight, bias)
""",
}

OPERATORS = {
    "relu 64 x 100": cards.RELU,
    "arg max 64 x 100": cards.ARGMAX,
    "softmax 32 x 300": cards.SOFTMAX,
    "layer norm 64 x 256, bf16": cards.Make(
        "layer_norm",
        (
            cards.Tensor("x", (64, 256), dtype="bf16"),
            cards.Tensor("weight", (256,), "parameter", "bf16"),
            cards.Tensor("bias", (256,), "parameter", "bf16"),
        ),
        ((64, 256),),
        {"eps": 1e-5},
        "bf16",
    ),
    "RMS norm 64 x 256": cards.RMS_NORM,
    "group norm 2 x 32 x 16 x 16": cards.Make(
        "bench_group_norm",
        (
            cards.Tensor("x", (2, 32, 16, 16)),
            cards.Tensor("weight", (32,), "parameter"),
            cards.Tensor("bias", (32,), "parameter"),
        ),
        ((2, 32, 16, 16),),
    ),
    "gelu 128 x 1024": cards.Make("bench_gelu", (cards.Tensor("x", (128, 1024)),), ((128, 1024),)),
}
"""By name; the last is spread over threads, the others run on one."""
