"""Which headers stand before a CUDA candidate, where a precompiled one can hold them, and which it may not have."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kforge_mcp.candidate.rejection import nearest
from kforge_mcp.compile.cuda.toolchain import SHIMS
from kforge_mcp.compile.directives import directives, reads_files
from kforge_mcp.records.result import Diagnostic

_CONDITIONS = ("define", "undef", "if", "ifdef", "ifndef", "pragma")
_TYPES = (
    ("cuda_fp16.h", re.compile(r"\b(?:__)?half2?\b|\b__h\w+|\b\w+half2?\w*\(")),
    ("cuda_bf16.h", re.compile(r"\b(?:__)?nv_bfloat16\w*\b|\b\w+bfloat16\w*\(")),
    ("cuda_fp8.h", re.compile(r"\b__nv_fp8\w*\b")),
)
_OF_DTYPE = {"fp16": "cuda_fp16.h", "bf16": "cuda_bf16.h", "fp8_e4m3": "cuda_fp8.h", "fp8_e5m2": "cuda_fp8.h"}
_ORDER = ("cuda_fp16.h", "cuda_bf16.h", "cuda_fp8.h", "cuda_fp4.h", "mma.h", "cooperative_groups.h")
_SHARED = re.compile(
    r"(?:cuda_fp16|cuda_bf16|cuda_fp8|cuda_fp4|mma|cooperative_groups)\.h|(?:cooperative_groups|cub|cuda)/.*"
)
"""Headers of the toolkit that the source may name itself and that are worth sharing precompiled."""
_DEVICE = re.compile(
    r"cooperative_groups\.h|(?:cooperative_groups|cub|cuda|nv)/.*|thrust/(?:complex|tuple|pair|swap|functional)\.h|crt/.*|cu\w+\.h|mma\.h"
    r"|math_constants\.h|math_functions\.h|vector_(?:types|functions)\.h|device_\w+\.h|sm_\d+_\w+\.h|driver_types\.h"
    r"|builtin_types\.h|surface_\w+\.h|texture_\w+\.h|library_types\.h|host_defines\.h|channel_descriptor\.h"
)


def includes(source: str) -> list[tuple[int, str]]:
    """The headers that a source names, with their lines."""
    return [(one.line, one.header) for one in directives(source) if one.name == "include" and one.header]


def prelude(source: str, dtypes: Iterable[str]) -> str:
    """The `#include` lines before everything else: what injected types need and what the source includes itself.

    The source's own includes are brought forward only up to its first macro or condition, which could change what a
    header means.
    """
    wanted = {_OF_DTYPE[dtype] for dtype in dtypes if dtype in _OF_DTYPE}
    wanted |= {header for header, pattern in _TYPES if pattern.search(source)}
    for directive in directives(source):
        if directive.name in _CONDITIONS and (directive.name, directive.operand) != ("pragma", "once"):
            break
        if directive.name == "include" and directive.angled and _SHARED.fullmatch(directive.header):
            wanted.add(directive.header)
    ordered = sorted(wanted, key=lambda header: (_ORDER.index(header) if header in _ORDER else len(_ORDER), header))
    return "".join(f"#include <{header}>\n" for header in ordered)


def limits_cooperative_groups(source: str) -> bool:
    """Whether cooperative groups can do without CCCL, which makes them twenty times faster to compile."""
    return not any(header.startswith(("cuda/", "cub/", "thrust/")) for _, header in includes(source))


def refused_headers(source: str) -> list[Diagnostic]:
    """Headers that device code has no use for: those of the host, of torch, and files by path."""
    lines = source.split("\n")
    shims = {str(path.relative_to(SHIMS)) for path in SHIMS.rglob("*") if path.is_file() and path.suffix != ".md"}
    found = reads_files(source, headers_only=True)
    for number, header in includes(source):
        if header in shims or _DEVICE.fullmatch(header):
            continue
        if header.startswith(("torch/", "ATen/", "c10/", "pybind11/")):
            hint = "a candidate has no host code: kforge passes tensors as pointers and launches the kernels"
        elif close := nearest(header, shims):
            hint = f"did you mean <{close}>?"
        else:
            hint = "a candidate is one file with CUDA's device headers, cub/, cuda/ and cooperative_groups/"
        found.append(
            Diagnostic(
                severity="error",
                message=f"`{header}` is not a header for device code",
                line=number,
                column=max(lines[number - 1].find(header), 0) + 1,
                source_line=lines[number - 1][:200],
                hint=hint,
            )
        )
    return sorted(found, key=lambda one: one.line)
