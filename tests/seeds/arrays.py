"""Arrays of a tensor's bits, and how far a result may be from a float64 reference."""

from __future__ import annotations

import numpy as np

from kforge_mcp.records.tensor import TensorSpec

# Relative root mean square errors. Rounding to the output's type alone gives about a quarter of its epsilon; in fp32
# and fp64 the intermediate roundings come on top, and the judge allows more than four epsilons.
TOLERANCE = {"fp32": 1.7 * 2**-23, "fp64": 1.7 * 2**-52, "bf16": 0.26 * 2**-7, "fp16": 0.26 * 2**-10}


def to_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        wide = values.astype(np.float32).view(np.uint32)
        return ((wide + 0x7FFF + ((wide >> 16) & 1)) >> 16).astype(np.uint16)
    return values.astype({"fp32": np.float32, "fp64": np.float64, "fp16": np.float16}[dtype])


def from_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    if dtype == "bf16":
        return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return values.astype(np.float64)


def as_shaped(flat: np.ndarray, spec: TensorSpec) -> np.ndarray:
    steps = [step * flat.itemsize for step in spec.stride]
    return np.lib.stride_tricks.as_strided(flat, spec.shape, steps)
