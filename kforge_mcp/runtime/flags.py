"""Process-wide settings that change what eager computes, recorded at capture and set again where it is re-run."""

from __future__ import annotations

import torch

from .tensors import DTYPES, NAMES

Flags = dict[str, "bool | int | str"]


def read() -> Flags:
    """The settings of this process."""
    return {
        "default_dtype": NAMES[torch.get_default_dtype()],
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "mkldnn": torch.backends.mkldnn.enabled,
        "flash_sdp": torch.backends.cuda.flash_sdp_enabled(),
        "memory_efficient_sdp": torch.backends.cuda.mem_efficient_sdp_enabled(),
        "math_sdp": torch.backends.cuda.math_sdp_enabled(),
    }


def apply(flags: Flags) -> None:
    """Set what `read` recorded; a setting that already holds is left alone."""
    now = read()
    setters = {
        "default_dtype": lambda value: torch.set_default_dtype(DTYPES[value]),
        "float32_matmul_precision": torch.set_float32_matmul_precision,
        "deterministic_algorithms": torch.use_deterministic_algorithms,
        "cudnn_benchmark": lambda value: setattr(torch.backends.cudnn, "benchmark", value),
        "cudnn_deterministic": lambda value: setattr(torch.backends.cudnn, "deterministic", value),
        "mkldnn": torch.backends.mkldnn.set_flags,
        "flash_sdp": torch.backends.cuda.enable_flash_sdp,
        "memory_efficient_sdp": torch.backends.cuda.enable_mem_efficient_sdp,
        "math_sdp": torch.backends.cuda.enable_math_sdp,
    }
    for name, value in flags.items():
        if now.get(name) != value:
            setters[name](value)
