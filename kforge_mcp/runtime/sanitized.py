"""Calls a sanitized binary on the inputs of the trials: whatever it touches that is not its own ends this process.

The process has the sanitizers' libraries preloaded. Everything around the tensors of a call, their distances to the
next 64 bytes included, is poisoned for AddressSanitizer, so that a read out of bounds is found too, even one that
changes no result. What went wrong is on standard error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import torch

from . import flags
from .arena import Arena, Slot, place_call
from .batch import Bound, arena_bytes, bind_arguments
from .candidate_side import _bind, share_openmp
from .inputs import TRIALS, draws
from .reference import load_reference
from .subject import Subject

Emit = Callable[[dict[str, Any]], None]


def check(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Make one call per draw of every trial and variant; `payload` is a request as for an evaluation.

    Returns the number of calls. A finding of the sanitizers ends the process instead.
    """
    torch.set_num_threads(payload["threads"])
    flags.apply(payload["backend_flags"])
    reference = load_reference(payload["reference"], payload["blob_root"])
    share_openmp(payload["threads"])
    functions: list[Any] = []
    for item in payload["libraries"]:
        function = getattr(ctypes.CDLL(item["path"]), item["entry"])
        function.restype = None
        functions.append(function)
    calls = 0
    for index, variant in enumerate(payload["variants"]):
        slot = place_call(variant, variant["workspaces"])
        bound = Bound(index, slot, variant["library"], bind_arguments(variant["bound"], slot), {})
        subject = Subject(index, variant, slot, bound, reference, payload["blob_root"])
        calls += _variant(subject, functions)
        emit({"message": f"no finding of the sanitizers on {subject.label()}"})
    return {"calls": calls}


def _variant(subject: Subject, functions: list[Any]) -> int:
    """Calls on one variant's draws."""
    slot, bound = subject.slot, subject.bound
    arena = Arena(arena_bytes([slot], [1]))
    memory = arena.slot(0, slot)
    call = {
        "library": bound.library,
        "arguments": [(kind, value) for kind, value in bound.arguments],
    }
    calls = 0
    for trial in TRIALS:
        for draw in draws(trial, subject.variant, subject.where, subject.generator, subject.blob_root):
            image = subject.fresh.image()
            subject.fresh.place_values(image, draw.tensors)
            subject.fresh.renew_surroundings(image)
            memory.copy_(image)
            function, arguments = _bind(functions, arena, call)
            with _Poisoned(slot, memory.data_ptr()):
                function(*arguments)
            calls += 1
    return calls


class _Poisoned:
    """All of a slot that belongs to no tensor is out of bounds for instrumented code within the context."""

    def __init__(self, slot: Slot, base: int) -> None:
        library = ctypes.CDLL(None)
        self._poison = library["__asan_poison_memory_region"]
        self._unpoison = library["__asan_unpoison_memory_region"]
        for function in (self._poison, self._unpoison):
            function.argtypes, function.restype = (ctypes.c_void_p, ctypes.c_size_t), None
        self._base, self._slot = base, slot

    def __enter__(self) -> None:
        self._poison(self._base, self._slot.size)
        for place in (*self._slot.inputs, *self._slot.outputs, *self._slot.workspaces):
            self._unpoison(self._base + place.start, place.size)

    def __exit__(self, *error: object) -> None:
        self._unpoison(self._base, self._slot.size)
