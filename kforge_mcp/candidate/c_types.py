"""The table of C types: what each dtype and constant is in a candidate."""

from __future__ import annotations

from kforge_mcp.candidate.bound import ScalarType
from kforge_mcp.records.project import Target

CPU_TYPES: dict[str, str] = {
    "fp32": "float", "fp64": "double", "fp16": "uint16_t", "bf16": "uint16_t", "int64": "int64_t", "int32": "int",
    "int16": "short", "int8": "signed char", "uint8": "unsigned char", "bool": "bool",
}  # fmt: skip
CUDA_TYPES: dict[str, str] = {
    "fp32": "float", "fp64": "double", "fp16": "__half", "bf16": "__nv_bfloat16", "fp8_e4m3": "__nv_fp8_e4m3",
    "fp8_e5m2": "__nv_fp8_e5m2", "int64": "long long", "int32": "int", "int16": "short", "int8": "signed char",
    "uint8": "unsigned char", "bool": "bool", "complex64": "float2",
}  # fmt: skip
_SCALARS: dict[Target, dict[str, str]] = {
    "cpu": {"int64": "int64_t", "int32": "int", "float": "float", "double": "double", "bool": "bool"},
    "cuda": {"int64": "long long", "int32": "int", "float": "float", "double": "double", "bool": "bool"},
}

CPP_WORDS = frozenset({
    "alignas", "alignof", "and", "and_eq", "asm", "auto", "bitand", "bitor", "bool", "break", "case", "catch",
    "char", "char8_t", "char16_t", "char32_t", "class", "compl", "concept", "const", "consteval", "constexpr",
    "constinit", "const_cast", "continue", "co_await", "co_return", "co_yield", "decltype", "default", "delete",
    "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern", "false", "float", "for",
    "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "noexcept", "not", "not_eq",
    "nullptr", "operator", "or", "or_eq", "private", "protected", "public", "register", "reinterpret_cast",
    "requires", "return", "short", "signed", "sizeof", "static", "static_assert", "static_cast", "struct", "switch",
    "template", "this", "thread_local", "throw", "true", "try", "typedef", "typeid", "typename", "union",
    "unsigned", "using", "virtual", "void", "volatile", "wchar_t", "while", "xor", "xor_eq",
})  # fmt: skip
"""Words that cannot be names in C++20."""


def tensor_type(dtype: str, target: Target = "cpu") -> str | None:
    """The C type of an element, or None where a candidate of this target cannot handle the dtype."""
    return (CPU_TYPES if target == "cpu" else CUDA_TYPES).get(dtype)


def scalar_type_name(scalar_type: ScalarType, target: Target = "cpu") -> str:
    """The C type in which a scalar argument is passed."""
    return _SCALARS[target][scalar_type]


TENSOR_MAP_TYPE = "const __grid_constant__ CUtensorMap"
TENSOR_MAP_BYTES = 128
POINTER_BYTES = 8
SCALAR_BYTES: dict[str, int] = {"int64": 8, "int32": 4, "float": 4, "double": 8, "bool": 1}
"""Bytes of a scalar argument."""
