"""What the sampling pass collects: cards and variants on their way to the control plane's records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from .capture_arguments import BoundCall
from .capture_targets import Target
from .tensors import specification


@dataclass
class OutputDraft:
    """The result of a call: its structure, layouts, and the digests and finiteness of its tensors."""

    tree: dict[str, Any]
    specs: list[dict[str, Any]]
    digests: list[str]
    finite: list[bool]
    overwritten: list[int]
    """Per output the input that eager overwrites and returns as it, else -1; empty if it overwrites none."""


@dataclass
class VariantDraft:
    """One call signature, from its first call. `reason` is set when it is not eligible."""

    key: str
    bound: BoundCall | None = None
    """Its tensors are the module's parameters and buffers alone once the call is over."""
    arguments: list[dict[str, Any]] = field(default_factory=list)
    specs: list[dict[str, Any]] = field(default_factory=list)
    output: OutputDraft | None = None
    module: torch.nn.Module | None = None
    pickle: bytes = b""
    pickle_digest: str = ""
    alternates: dict[tuple[Any, ...], bytes] = field(default_factory=dict)
    """Pickles of the other instances whose calls count to this variant, by what tells them apart."""
    operations: list[str] = field(default_factory=list)
    """What the call dispatches to, in order."""
    reason: str = ""
    flops: int = 0
    unique_bytes: int = 0

    def call(self) -> dict[str, Any]:
        """The record's `call`; instances of one class may differ, so each variant names its own pickle."""
        assert self.bound is not None
        return {**self.bound.call, **({"module": self.pickle_digest} if self.pickle_digest else {})}


@dataclass
class CardDraft:
    """An operator family; `spellings` are the ways in which a torch operator was called."""

    target: Target
    variants: dict[str, VariantDraft] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    spellings: set[str] = field(default_factory=set)
    parents: set[str] = field(default_factory=set)
    children: set[str] = field(default_factory=set)
    takes_tensors: bool = False
    gives_tensors: bool = False


def specify(tensors: list[torch.Tensor]) -> list[dict[str, Any]]:
    """Layouts of the tensors of one call, their storages numbered together."""
    storage_ids: dict[int, int] = {}
    return [specification(tensor, storage_ids) for tensor in tensors]
