"""The life of a twin: a process of the candidate's shape that runs eager in its place."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import flags, sandbox
from .allocation import keep_memory
from .arena import Arena, Slot
from .reference import Reference, import_code
from .sides import EXPORT, GO, PREPARE, answer, done, read_order
from .values import flatten


def live(
    channel: socket.socket,
    arena: Arena,
    output: int,
    *,
    reference: dict[str, Any],
    blob_root: str,
    variants: Sequence[dict[str, Any]],
    slots: Sequence[Slot],
    threads: int,
    backend_flags: flags.Flags,
) -> None:
    """Serve orders until the referee is gone. Results are held, and copied to the outputs' places when asked."""
    keep_memory()
    torch.set_num_threads(threads)
    flags.apply(backend_flags)
    import_code(reference)
    sandbox.like_a_candidate()
    references: list[Reference] = []
    calls: list[Callable[[], Any]] = []
    places: list[tuple[Slot, torch.Tensor]] = []
    results: list[Any] = []
    answer(channel)
    with torch.no_grad():
        while True:
            opcode, body = read_order(channel)
            if opcode == GO:
                results = [call() for call in calls]
                done(channel)
            elif opcode == PREPARE:
                results.clear()
                calls, places = [], []
                for index, call in enumerate(body):
                    if index == len(references):
                        references.append(Reference(reference, blob_root))
                    slot, variant = slots[call["variant"]], variants[call["variant"]]
                    memory = arena.slot(call["start"], slot)
                    tensors = [place.view(memory) for place in slot.inputs]
                    calls.append(references[index].bind(tensors, variant["call"]))
                    places.append((slot, memory))
                answer(channel)
            elif opcode == EXPORT:
                answer(channel, _export(results, places))


def _export(results: Sequence[Any], places: Sequence[tuple[Slot, torch.Tensor]]) -> str:
    for result, (slot, memory) in zip(results, places, strict=True):
        tensors = flatten(result)
        if [(t.dtype, tuple(t.shape)) for t in tensors] != [(p.dtype, p.shape) for p in slot.outputs]:
            return "eager returned other shapes or types than were captured"
        for tensor, place in zip(tensors, slot.outputs, strict=True):
            place.view(memory).copy_(tensor)
    return ""
