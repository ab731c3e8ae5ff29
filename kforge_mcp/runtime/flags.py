"""Process-wide settings that change what eager computes, recorded at capture and set again where it is re-run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .tensors import DTYPES, NAMES

Flags = dict[str, "bool | int | str"]
_cuda, _cudnn = torch.backends.cuda, torch.backends.cudnn


def _attribute(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    return lambda: getattr(owner, name), lambda value: setattr(owner, name, value)


# The general precision of matrix products comes before that of each library, which it sets too.
_SETTINGS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
    "default_dtype": (
        lambda: NAMES[torch.get_default_dtype()],
        lambda value: torch.set_default_dtype(DTYPES[value]),
    ),
    "float32_matmul_precision": (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    "cuda_matmul_fp32": _attribute(_cuda.matmul, "fp32_precision"),
    "cudnn_conv_fp32": _attribute(_cudnn.conv, "fp32_precision"),
    "cudnn_rnn_fp32": _attribute(_cudnn.rnn, "fp32_precision"),
    "cuda_reduced_bf16_sums": _attribute(_cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    "cuda_reduced_fp16_sums": _attribute(_cuda.matmul, "allow_fp16_reduced_precision_reduction"),
    "deterministic_algorithms": (torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms),
    "cudnn": _attribute(_cudnn, "enabled"),
    "cudnn_benchmark": _attribute(_cudnn, "benchmark"),
    "cudnn_deterministic": _attribute(_cudnn, "deterministic"),
    "mkldnn": (lambda: torch.backends.mkldnn.enabled, torch.backends.mkldnn.set_flags),
    "flash_sdp": (_cuda.flash_sdp_enabled, _cuda.enable_flash_sdp),
    "memory_efficient_sdp": (_cuda.mem_efficient_sdp_enabled, _cuda.enable_mem_efficient_sdp),
    "math_sdp": (_cuda.math_sdp_enabled, _cuda.enable_math_sdp),
    "cudnn_sdp": (_cuda.cudnn_sdp_enabled, _cuda.enable_cudnn_sdp),
}


def read() -> Flags:
    """The settings of this process; one that torch cannot tell is left out."""
    settings = {}
    for name, (get, _) in _SETTINGS.items():
        try:
            settings[name] = get()
        except RuntimeError:
            # The old name of a setting whose parts were given different values by their new names.
            continue
    return settings


def apply(flags: Flags) -> None:
    """Set what `read` recorded; a setting that already holds is left alone."""
    for name in _SETTINGS:
        if name in flags and read().get(name) != flags[name]:
            _SETTINGS[name][1](flags[name])
