"""The sampling pass: every call of one run is assigned to a variant; the first of each is looked at closely."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from .capture_arguments import IneligibleError, bind_call, describe_arguments
from .capture_drafts import CardDraft, VariantDraft, specify
from .capture_purity import Before, module_state, refuse_module
from .capture_replay import Prover
from .capture_targets import Target, class_target

_MAXIMUM_TENSORS = 32
_LAYOUT = ("dtype", "shape", "stride", "device", "storage_id")


class Recorder:
    """Watches one run of a workload.

    `cards` are in the order of their first call; `calls` holds `(label, variant key, index of the enclosing call)`
    in the order of the calls, the key empty for a call that no variant stands for.
    """

    def __init__(self, prover: Prover) -> None:
        self.cards: dict[str, CardDraft] = {}
        self.calls: list[tuple[str, str, int]] = []
        self._prover = prover
        self._open: list[tuple[int, CardDraft]] = []
        self._targets: dict[type, Target] = {}
        self._paused = False

    def around_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A `nn.Module.__call__` that records."""
        recorder = self

        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            target = recorder._targets.get(type(self))
            if target is None:
                target = recorder._targets[type(self)] = class_target(type(self))
            return recorder._record(target, self, functools.partial(original, self), args, kwargs)

        return __call__

    def around_function(self, target: Target) -> Callable[..., Any]:
        """The target's function, recorded."""

        def recorded(*args: Any, **kwargs: Any) -> Any:
            return self._record(target, None, target.subject, args, kwargs)

        return recorded

    def _record(
        self,
        target: Target,
        module: torch.nn.Module | None,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        if self._paused:
            return original(*args, **kwargs)
        card = self.cards.setdefault(target.label, CardDraft(target))
        index, parent = len(self.calls), self._open[-1] if self._open else None
        self.calls.append((target.label, "", parent[0] if parent else -1))
        if parent:
            card.parents.add(parent[1].target.label)
            parent[1].children.add(target.label)
        self._paused = True
        try:
            variant, before = self._look(card, module, args, kwargs)
        finally:
            self._paused = False
        self.calls[index] = (target.label, variant.key, self.calls[index][2])
        self._open.append((index, card))
        try:
            result = original(*args, **kwargs)
        except BaseException:
            variant.reason = variant.reason or "raises an exception"
            raise
        finally:
            self._open.pop()
        self._paused = True
        try:
            self._finish(card, variant, before, result)
        finally:
            self._paused = False
        return result

    def _look(
        self, card: CardDraft, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[VariantDraft, Before | None]:
        """The variant of a call about to be made; with the state to compare with if it is the variant's first."""
        card.takes_tensors |= any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((args, kwargs)))
        try:
            bound = bind_call(module, args, kwargs)
            pickle = b""
            if module is not None:
                refuse_module(module)
                pickle = module_state(module)
            specs = specify(bound.tensors)
            layout = [[spec[name] for name in _LAYOUT] for spec in specs]
            digest = hashlib.sha256(pickle).hexdigest() if pickle else ""
            key = hashlib.sha256(json.dumps([bound.call, digest, layout]).encode()).hexdigest()
            card.calls[key] += 1
            if key in card.variants:
                return card.variants[key], None
            variant = card.variants[key] = VariantDraft(key, bound, specs=specs, module=module)
            variant.pickle, variant.pickle_digest = pickle, digest
        except IneligibleError as refusal:
            return self._refuse(card, str(refusal)), None
        try:
            self._examine(card, variant, args, kwargs)
        except IneligibleError as refusal:
            variant.reason = str(refusal)
            return variant, None
        return variant, Before(bound, module, pickle)

    def _examine(self, card: CardDraft, variant: VariantDraft, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        assert variant.bound is not None
        if not variant.bound.tensors:
            raise IneligibleError("takes no tensor")
        if len(variant.bound.tensors) > _MAXIMUM_TENSORS:
            count = len(variant.bound.tensors)
            raise IneligibleError(
                f"takes {count} tensors with its parameters, more than {_MAXIMUM_TENSORS}; see its parts"
            )
        if torch.is_autocast_enabled("cpu"):
            raise IneligibleError("runs under autocast")
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in variant.bound.tensors):
            raise IneligibleError("runs with gradients")
        variant.arguments = describe_arguments(card.target.subject, variant.module, args, kwargs, variant.bound)

    def _refuse(self, card: CardDraft, reason: str) -> VariantDraft:
        key = "refused: " + reason
        card.calls[key] += 1
        return card.variants.setdefault(key, VariantDraft(key, reason=reason))

    def _finish(self, card: CardDraft, variant: VariantDraft, before: Before | None, result: Any) -> None:
        card.gives_tensors |= any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(result))
        if before is None:
            return
        try:
            variant.output = before.judge(result)
        except IneligibleError as refusal:
            variant.reason = str(refusal)
            return
        for spec, data, tensor in zip(variant.specs, before.inputs, before.bound.tensors, strict=False):
            self._prover.sample(spec, data, tensor)
        before.bound.release_inputs()
