"""The operators that the adversaries are written for, small enough for a suite and of every kind of output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.adversaries.cards import (
    ADD_IN_PLACE,
    ARGMAX,
    LAYER_NORM,
    NORMAL,
    RELU,
    RMS_NORM,
    SOFTMAX,
    Make,
    Tensor,
)
from kforge_mcp.records.tensor import InputRecipe

__all__ = ["ADD_IN_PLACE", "ARGMAX", "LAYER_NORM", "RELU", "RMS_NORM", "SOFTMAX"]

_INTEGERS = InputRecipe(kind="integers", low=-1000, high=1000)
_WIDE_INTEGERS = InputRecipe(kind="integers", low=-2_000_000_000, high=2_000_000_000)
POSITIVE = InputRecipe(kind="quantiles", quantiles=[0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0])


def retyped(make: Make, dtype: Any, **changes: Any) -> Make:
    """The same call in another floating dtype; outputs follow their inputs."""
    tensors = tuple(replace(one, dtype=dtype) if one.dtype == "fp32" else one for one in make.tensors)
    out = dtype if make.out_dtype == "fp32" else make.out_dtype
    return replace(make, tensors=tensors, out_dtype=out, **changes)


def rms_norm(rows: int, width: int) -> Make:
    """The call with this many rows of this width."""
    tensors = (Tensor("x", (rows, width)), Tensor("weight", (width,), "parameter"))
    return replace(RMS_NORM, tensors=tensors, outputs=((rows, width),))


RMS_NORM_BF16, RMS_NORM_FP16 = retyped(RMS_NORM, "bf16"), retyped(RMS_NORM, "fp16")
RMS_NORM_ODD = rms_norm(33, 301)
SOFTMAX_FP64, SOFTMAX_BF16, SOFTMAX_FP16 = (retyped(SOFTMAX, dtype) for dtype in ("fp64", "bf16", "fp16"))
SOFTMAX_LONG = Make("softmax", (Tensor("x", (8, 4096)),), ((8, 4096),))
LAYER_NORM_BF16 = retyped(LAYER_NORM, "bf16")
GROUP_NORM = Make(
    "group_norm",
    (Tensor("x", (8, 16, 6, 8)), Tensor("weight", (16,), "parameter"), Tensor("bias", (16,), "parameter")),
    ((8, 16, 6, 8),),
    {"groups": 4, "eps": 1e-5},
)
RELU_POSITIVE = Make("relu", (Tensor("x", (64, 100), recipe=POSITIVE),), ((64, 100),))
RELU_TRANSPOSED = Make("relu", (Tensor("x", (64, 100), stride=(1, 64)),), ((64, 100),), out_strides=((1, 64),))
RELU_OFFSET = Make("relu", (Tensor("x", (64, 100), offset=1),), ((64, 100),))
RELU_COLUMNS = Make("relu", (Tensor("x", (64, 100), stride=(128, 1)),), ((64, 100),))
GELU_TANH = Make("gelu_tanh", (Tensor("x", (64, 100)),), ((64, 100),))
SIGMOID = Make("sigmoid", (Tensor("x", (64, 100)),), ((64, 100),))
TANH = Make("tanh", (Tensor("x", (64, 100)),), ((64, 100),))
SILU_MUL = Make("silu_mul", (Tensor("gate", (64, 96)), Tensor("up", (64, 96))), ((64, 96),))
SILU_MUL_BF16, SILU_MUL_FP16 = retyped(SILU_MUL, "bf16"), retyped(SILU_MUL, "fp16")
ADD_INT64 = Make(
    "add",
    (Tensor("x", (64, 50), dtype="int64", recipe=_INTEGERS), Tensor("y", (64, 50), dtype="int64", recipe=_INTEGERS)),
    ((64, 50),),
    out_dtype="int64",
)
ADD = Make("add", (Tensor("x", (64, 100)), Tensor("y", (64, 100))), ((64, 100),))
ROW_SUM = Make("row_sum", (Tensor("x", (64, 1000)),), ((64,),))
ROW_SUM_FP64, ROW_SUM_BF16, ROW_SUM_FP16 = (retyped(ROW_SUM, dtype) for dtype in ("fp64", "bf16", "fp16"))
ROW_SUM_INT = Make(
    "row_sum", (Tensor("x", (64, 100), dtype="int32", recipe=_WIDE_INTEGERS),), ((64,),), out_dtype="int64"
)
RELU_VARIANCE = Make("relu_variance", (Tensor("x", (64, 100)),), ((64, 100), (64,)))
ROW_MAX = Make("row_max", (Tensor("x", (64, 100)),), ((64,), (64,)), out_dtypes=("fp32", "int64"))
LESS = Make("less", (Tensor("x", (64, 100)), Tensor("y", (64, 100))), ((64, 100),), out_dtype="bool")
COUNT_POSITIVE = Make("count_positive", (Tensor("x", (64, 100)),), ((64,),), out_dtype="int64")
QUANTIZE = Make("quantize", (Tensor("x", (64, 100)),), ((64, 100),), {"scale": 20.0}, out_dtype="int8")
QUANTIZE_HALVES = replace(
    QUANTIZE,
    tensors=(Tensor("x", (64, 100), recipe=InputRecipe(kind="quantiles", quantiles=[-3.0, 0.0, 3.0])),),
    constants={"scale": 0.5},
)
SCAN = Make("scan", (Tensor("x", (64, 200)),), ((64, 200),))
LINEAR = Make("linear", (Tensor("x", (32, 96)), Tensor("weight", (48, 96), "parameter")), ((32, 48),))
LINEAR_FP64, LINEAR_BF16 = retyped(LINEAR, "fp64"), retyped(LINEAR, "bf16")
GATHER = Make(
    "gather",
    (
        Tensor("table", (200, 32), "parameter"),
        Tensor("index", (64,), dtype="int64", recipe=InputRecipe(kind="integers", low=0, high=199)),
    ),
    ((64, 32),),
)
CAUSAL_SOFTMAX = Make("causal_softmax", (Tensor("scores", (8, 40, 40)),), ((8, 40, 40),))
ONES = Make("ones", (Tensor("x", (1024, 512), recipe=NORMAL),), ((16,),))
NOTHING = Make("relu", (Tensor("x", (0, 100)),), ((0, 100),))


def every() -> dict[str, Make]:
    """All of them by name."""
    return {name: value for name, value in globals().items() if isinstance(value, cards.Make)}
