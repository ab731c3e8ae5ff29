"""Messages of g++, clang++ and their linkers that mean more than they say."""

from __future__ import annotations

import re

LIMITS = (
    (r"CPU time limit exceeded|signal 24", "the compilation took more than {cpu_s:g} s of processor time"),
    (
        r"out of memory|virtual memory exhausted|bad_alloc|Cannot allocate memory|memory exhausted",
        "the compilation needed more than {memory_mb} MiB of memory",
    ),
    (r"File size limit exceeded|File too large|[Ff]ile truncated", "the compilation wrote more than {file_mb} MiB"),
    (r"template instantiation (?:depth )?exceed\w+|instantiation depth exceeds", "templates are nested too deeply"),
    (
        r"constexpr[^\n]* (?:exceeds|exceeded|hit)|constexpr evaluation[^\n]*limit",
        "a constant expression takes too long to evaluate",
    ),
    (r"bracket nesting level exceeded", "brackets are nested too deeply"),
    (
        r"internal compiler error|PLEASE submit a bug report|Killed signal|Segmentation fault|terminated program",
        "the compiler itself crashed on this source, most often because of nesting too deep",
    ),
)
"""Patterns for a compilation that ended at a limit, the specific ones first, with what to say."""

_HINTS = (
    (
        r"redefinition (?:of '.*'|with different types)|conflicting declaration 'using|redeclared",
        "kforge declares the types `name_t` and the tunables itself",
    ),
    (r"'omp_\w+' was not declared|use of undeclared identifier 'omp_", "add #include <omp.h>"),
    (r"\b(?:__half|__nv_bfloat16|blockIdx|threadIdx|__shared__|__global__)\b", "this target is C++, not CUDA"),
    (
        r"'(?:torch|at)' has not been declared|(?:ATen|torch)/\S+:?'? (?:No such file|file not found)",
        "a candidate has no access to torch",
    ),
    (r"invalid conversion from 'const .*\*' to '.*\*'", "inputs are read-only: take them as pointers to const"),
)

_RETURN_TYPE = "functions that differ only in their return type"
_CONTRACT = re.compile(
    r"conflicting (?:declaration|types)|was declared 'extern' and later 'static'|ambiguating new declaration"
    r"|static declaration of|different language linkage"
)


def exceeded_limit(text: str, limits: dict[str, float]) -> str:
    """What to say if a compiler's output tells of a limit, else an empty string."""
    values = {
        "cpu_s": limits["cpu_s"],
        "memory_mb": int(limits["memory_bytes"]) >> 20,
        "file_mb": int(limits["file_bytes"]) >> 20,
    }
    for pattern, message in LIMITS:
        if re.search(pattern, text):
            return message.format(**values)
    return ""


def hint_for(message: str) -> str:
    """Advice on a compiler's message; empty without any."""
    return next((advice for pattern, advice in _HINTS if re.search(pattern, message)), "")


def breaks_contract(message: str, entry: str, source_line: str) -> bool:
    """Whether an error says that the entry function differs from its declaration."""
    named = re.compile(rf"\b{re.escape(entry)}\b")
    if _RETURN_TYPE in message:
        return bool(named.search(source_line))
    return bool(_CONTRACT.search(message) and named.search(message))
