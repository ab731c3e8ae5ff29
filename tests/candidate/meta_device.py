"""Runs in the model interpreter: what torch's meta device returns for operator calls read from standard input."""

from __future__ import annotations

import json
import sys
from typing import Any

import torch

DTYPES = {
    "fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16,
    "int64": torch.int64, "int32": torch.int32, "bool": torch.bool,
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def _value(item: Any) -> Any:
    if isinstance(item, dict):
        return torch.empty(item["shape"], dtype=DTYPES[item["dtype"]], device="meta")
    return item


def _result(operator: str, positional: list[Any], keywords: dict[str, Any]) -> list[Any] | str:
    function = getattr(torch.ops.aten, operator.removeprefix("aten::")).default
    try:
        result = function(*[_value(item) for item in positional], **keywords)
    except (RuntimeError, IndexError, ValueError, TypeError, AssertionError) as error:
        return str(error)[:200]
    tensors = result if isinstance(result, (tuple, list)) else [result]
    return [[NAMES[tensor.dtype], list(tensor.shape)] for tensor in tensors]


print(json.dumps([_result(*case) for case in json.load(sys.stdin)]))
