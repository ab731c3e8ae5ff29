"""What this interpreter is and what building against its torch needs."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable
from typing import Any

from .failures import Refusal

Emit = Callable[[dict[str, Any]], None]


def describe(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Versions of Python and torch; refuses if torch cannot be imported. Probes no device."""
    try:
        import torch
    except Exception as error:
        raise Refusal("contract", f"torch cannot be imported: {type(error).__name__}: {error}") from error
    return {
        "executable": sys.executable,
        "python_version": platform.python_version(),
        "torch_version": str(torch.__version__),
        "cuda_version": torch.version.cuda or "",
    }


def build_paths(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Include and library folders of torch, for building against its stable ABI."""
    import torch
    from torch.utils import cpp_extension

    return {
        "include": cpp_extension.include_paths(),
        "library": cpp_extension.library_paths(),
        "torch_version": str(torch.__version__),
        "cxx11_abi": bool(torch._C._GLIBCXX_USE_CXX11_ABI),
    }
