"""Which inputs the variants of a card need, found out once and kept with the card.

An entry holds for the content of its variant, the code that decides, and the version of torch: when one of them
changes, the battery runs again, and a card that was weak may turn out not to be.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.processes import RUNTIME_MAIN
from kforge_mcp.errors import NotFoundError
from kforge_mcp.records.admission import Admission
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.records.variant import Variant
from kforge_mcp.store import cards

_DECIDING = (
    "admission",
    "checks",
    "examination",
    "freshness",
    "hardening",
    "inputs",
    "oracle",
    "recipes",
    "slicing",
    "subject",
    "trials",
    "validation",
)
"""Modules of the runtime whose text decides what is admitted."""


def admission_key(card: OperatorCard, variant: Variant, project: Project) -> str:
    """A hash of what an admission depends on."""
    content = variant.model_dump(mode="json", include={"tensors", "arguments", "outputs", "call"})
    named = [content, card.reference, project.interpreter.torch_version, project.backend_flags, _code()]
    return hashlib.sha256(json.dumps(named, sort_keys=True, default=str).encode()).hexdigest()


def admissions(card: OperatorCard, project: Project) -> dict[str, Admission]:
    """The admissions of a card that still hold, by variant."""
    return {
        variant.variant_id: found
        for variant in card.variants
        if (found := card.admissions.get(variant.variant_id)) and found.key == admission_key(card, variant, project)
    }


def weakness(card: OperatorCard, project: Project) -> str:
    """Why nothing is to be claimed on a card, or an empty text; what an older judge found is tried again."""
    stale = any(found.uncaught for found in card.admissions.values())
    holds = any(found.uncaught for found in admissions(card, project).values())
    return "" if stale and not holds else card.weak_oracle


def remember(
    ctx: JobContext, card: OperatorCard, project: Project, found: Mapping[str, Mapping[str, Any]], weak_oracle: str
) -> OperatorCard:
    """The card with what an evaluation found out about its inputs, stored where the card is."""
    variants = {variant.variant_id: variant for variant in card.variants}
    new = {name: Admission(key=admission_key(card, variants[name], project), **entry) for name, entry in found.items()}
    if not new:
        return card
    with ctx.workspace.transaction() as session:
        try:
            stored = cards.get(session, card.card_id)
        except NotFoundError:
            stored = None
        if stored is not None:
            cards.save(session, _updated(stored, new, weak_oracle))
    return _updated(card, new, weak_oracle)


def _updated(card: OperatorCard, new: Mapping[str, Admission], weak_oracle: str) -> OperatorCard:
    known = {**card.admissions, **new}
    weak = weak_oracle or (card.weak_oracle if any(found.uncaught for found in known.values()) else "")
    return card.model_copy(update={"admissions": known, "weak_oracle": weak})


@functools.cache
def _code() -> str:
    digest = hashlib.sha256()
    for name in _DECIDING:
        digest.update(RUNTIME_MAIN.with_name(f"{name}.py").read_bytes())
    return digest.hexdigest()
