"""Compiler options that a candidate may ask for: an allow-list per target."""

from __future__ import annotations

import re
from collections.abc import Sequence

from kforge_mcp.candidate.rejection import suggestion
from kforge_mcp.records.project import Target

ALLOWED: dict[Target, tuple[str, ...]] = {
    "cpu": (
        "-O1", "-O2", "-O3", "-funroll-loops", "-fno-tree-vectorize", "-ffast-math", "-fassociative-math",
        "-freciprocal-math", "-ffinite-math-only", "-fno-signed-zeros", "-ffp-contract=off", "-ffp-contract=fast",
        "-mprefer-vector-width=128", "-mprefer-vector-width=256", "-mprefer-vector-width=512",
    ),
    "cuda": (
        "--use_fast_math", "--fmad=true", "--fmad=false", "--ftz=true", "--ftz=false", "--prec-div=true",
        "--prec-div=false", "--prec-sqrt=true", "--prec-sqrt=false", "--extra-device-vectorization",
        "-maxrregcount=N",
    ),
}  # fmt: skip
"""`-fno-math-errno`, `-fno-trapping-math` and OpenMP are always on for the CPU and need no option."""

_ALWAYS_ON = {"-fopenmp", "-fopenmp-simd", "-fPIC", "-fno-math-errno", "-fno-trapping-math"}


def refusal(option: str, target: Target) -> tuple[str, str] | None:
    """Message and hint for an option that is not allowed, or None."""
    allowed = ALLOWED[target]
    if option in allowed and not option.endswith("=N"):
        return None
    count = re.fullmatch(r"-maxrregcount=(\d{1,3})", option)
    if target == "cuda" and count and 16 <= int(count[1]) <= 255:
        return None
    if target == "cuda" and option.startswith(("-maxrregcount", "--maxrregcount")):
        return f"the option {option} is not allowed: registers are limited by -maxrregcount=N, N from 16 to 255", ""
    if target == "cuda" and option.startswith(("-arch", "--gpu-architecture", "-gencode", "--gpu-code")):
        return f"the option {option} is not allowed: kforge compiles for the architecture of the project's device", ""
    if option.startswith(("-D", "-U", "-I", "-include", "--define-macro", "--include-path")):
        return f"the option {option} is not allowed: write definitions into the source; see [tunables]", ""
    if target == "cpu" and option in _ALWAYS_ON:
        return f"the option {option} is always on; leave it out", ""
    if option.startswith(("-march", "-mtune", "-mavx", "-mcpu")):
        return f"the option {option} is not allowed: kforge sets one instruction set baseline for all candidates", ""
    return f"the option {option} is not allowed for target {target}", suggestion(option, allowed)


def conflict(option: str, before: Sequence[str]) -> tuple[str, str] | None:
    """Message and hint for an option that contradicts an earlier one, or None."""
    name, given, _ = option.partition("=")
    other = next((one for one in before if given and one != option and one.startswith(f"{name}=")), None)
    return (f"the option {option} contradicts {other}", "give it once") if other else None
