"""The capture operation: one pass over the user's workload, `timing` or `sampling`, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import blobs, flags
from .capture_arguments import IneligibleError
from .capture_device import building_device, device_of, facts, require_target
from .capture_drafts import CardDraft, VariantDraft
from .capture_memory import Peaks
from .capture_operators import Operator
from .capture_profile import profile_workload
from .capture_purity import fingerprints
from .capture_replay import DeviceLost, Prover
from .capture_sampling import Recorder
from .capture_source import computed_globals, operator_source, reference_source, source_location
from .capture_store import Budget
from .capture_targets import Target, model_functions
from .capture_timing import time_workload
from .capture_watch import observing
from .entry import Workload, load_workload
from .failures import Refusal
from .reference import Reference
from .values import every_tensor

Emit = Callable[[dict[str, Any]], None]
_loaded: dict[str, tuple[Workload, torch.device]] = {}


def load(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Build the workload of `payload` for the `capture` that follows in this process, and return its device's facts.

    Raises as `capture` does.
    """
    workload, device = _load(payload, emit)
    _loaded[payload["entry"]] = workload, device
    return facts(device)


def capture(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Run one pass. `payload`: `pass`, `entry`, `project_dir`, `target`, and `budget_s` or `blob_root`, `max_bytes`.

    Raises `Refusal`: `user_error` where the user's code fails, `contract` where the workload cannot be captured.
    """
    workload, device = _loaded.pop(payload["entry"], None) or _load(payload, emit)
    if payload["pass"] != "timing":
        return _sample(workload, device, payload, emit)
    emit({"message": "timing"})
    if device.type == "cuda":
        times = profile_workload(workload, device, payload["budget_s"])
    else:
        times = time_workload(workload, payload["budget_s"])
    return {**times, "workload_calls": len(workload.calls), "device": facts(device), "flags": flags.read()}


def _load(payload: dict[str, Any], emit: Emit) -> tuple[Workload, torch.device]:
    require_target(payload["target"])
    emit({"message": "loading the workload"})
    workload = load_workload(payload["entry"], payload["project_dir"], building_device(payload["target"]))
    return workload, device_of(payload["target"], workload)


def _sample(workload: Workload, device: torch.device, payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    functions = model_functions(workload.model, workload.search_path)
    plain = _result_digests(workload.run())
    peaks = Peaks(device)
    emit({"message": "recording calls"})
    prover = Prover(Budget(payload["blob_root"], payload["max_bytes"]), device)
    recorder = Recorder(prover, device)
    with observing(workload.model, functions, recorder) as elsewhere:
        results = workload.run()
    observed = _result_digests(results)
    del results
    notes = list(workload.notes)
    if plain != observed:
        notes.append("two runs of the workload gave different results: it is not deterministic")
    if elsewhere.calls:
        notes.append(f"{elsewhere.calls} calls in other threads are left out: they are part of what waits for them")
    cards = [card for card in recorder.cards.values() if card.takes_tensors and card.gives_tensors]
    for number, card in enumerate(cards):
        emit({"message": f"replaying {card.target.name}", "fraction": number / max(len(cards), 1)})
        _complete(card, workload, prover, payload.get("lost", ()))
    if prover.budget.refused_bytes:
        notes.append(f"{prover.budget.refused_bytes} bytes of samples exceed max_bytes; recipes stand in for them")
    notes += _proof_notes(prover)
    return {
        "cards": [_card(card, workload) for card in cards],
        "calls": _calls(recorder, cards),
        "notes": notes,
        "memory": peaks.extra(),
    }


def _result_digests(results: list[Any]) -> list[str]:
    found = list(every_tensor(results))
    plain = [tensor for tensor in found if tensor.layout is torch.strided and not tensor.is_meta]
    return [f"{len(found)} tensors", *fingerprints([tensor.detach().resolve_conj().resolve_neg() for tensor in plain])]


def _proof_notes(prover: Prover) -> list[str]:
    notes = []
    if prover.unproven:
        notes.append(f"{prover.unproven} variants were not tried on fresh inputs: these do not fit beside the model")
    if prover.unsteady:
        notes.append(f"{prover.unsteady} variants are not computed alike twice by eager itself, but for rounding")
    return notes


def _complete(card: CardDraft, workload: Workload, prover: Prover, lost: Sequence[str]) -> None:
    """Prove each variant. Raises `Refusal("device_lost")`, naming the variant, where a proof cost the GPU.

    `lost` names those by which that happened before: once, and integers keep their values; twice, and eager stays.
    """
    for number, variant in enumerate(card.variants.values()):
        if variant.reason:
            continue
        if variant.module is workload.model and any(not label.startswith("torch ") for label in card.children):
            variant.reason = "is the whole model; see its parts"
            continue
        name = f"{card.target.label} #{number}"
        if lost.count(name) > 1:
            variant.reason = "fails the GPU when it is run again"
            continue
        try:
            if variant.pickle:
                blobs.write(prover.budget.blob_root, variant.pickle)
            reference = _reference(card.target, variant, workload, prover.budget.blob_root)
            prover.complete(variant, reference, keep_integers=name in lost)
        except IneligibleError as refusal:
            variant.reason = str(refusal)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            variant.reason = "needs more memory to run again than is free beside the model"
        except DeviceLost as error:
            raise Refusal("device_lost", name, str(error)) from error
        variant.module = None


def _reference(target: Target, variant: VariantDraft, workload: Workload, blob_root: str) -> Reference:
    if target.level == "function" and not _is_importable(target):
        raise IneligibleError("cannot be imported by its name, so it cannot be rerun elsewhere")
    computed = computed_globals(target.subject if variant.module is None else variant.module, workload)
    if computed:
        raise IneligibleError(f"uses {', '.join(computed)}, which the script computes when it runs")
    return Reference(_reference_record(target, variant, workload), blob_root)


def _is_importable(target: Target) -> bool:
    return any(site.label == target.qualified_name for site in target.sites)


def _reference_record(target: Target, variant: VariantDraft, workload: Workload) -> dict[str, Any]:
    code = {
        "imports": workload.imports,
        "sys_path": workload.search_path,
        "flags": flags.read(),
    }
    module, _, name = target.qualified_name.partition(":")
    if target.level == "torch":
        is_registered = name.startswith("ops.")
        return {
            "kind": "torch",
            "module": module,
            "qualname": name,
            **code,
            **({} if is_registered else {"imports": []}),
        }
    if target.level == "function":
        return {"kind": "function", "module": module, "qualname": name, **code}
    return {"kind": "module", "module": module, "pickle": variant.pickle_digest, **code}


def _card(card: CardDraft, workload: Workload) -> dict[str, Any]:
    target = card.target
    eligible = [variant for variant in card.variants.values() if not variant.reason]
    return {
        "label": target.label,
        "level": target.level,
        "name": target.name,
        "qualified_name": target.qualified_name,
        "parents": sorted(card.parents),
        "children": sorted(card.children),
        "refused": _refused_calls(card),
        "variants": [_variant(variant) for variant in eligible],
        "reference": _reference_record(target, eligible[0], workload) if eligible else {},
        **_texts(card, eligible),
    }


def _texts(card: CardDraft, eligible: list[VariantDraft]) -> dict[str, Any]:
    subject = card.target.subject
    if isinstance(subject, Operator):
        operations = eligible[0].operations if eligible else []
        source, sites = operator_source(subject, operations), card.spellings
    else:
        source, sites = reference_source(subject), {site.label for site in card.target.sites}
    return {
        "reference_source": source,
        "source_location": source_location(subject.function if isinstance(subject, Operator) else subject),
        "patch_sites": sorted(sites - {""}),
    }


def _refused_calls(card: CardDraft) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key, count in card.calls.items():
        reason = card.variants[key].reason
        if reason:
            counts[reason] = counts.get(reason, 0) + count
    return counts


def _variant(variant: VariantDraft) -> dict[str, Any]:
    assert variant.output is not None
    return {
        "key": variant.key,
        "tensors": variant.specs,
        "arguments": variant.arguments,
        "outputs": variant.output.specs,
        "output_tree": variant.output.tree,
        "overwritten": variant.output.overwritten,
        "call": variant.call(),
        "flops": variant.flops,
        "unique_bytes": variant.unique_bytes,
    }


def _calls(recorder: Recorder, cards: list[CardDraft]) -> list[list[Any]]:
    """`[label, variant key or an empty string, index of the enclosing call or -1]` for each call in order."""
    return [
        [label, "" if recorder.cards[label].variants[key].reason else key, parent]
        for label, key, parent in recorder.calls
    ]
