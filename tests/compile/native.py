"""Calls a compiled candidate in this process, through the contract's C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from kforge_mcp.candidate.binding import bind, bind_workspaces
from kforge_mcp.candidate.plan import Plan, Rejected
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.records.variant import Variant

# Candidates are linked without an OpenMP library: in a model's process it is torch's.
ctypes.CDLL("libgomp.so.1", mode=ctypes.RTLD_GLOBAL)

_SCALARS: dict[str, Any] = {
    "int64": ctypes.c_int64,
    "int32": ctypes.c_int32,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "bool": ctypes.c_bool,
}


def call(
    binary: Binary, plan: Plan, variant: Variant, tensors: Sequence[np.ndarray], outputs: Sequence[np.ndarray]
) -> None:
    """Run a binary for a variant on flat buffers, one for each tensor and output."""
    bound = bind(plan, variant, binary.config)
    spaces = bind_workspaces(plan, variant, binary.config)
    assert not isinstance(bound, Rejected)
    assert not isinstance(spaces, Rejected)
    scratch = [np.zeros(space.size_bytes, np.uint8) for space in spaces]
    buffers = {"tensor": tensors, "output": outputs, "workspace": scratch}
    arguments: list[Any] = []
    for argument in bound:
        if argument.kind == "scalar":
            arguments.append(_SCALARS[argument.scalar_type](argument.value))
        elif argument.kind == "null":
            arguments.append(ctypes.c_void_p(None))
        else:
            arguments.append(ctypes.c_void_p(buffers[argument.kind][argument.index].ctypes.data))
    function = getattr(ctypes.CDLL(binary.path), binary.entry)
    function.restype = None
    function(*arguments)
