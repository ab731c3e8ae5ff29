"""The instruction set that a package's kernels need, as the names Linux gives its parts in /proc/cpuinfo."""

from __future__ import annotations

import platform
from dataclasses import dataclass

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


def baseline_of(march: str) -> Baseline:
    """The baseline behind the `-march` value that the judged binaries were compiled for; an empty one is the
    machine's own least."""
    machine = platform.machine()
    name = march or ("x86-64" if machine == "x86_64" else machine)
    return Baseline(name=name, machine=machine, features=_LEVELS.get(name, ()))
