"""What the control plane asks of the evaluators, as JSON. The runtime's referee reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kforge_mcp.candidate.binding import bind, bind_workspaces
from kforge_mcp.candidate.plan import Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.outcome import Binary, Compiled
from kforge_mcp.records.admission import Admission
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.records.variant import Variant

Config = dict[str, int | float | bool | str]
Mode = Literal["judge", "quick", "null"]
CALL_TIMEOUT_S = 10.0
_PATIENCE = 50
"""A batch may take this many times the captured eager time of a call, if that is longer."""
MEMORY_BYTES = 1 << 30


@dataclass(frozen=True)
class Subject:
    """What is evaluated in one process: a candidate under one configuration, on the variants it claims."""

    card: OperatorCard
    variants: Sequence[Variant]
    libraries: Sequence[Binary]
    plan: Plan | None = None
    config: Config | None = None


def subjects(card: OperatorCard, plan: Plan, compiled: Compiled) -> list[Subject]:
    """One subject per configuration that was compiled, in the order of the tunables."""
    grouped: list[tuple[Config, list[Binary]]] = []
    for binary in compiled.binaries:
        known = next((binaries for config, binaries in grouped if config == binary.config), None)
        if known is None:
            grouped.append((dict(binary.config), [binary]))
        else:
            known.append(binary)
    result: list[Subject] = []
    for config, binaries in grouped:
        claimed = {name for binary in binaries for name in binary.variants}
        variants = [variant for variant in card.variants if variant.variant_id in claimed]
        result.append(Subject(card, variants, binaries, plan, config))
    return result


def eager_itself(card: OperatorCard) -> Subject:
    """Eager in a candidate's place, for the null mode."""
    return Subject(card, card.variants, [])


def request(
    project: Project,
    subject: Subject,
    *,
    mode: Mode,
    blob_root: Path,
    scratch: Path,
    schedule: Mapping[str, Any] | None,
    admitted: frozenset[str] = frozenset(),
    admissions: Mapping[str, Admission] | None = None,
    call_timeout_s: float = CALL_TIMEOUT_S,
) -> dict[str, Any] | Rejected:
    """The request for one evaluation; a rejection if an expression has no value in some variant.

    Variants in `admissions` are tried on the inputs stated there, those in `admitted` on inputs like the captured
    ones; for the others the referee first finds out which they need.
    """
    variants: list[dict[str, Any]] = []
    for variant in subject.variants:
        entry = _variant(subject, variant)
        if isinstance(entry, Rejected):
            return entry
        found = (admissions or {}).get(variant.variant_id)
        known = found is not None or variant.variant_id in admitted
        needed = {"hardness": found.hardness, "frozen": found.frozen} if found else {}
        variants.append({**entry, "admitted": known, **needed})
    largest = max((sum(spec.extent_bytes for spec in (*v.tensors, *v.outputs)) for v in subject.variants), default=0)
    return {
        "mode": mode,
        "reference": subject.card.reference,
        "blob_root": str(blob_root),
        "scratch": str(scratch),
        "variants": variants,
        "libraries": [{"path": binary.path, "entry": binary.entry} for binary in subject.libraries],
        "threads": threads(project),
        "backend_flags": project.backend_flags,
        "call_timeout_s": max(call_timeout_s, *(_PATIENCE * v.eager_us * 1e-6 for v in subject.variants), 0.0),
        "nondeterministic": subject.plan is not None and subject.plan.nondeterministic,
        "limits": {"memory_bytes": MEMORY_BYTES + 4 * largest},
        "schedule": dict(schedule) if schedule is not None else None,
    }


def threads(project: Project) -> int:
    """Threads of eager and candidate alike."""
    return project.device.threads or os.cpu_count() or 1


def environment(project: Project) -> dict[str, str]:
    """What the evaluators' processes need: equal teams of threads that sleep when idle, no other pools."""
    count = str(threads(project))
    return {
        "OMP_WAIT_POLICY": "passive",
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }


def _variant(subject: Subject, variant: Variant) -> dict[str, Any] | Rejected:
    entry = variant.model_dump(mode="json")
    if subject.plan is None or subject.config is None:
        return {**entry, "library": 0, "bound": [], "workspaces": [], "in_place": False}
    bound = bind(subject.plan, variant, subject.config)
    if isinstance(bound, Rejected):
        return bound
    workspaces = bind_workspaces(subject.plan, variant, subject.config)
    if isinstance(workspaces, Rejected):
        return workspaces
    library = next(i for i, binary in enumerate(subject.libraries) if variant.variant_id in binary.variants)
    return {
        **entry,
        "library": library,
        "bound": [_argument(argument.model_dump(mode="json"), argument.value) for argument in bound],
        "workspaces": [workspace.model_dump(mode="json") for workspace in workspaces],
        "in_place": subject.plan.inplace,
    }


def _argument(entry: dict[str, Any], value: object) -> dict[str, Any]:
    """Infinities and NaN travel as text: framed JSON has no numbers for them."""
    if isinstance(value, float):
        return {**entry, "value": str(value)}
    return entry
