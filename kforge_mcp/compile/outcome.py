"""What compiling a candidate yields."""

from __future__ import annotations

from pydantic import Field

from kforge_mcp.records.base import Record
from kforge_mcp.records.result import Diagnostic, Reason


class Binary(Record):
    """One shared object: the candidate for one signature of types and one configuration of its tunables."""

    path: str
    digest: str
    """SHA-256 of the file."""
    config: dict[str, int | float | bool | str]
    variants: list[str]
    """The variant_ids with this signature that the candidate claims under this configuration."""
    entry: str
    """The exported C symbol."""


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
