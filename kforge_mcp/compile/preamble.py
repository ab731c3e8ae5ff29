"""C++ that stands before every CPU candidate: headers, conversions, and the types and constants of its names."""

from __future__ import annotations

from collections.abc import Iterator

from kforge_mcp.candidate.c_types import scalar_type_name, tensor_type
from kforge_mcp.candidate.declaration import Config, Plan, Scalar
from kforge_mcp.candidate.signature import Group
from kforge_mcp.records.tensor import FLOATING

# Integer arithmetic, so that they vectorise everywhere and -ffast-math cannot change them.
CONVERSIONS = r"""
[[maybe_unused]] static inline uint32_t kforge_bits(float value) {
    uint32_t bits; std::memcpy(&bits, &value, 4); return bits;
}
[[maybe_unused]] static inline float kforge_float(uint32_t bits) {
    float value; std::memcpy(&value, &bits, 4); return value;
}
[[maybe_unused]] static inline float bf16_to_float(uint16_t bits) {
    return kforge_float(static_cast<uint32_t>(bits) << 16);
}
[[maybe_unused]] static inline uint16_t float_to_bf16(float value) {
    uint32_t bits = kforge_bits(value);
    uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc0u : rounded);
}
[[maybe_unused]] static inline float fp16_to_float(uint16_t bits) {
    uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16, rest = bits & 0x7fffu;
    uint32_t normal = (rest << 13) + (rest >= 0x7c00u ? 0x70000000u : 0x38000000u);
    uint32_t small = kforge_bits(static_cast<float>(static_cast<int32_t>(rest)) * 0x1p-24f);
    return kforge_float(sign | (rest < 0x400u ? small : normal));
}
[[maybe_unused]] static inline uint16_t float_to_fp16(float value) {
    uint32_t bits = kforge_bits(value), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    uint32_t normal = (rest + 0xc8000fffu + ((rest >> 13) & 1u)) >> 13;
    uint32_t small = kforge_bits(kforge_float(rest < 0x38800000u ? rest : 0u) + 0.5f) - 0x3f000000u;
    uint32_t large = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return static_cast<uint16_t>(sign | (rest < 0x38800000u ? small : rest < 0x47800000u ? normal : large));
}
"""


def preamble(plan: Plan, group: Group, config: Config) -> str:
    """The text before the candidate's own first line."""
    lines = [
        "#include <cmath>",
        "#include <cstddef>",
        "#include <cstdint>",
        "#include <cstring>",
        "#include <limits>",
        CONVERSIONS,
        *_types(plan, group),
        *(_tunable(name, value) for name, value in config.items()),
    ]
    return "\n".join(lines)


def _types(plan: Plan, group: Group) -> Iterator[str]:
    named = {**group.dtypes, **{space.name: space.dtype for space in plan.workspace}}
    for name, dtype in named.items():
        c_type = tensor_type(dtype)
        if c_type is None:
            continue
        yield f"using {name}_t = {c_type};"
        if dtype not in FLOATING:
            continue
        accumulator = "double" if dtype == "fp64" else "float"
        half = dtype in ("fp16", "bf16")
        load = f"{dtype}_to_float(value)" if half else "value"
        store = f"float_to_{dtype}(value)" if half else "value"
        yield f"using {name}_acc = {accumulator};"
        yield f"[[maybe_unused]] static inline {accumulator} {name}_load({c_type} value) {{ return {load}; }}"
        yield f"[[maybe_unused]] static inline {c_type} {name}_store({accumulator} value) {{ return {store}; }}"
    for name, scalar in group.scalars.items():
        yield f"using {name}_t = {scalar_type_name(scalar)};"


def _tunable(name: str, value: Scalar) -> str:
    if isinstance(value, bool):
        return f"constexpr bool {name} = {'true' if value else 'false'};"
    if isinstance(value, int):
        if value == -(2**63):
            return f"constexpr int64_t {name} = INT64_MIN;"
        kind = "int" if -(2**31) <= value < 2**31 else "int64_t"
        return f"constexpr {kind} {name} = {value};"
    if isinstance(value, float):
        return f"constexpr double {name} = {value.hex()};"
    return f"#define {name} {value}"
