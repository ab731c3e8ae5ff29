"""What compiling a candidate yields."""

from __future__ import annotations

from pydantic import Field

from kforge_mcp.records.base import Record
from kforge_mcp.records.result import Diagnostic, Reason


class KernelResources(Record):
    """What one kernel of a cubin uses, as the assembler and the cubin state it. Sizes in bytes."""

    kernel: str
    """As the plan names it: `rms_norm_rows<BLOCK>`."""
    symbol: str
    """Its name in the cubin."""
    registers: int = 0
    """Of one thread."""
    spill_store_bytes: int = 0
    spill_load_bytes: int = 0
    stack_bytes: int = 0
    static_shared_bytes: int = 0
    barriers: int = 0
    parameters: list[tuple[int, int]] = Field(default_factory=list)
    """Offset and size of each parameter."""


class Binary(Record):
    """The candidate for one signature of types, one configuration of its tunables and, for CUDA, one architecture.

    A shared object for the CPU; for CUDA a cubin, or PTX where `arch` begins with `compute_`.
    """

    path: str
    digest: str
    """SHA-256 of the file."""
    config: dict[str, int | float | bool | str]
    variants: list[str]
    """The variant_ids with this signature that the candidate claims under this configuration."""
    entry: str
    """The exported C symbol; empty for CUDA, where `kernels` has the symbols."""
    arch: str = ""
    """`sm_90a` or `compute_80`; empty for the CPU."""
    kernels: list[KernelResources] = Field(default_factory=list)


class Compiled(Record):
    """At least one configuration compiled for every variant that it claims."""

    binaries: list[Binary]
    diagnostics: list[Diagnostic] = Field(default_factory=list)
    """Warnings, and configurations that were left out."""
    log: str = ""


class CompileFailed(Record):
    """No configuration compiled. `message` has at most 1,500 characters."""

    reason: Reason
    message: str
    diagnostics: list[Diagnostic] = Field(default_factory=list)
    log: str = ""


CompileOutcome = Compiled | CompileFailed
