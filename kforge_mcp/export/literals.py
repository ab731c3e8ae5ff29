"""Values, dtypes and memory as C++ text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kforge_mcp.candidate.bound import BoundArgument, ScalarType

DTYPES = {
    "fp64": "float64", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2", "int64": "int64", "int32": "int32", "int16": "int16", "int8": "int8",
    "uint8": "uint8", "bool": "bool", "complex64": "complex64",
}  # fmt: skip


@dataclass(frozen=True)
class SpaceText:
    """A workspace. `name` is set where expressions ask for its sizes."""

    name: str
    short: str
    dtype: str
    itemsize: int
    shape: list[str]
    zero: bool


def dtype_function(dtype: str) -> str:
    """The function of the stable ABI that gives a dtype's number."""
    return f"aoti_torch_dtype_{DTYPES[dtype]}"


def scalar(argument: BoundArgument) -> str:
    """The value of a scalar argument, with every bit."""
    return number(argument.value, argument.scalar_type)


def number(value: float | None, scalar_type: ScalarType) -> str:
    """A number as a literal of its type."""
    if scalar_type == "bool":
        return "true" if value else "false"
    if scalar_type in ("float", "double"):
        return floating(float(value or 0), scalar_type)
    return integer(int(value or 0))


def integer(value: int) -> str:
    """A 64-bit integer; the least one has no literal of its own in C++."""
    return f"(-INT64_C({-(value + 1)}) - 1)" if value < 0 else f"INT64_C({value})"


def floating(value: float, kind: str) -> str:
    """Every bit of the value: a hexadecimal literal, rounded once where a float is passed."""
    if math.isnan(value):
        return f"std::numeric_limits<{kind}>::quiet_NaN()"
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}std::numeric_limits<{kind}>::infinity()"
    return f"static_cast<{kind}>({value.hex()})"
