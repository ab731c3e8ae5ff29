"""What the judge found out about the inputs of a variant, once, before anything was claimed on it."""

from __future__ import annotations

from pydantic import Field

from kforge_mcp.records.base import Record


class Admission(Record):
    """Whether a variant's inputs tell known wrong results from right ones, and which inputs that takes."""

    key: str
    """Of the variant's content, the judge's code and torch: what was found holds while these stay."""
    hardness: str = ""
    """Which harder inputs are needed, as `runtime/hardening.py` names them; empty if those like the captured do."""
    frozen: list[int] = Field(default_factory=list)
    """Tensors whose captured values are always used, since eager fails on fresh ones."""
    varied: list[int] = Field(default_factory=list)
    """Masks and positions that are varied: a kernel must not take the captured ones for granted."""
    in_range: list[int] = Field(default_factory=list)
    """Tensors that stress must not take beyond captured values."""
    oracle: str = ""
    """Why eager in its own precision stands in for float64; empty where it need not."""
    uncaught: list[str] = Field(default_factory=list)
    """Known wrong results that passed every check: nothing is claimed on the card."""
    notes: list[str] = Field(default_factory=list)
    """What there is to know of inputs and oracle: draws left out, what stands in for float64."""
