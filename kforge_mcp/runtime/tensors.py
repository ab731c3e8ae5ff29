"""Tensors as specifications and bytes. A specification is the JSON of the control plane's `TensorSpec`."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Sequence
from typing import Any

import torch

DTYPES: dict[str, torch.dtype] = {
    "fp64": torch.float64,
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int64": torch.int64,
    "int32": torch.int32,
    "int16": torch.int16,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "bool": torch.bool,
    "complex64": torch.complex64,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def extent(tensor: torch.Tensor) -> int:
    """Elements from the first to one past the last, gaps included."""
    if tensor.numel() == 0:
        return 0
    return 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))


def specification(tensor: torch.Tensor, storage_ids: dict[int, int] | None = None) -> dict[str, Any]:
    """The layout of a tensor, without sample and recipe. `storage_ids` numbers storages across one call.

    Raises `KeyError` for a dtype without a name here.
    """
    ids = {} if storage_ids is None else storage_ids
    address = tensor.untyped_storage().data_ptr()
    return {
        "dtype": NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "stride": list(tensor.stride()),
        "storage_offset": tensor.storage_offset(),
        "device": tensor.device.type,
        "alignment": tensor.data_ptr() % 64,
        "storage_id": ids.setdefault(address, len(ids)),
    }


def position(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    """The indices of the element at this place in logical order; `torch.unravel_index` imports the compiler for it."""
    indices: list[int] = []
    for size in reversed(shape):
        flat, index = divmod(flat, size)
        indices.insert(0, index)
    return tuple(indices)


def to_bytes(tensor: torch.Tensor) -> bytes | bytearray:
    """The bytes from the first to the last element, gaps included; a device's are copied to the host once."""
    count = extent(tensor)
    if count == 0:
        return b""
    flat = tensor.detach().as_strided((count,), (1,), tensor.storage_offset())
    if flat.device.type == "cpu":
        return ctypes.string_at(flat.data_ptr(), count * flat.element_size())
    data = bytearray(count * flat.element_size())
    torch.frombuffer(data, dtype=torch.uint8).copy_(as_bytes(flat))
    return data


def as_bytes(flat: torch.Tensor) -> torch.Tensor:
    """A flat contiguous tensor as unsigned bytes in the same memory."""
    return (torch.view_as_real(flat).reshape(-1) if flat.is_complex() else flat).view(torch.uint8)


def allocate(spec: dict[str, Any], device: torch.device | None = None) -> torch.Tensor:
    """An uninitialised tensor with the layout and the address modulo 64 of `spec`, on its device or `device`."""
    dtype = DTYPES[spec["dtype"]]
    shape, stride = spec["shape"], spec["stride"]
    count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
    size = torch.empty((), dtype=dtype, device="cpu").element_size()
    raw = torch.empty(count * size + 128, dtype=torch.uint8, device=device or spec.get("device", "cpu"))
    start = (spec.get("alignment", 0) - raw.data_ptr()) % 64
    flat = raw[start : start + count * size].view(dtype)
    return flat.as_strided(shape, stride, flat.storage_offset())


def fill(tensor: torch.Tensor, data: bytes | bytearray) -> torch.Tensor:
    """Copy bytes as `to_bytes` made them into a tensor of the same layout, and return it."""
    if not data:
        return tensor
    if tensor.device.type == "cpu":
        ctypes.memmove(tensor.data_ptr(), _address(data), len(data))
        return tensor
    flat = tensor.as_strided((extent(tensor),), (1,), tensor.storage_offset())
    as_bytes(flat).copy_(_host_view(data))
    return tensor


def from_bytes(spec: dict[str, Any], data: bytes | bytearray) -> torch.Tensor:
    """A tensor with the device and layout of `spec` and the values that `to_bytes` saved."""
    return fill(allocate(spec), data)


def _address(data: bytes | bytearray) -> Any:
    return (ctypes.c_char * len(data)).from_buffer(data) if isinstance(data, bytearray) else data


def _host_view(data: bytes | bytearray) -> torch.Tensor:
    """The bytes as a tensor, which is only read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that bytes are not writable
        return torch.frombuffer(data, dtype=torch.uint8)
