"""Numbers that kernels get by value."""

from __future__ import annotations

import ctypes

SCALARS = {
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
}
"""The C type of each scalar type that a plan binds."""
