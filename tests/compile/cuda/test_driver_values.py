"""The numbers by which the runtime calls the driver are those of NVIDIA's own bindings."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import pytest

from kforge_mcp.runtime.cuda import driver, library, tensor_maps

bindings = pytest.importorskip("cuda.bindings.driver")

_DEVICE = {
    "max_block_x": "MAX_BLOCK_DIM_X", "max_block_y": "MAX_BLOCK_DIM_Y", "max_block_z": "MAX_BLOCK_DIM_Z",
    "max_grid_x": "MAX_GRID_DIM_X", "max_grid_y": "MAX_GRID_DIM_Y", "max_grid_z": "MAX_GRID_DIM_Z",
    "shared_bytes_per_block": "MAX_SHARED_MEMORY_PER_BLOCK", "registers_per_block": "MAX_REGISTERS_PER_BLOCK",
    "clock_khz": "CLOCK_RATE", "sm_count": "MULTIPROCESSOR_COUNT", "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH", "l2_bytes": "L2_CACHE_SIZE",
    "threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR", "capability_major": "COMPUTE_CAPABILITY_MAJOR",
    "capability_minor": "COMPUTE_CAPABILITY_MINOR", "shared_bytes_per_sm": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR", "blocks_per_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "shared_bytes_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "persisting_l2_bytes": "MAX_PERSISTING_L2_CACHE_SIZE", "reserved_shared_bytes": "RESERVED_SHARED_MEMORY_PER_BLOCK",
    "tensor_map_access": "TENSOR_MAP_ACCESS_SUPPORTED",
}  # fmt: skip
_FUNCTION = {
    "max_threads": "MAX_THREADS_PER_BLOCK", "static_shared_bytes": "SHARED_SIZE_BYTES",
    "local_bytes": "LOCAL_SIZE_BYTES", "registers": "NUM_REGS",
    "max_dynamic_shared_bytes": "MAX_DYNAMIC_SHARED_SIZE_BYTES", "cluster_x": "REQUIRED_CLUSTER_WIDTH",
    "cluster_y": "REQUIRED_CLUSTER_HEIGHT", "cluster_z": "REQUIRED_CLUSTER_DEPTH",
    "non_portable_cluster_size": "NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
}  # fmt: skip


def official(enumeration: type[IntEnum], prefix: str, word: str) -> int:
    return int(getattr(enumeration, f"{prefix}_{word}"))


@pytest.mark.parametrize(
    ("ours", "words", "enumeration", "prefix"),
    [
        (driver.DEVICE_ATTRIBUTES, _DEVICE, bindings.CUdevice_attribute, "CU_DEVICE_ATTRIBUTE"),
        (driver.FUNCTION_ATTRIBUTES, _FUNCTION, bindings.CUfunction_attribute, "CU_FUNC_ATTRIBUTE"),
        (tensor_maps.DATA_TYPES, {}, bindings.CUtensorMapDataType, "CU_TENSOR_MAP_DATA_TYPE"),
        (tensor_maps.INTERLEAVES, {}, bindings.CUtensorMapInterleave, "CU_TENSOR_MAP_INTERLEAVE"),
        (tensor_maps.SWIZZLES, {}, bindings.CUtensorMapSwizzle, "CU_TENSOR_MAP_SWIZZLE"),
        (
            tensor_maps.PROMOTIONS,
            {"64B": "L2_64B", "128B": "L2_128B", "256B": "L2_256B"},
            bindings.CUtensorMapL2promotion,
            "CU_TENSOR_MAP_L2_PROMOTION",
        ),
        (
            tensor_maps.FILLS,
            {"zero": "NONE", "nan": "NAN_REQUEST_ZERO_FMA"},
            bindings.CUtensorMapFloatOOBfill,
            "CU_TENSOR_MAP_FLOAT_OOB_FILL",
        ),
    ],
)
def test_names_stand_for_the_official_numbers(
    ours: dict[str, int], words: dict[str, str], enumeration: type[IntEnum], prefix: str
) -> None:
    for name, number in ours.items():
        assert number == official(enumeration, prefix, words.get(name, name.upper())), name


def test_errors_have_the_official_numbers() -> None:
    results = bindings.CUresult
    assert results.CUDA_ERROR_OUT_OF_MEMORY == library.OUT_OF_MEMORY
    assert results.CUDA_ERROR_NO_BINARY_FOR_GPU == library.NO_BINARY_FOR_GPU
    assert results.CUDA_ERROR_NOT_FOUND == library.NOT_FOUND
    assert results.CUDA_ERROR_LAUNCH_TIMEOUT == library.LAUNCH_TIMEOUT
    assert results.CUDA_ERROR_INVALID_CLUSTER_SIZE == library.INVALID_CLUSTER_SIZE
    lost = {
        "ILLEGAL_ADDRESS", "LAUNCH_TIMEOUT", "CONTEXT_IS_DESTROYED", "ASSERT", "HARDWARE_STACK_ERROR",
        "ILLEGAL_INSTRUCTION", "MISALIGNED_ADDRESS", "INVALID_ADDRESS_SPACE", "INVALID_PC", "LAUNCH_FAILED",
        "TENSOR_MEMORY_LEAK",
    }  # fmt: skip
    assert {int(getattr(results, f"CUDA_ERROR_{word}")) for word in lost} == library.STICKY
    assert set(library.CAUSES) <= library.STICKY


def test_structures_are_laid_out_as_the_official_ones() -> None:
    attributes = bindings.CUlaunchAttributeID
    assert attributes.CU_LAUNCH_ATTRIBUTE_COOPERATIVE == library.ATTRIBUTE_COOPERATIVE
    assert attributes.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION == library.ATTRIBUTE_CLUSTER_DIMENSION
    assert ctypes.sizeof(library.LaunchAttribute) == 72
    assert library.LaunchAttribute.value.offset == 8
    assert ctypes.sizeof(library.LaunchConfig) == 56
    assert (library.LaunchConfig.stream.offset, library.LaunchConfig.attributes.offset) == (32, 40)
