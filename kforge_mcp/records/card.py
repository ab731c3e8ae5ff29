"""An operator card: one operator family of a project."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from kforge_mcp.records.admission import Admission
from kforge_mcp.records.base import Record
from kforge_mcp.records.variant import Variant

Level = Literal["torch", "function", "module"]


class OperatorCard(Record):
    """A torch operator, a Python function of the model's code, or a module class, with its variants."""

    card_id: str
    project_id: str
    level: Level
    name: str
    """As a person says it: `LlamaRMSNorm`, `apply_rotary_pos_emb`, `torch.nn.functional.softmax`."""
    qualified_name: str
    """`module.path:Name`, importable in the model interpreter."""
    eligible: bool
    reason: str = ""
    """Why it is not eligible, or what to know about it."""
    calls: int
    """Calls in one run of the workload, over all variants."""
    eager_us: float
    """Eager time of all its calls in one run of the workload, microseconds."""
    share: float
    """Part of the workload's time, 0 to 1, contained cards included."""
    own_share: float = 0.0
    """The same without what cards of the same level inside it take: these add up to at most 1 on each level."""
    gain_ceiling: float
    """Largest factor by which the whole workload could get faster from this card alone."""
    headroom: float | None = None
    """Part of the workload's time, 0 to 1, that own kernels could save here beyond the cards inside; None: unknown."""
    worth_it: bool
    parents: list[str] = Field(default_factory=list)
    """Names of the cards whose calls contain this one's."""
    children: list[str] = Field(default_factory=list)
    variants: list[Variant]
    reference: dict[str, Any] = Field(default_factory=dict)
    """How the runtime rebuilds eager: see `runtime/reference.py`; read by the runtime only."""
    reference_source: str = ""
    """The Python text of the operator, for whoever writes a candidate."""
    source_location: str = ""
    patch_sites: list[str] = Field(default_factory=list)
    """`module.path:attribute` of every place that holds the function (function and torch cards)."""
    weak_oracle: str = ""
    """Set when inputs cannot tell a wrong kernel from a right one; nothing is claimed on such a card."""
    admissions: dict[str, Admission] = Field(default_factory=dict)
    """By variant: what the judge found out about its inputs."""
    mutates: str = ""
    """The name of the argument that eager writes into and returns; empty for an operator that returns new tensors."""

    @property
    def findings(self) -> dict[str, list[str]]:
        """What there is to know of the judge's inputs and oracle, with the variants that it holds for."""
        found: dict[str, list[str]] = {}
        for variant_id, admission in self.admissions.items():
            tried = [f"tried on {admission.hardness} too"] if admission.hardness else []
            for text in (*admission.notes, *tried):
                found.setdefault(text, []).append(variant_id)
        return found
