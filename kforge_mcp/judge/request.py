"""What the control plane asks of the evaluators, as JSON. The runtime's referee reads it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from kforge_mcp.candidate.binding import NOMINAL_SM_COUNT, bind, bind_workspaces
from kforge_mcp.candidate.plan import Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.compile.outcome import Binary, Compiled
from kforge_mcp.engine.devices import made_lock
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
MOST_SPARES = 3
_SPARE_CORES, _SPARE_SHARE, _COPIES = 4, 0.6, 32


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
    if project.target == "cuda":
        return cuda_request(
            project,
            subject,
            mode=mode,
            blob_root=blob_root,
            schedule=schedule,
            admitted=admitted,
            admissions=admissions,
            call_timeout_s=call_timeout_s,
        )
    variants: list[dict[str, Any]] = []
    for variant in subject.variants:
        entry = _variant(subject, variant)
        if isinstance(entry, Rejected):
            return entry
        variants.append({**entry, **_admission(variant, admitted, admissions)})
    return {
        "mode": mode,
        "reference": subject.card.reference,
        "blob_root": str(blob_root),
        "scratch": str(scratch),
        "variants": variants,
        "libraries": [{"path": binary.path, "entry": binary.entry} for binary in subject.libraries],
        "threads": threads(project),
        "backend_flags": project.backend_flags,
        **policy(subject, call_timeout_s),
        "schedule": dict(schedule) if schedule is not None else None,
    }


def policy(subject: Subject, call_timeout_s: float) -> dict[str, Any]:
    """What a candidate is allowed: seconds for a call, memory, results that vary."""
    largest = max((sum(spec.extent_bytes for spec in (*v.tensors, *v.outputs)) for v in subject.variants), default=0)
    return {
        "call_timeout_s": max(call_timeout_s, *(_PATIENCE * v.eager_us * 1e-6 for v in subject.variants), 0.0),
        "nondeterministic": subject.plan is not None and subject.plan.nondeterministic,
        "limits": {"memory_bytes": MEMORY_BYTES + 4 * largest},
    }


def cuda_request(
    project: Project,
    subject: Subject,
    *,
    mode: Mode,
    blob_root: Path,
    schedule: Mapping[str, Any] | None,
    admitted: frozenset[str],
    admissions: Mapping[str, Admission] | None,
    call_timeout_s: float,
) -> dict[str, Any] | Rejected:
    """The request for one evaluation on a CUDA device: what all candidates of the card share, and this one's part."""
    programs: list[dict[str, Any]] = []
    for variant in subject.variants:
        entry = _admission(variant, admitted, admissions)
        if subject.plan is not None and subject.config is not None:
            program = _program(project, subject, subject.plan, subject.config, variant)
            if isinstance(program, Rejected):
                return program
            entry |= program
        programs.append(entry)
    card = {
        "reference": subject.card.reference,
        "variants": [
            {**variant.model_dump(mode="json"), **_admission(variant, admitted, admissions)}
            for variant in subject.variants
        ],
        "in_place": bool(subject.plan and subject.plan.inplace),
        "blob_root": str(blob_root),
        "backend_flags": project.backend_flags,
        "ordinal": 0,
    }
    asked = {
        "mode": mode,
        "programs": programs,
        "schedule": dict(schedule) if schedule is not None else None,
        **policy(subject, call_timeout_s),
    }
    lock = str(made_lock(project.device_key))
    return {"card": card, "request": asked, "spares": spares(project, subject), "lock": lock}


def spares(project: Project, subject: Subject) -> int:
    """How many processes get ready for the next candidates meanwhile: as many as cores and device memory are there
    for. Each holds some copies of the card's tensors, and for moments their values in float64."""
    tensors = sum(spec.extent_bytes for v in subject.variants for spec in (*v.tensors, *v.outputs))
    by_memory = int(_SPARE_SHARE * project.device.memory_bytes) // max(_COPIES * tensors, 1 << 28)
    by_cores = (os.cpu_count() or 1) // _SPARE_CORES
    return max(1, min(MOST_SPARES, by_memory, by_cores))


def _admission(
    variant: Variant, admitted: frozenset[str], admissions: Mapping[str, Admission] | None
) -> dict[str, Any]:
    """Whether a variant's inputs are known to tell right from wrong, and which it needs to that end."""
    found = (admissions or {}).get(variant.variant_id)
    known = found is not None or variant.variant_id in admitted
    needed = found.model_dump(include={"hardness", "frozen", "varied", "in_range", "oracle"}) if found else {}
    return {"admitted": known, **needed}


def _program(
    project: Project, subject: Subject, plan: Plan, config: Config, variant: Variant
) -> dict[str, Any] | Rejected:
    bound = bind_steps(plan, variant, config, sm_count=project.device.sm_count or NOMINAL_SM_COUNT)
    if isinstance(bound, Rejected):
        return bound
    binaries = [binary for binary in subject.libraries if variant.variant_id in binary.variants]
    # Built for other devices too: PTX will do where there is none for this one.
    binaries.sort(key=lambda binary: (binary.arch != project.device.arch, not binary.arch.startswith("compute_")))
    binary = binaries[0]
    kernels = {kernel.kernel: kernel.symbol for kernel in binary.kernels}
    return {"cubin": binary.path, "kernels": kernels, "bound": bound.as_json()}


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
