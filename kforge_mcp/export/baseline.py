"""What a package needs of a machine: its processor's instruction set, as Linux names its parts, and its driver."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field, replace

_V2 = ("cx16", "lahf_lm", "pni", "popcnt", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")
_V4 = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_LEVELS = {"x86-64": (), "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4}


@dataclass(frozen=True)
class Baseline:
    """What the compiler was told (`-march`), for which machine, and what a processor must have for it."""

    name: str
    machine: str
    features: tuple[str, ...]
    driver_minimum: dict[str, str] = field(default_factory=dict)
    """Least CUDA version that the driver has to support, by kind of binary (`cubin`, `ptx`); empty for the CPU."""


def baseline_of(march: str) -> Baseline:
    """The baseline behind the `-march` value that the judged binaries were compiled for; an empty one is the
    machine's own least."""
    machine = platform.machine()
    name = march or ("x86-64" if machine == "x86_64" else machine)
    return Baseline(name=name, machine=machine, features=_LEVELS.get(name, ()))


def device_baseline(nvrtc: str) -> Baseline:
    """What a package for CUDA needs: host code of any processor, and a driver for what NVRTC of this version made.

    Cubins run on every driver of the toolkit's major version; PTX is compiled by the driver and has to be known to it
    (CUDA Compatibility, section "Minor Version Compatibility").
    """
    major = nvrtc.partition(".")[0]
    return replace(baseline_of(""), driver_minimum={"cubin": f"{major}.0", "ptx": nvrtc})
