"""The sampling pass: every call of one run is assigned to a variant; the first of each is looked at closely,
the others for what costs little to see."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from typing import Any

import torch

from .capture_arguments import (
    BoundCall,
    IneligibleError,
    bind_call,
    bind_operator,
    describe_arguments,
    identity,
)
from .capture_drafts import CardDraft, VariantDraft, specify
from .capture_operators import Operator
from .capture_purity import Before, Watch, comparable_state, layer_numbers, module_state, refuse_module
from .capture_replay import Prover
from .capture_targets import Target, class_target
from .capture_watch import is_compiled, unwatched
from .tensors import NAMES
from .values import every_tensor

_MAXIMUM_TENSORS = 32
_MAXIMUM_ALTERNATES = 128
_MOST_SEARCHED = 500
_LAYOUT = ("dtype", "shape", "stride", "device", "storage_id")


class Recorder:
    """Watches one run of a workload.

    `cards` are in the order of their first call; `calls` holds `(label, variant key, index of the enclosing call)`
    in the order of the calls, the key empty for a call that no variant stands for.
    """

    def __init__(self, prover: Prover, device: torch.device) -> None:
        self.cards: dict[str, CardDraft] = {}
        self.calls: list[tuple[str, str, int]] = []
        self._prover = prover
        self._device = device
        self._open: list[tuple[int, CardDraft]] = []
        self._targets: dict[Any, Target] = {}
        self._paused = False

    def around_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A `nn.Module.__call__` that records."""
        recorder = self

        def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
            if recorder._paused or torch.compiler.is_compiling():
                return original(self, *args, **kwargs)
            target = recorder._targets.get(type(self))
            if target is None:
                target = recorder._targets[type(self)] = class_target(type(self))
            return recorder._record(target, self, functools.partial(original, self), args, kwargs)

        return __call__

    def around_function(self, target: Target) -> Callable[..., Any]:
        """The target's function, recorded."""

        def recorded(*args: Any, **kwargs: Any) -> Any:
            if self._paused or torch.compiler.is_compiling():
                return target.subject(*args, **kwargs)
            return self._record(target, None, target.subject, args, kwargs)

        return recorded

    def on_operator(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A torch operator's call, recorded."""
        if self._paused:
            return operator.function(*args, **kwargs)
        target = self._targets.get(operator)
        if target is None:
            target = self._targets[operator] = Target("torch", operator.name, operator.home, operator)
        return self._record(target, None, operator.function, args, kwargs)

    def _record(
        self,
        target: Target,
        module: torch.nn.Module | None,
        original: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        card = self.cards.setdefault(target.label, CardDraft(target))
        index, parent = len(self.calls), self._open[-1] if self._open else None
        self.calls.append((target.label, "", parent[0] if parent else -1))
        if parent:
            card.parents.add(parent[1].target.label)
            parent[1].children.add(target.label)
        with torch._C.DisableTorchFunction():
            self._paused = True
            try:
                variant, before = self._look(card, target, module, args, kwargs)
            finally:
                self._paused = False
        self.calls[index] = (target.label, variant.key, self.calls[index][2])
        self._open.append((index, card))
        try:
            with unwatched(module if module is not None else target.subject):
                result = original(*args, **kwargs)
        except BaseException:
            variant.reason = variant.reason or "raises an exception"
            raise
        finally:
            self._open.pop()
        with torch._C.DisableTorchFunction():
            self._paused = True
            try:
                self._finish(card, variant, before, result)
            finally:
                self._paused = False
        return result

    def _look(
        self,
        card: CardDraft,
        target: Target,
        module: torch.nn.Module | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[VariantDraft, Watch | None]:
        """The variant of a call about to be made, and the state to compare with unless the variant is refused."""
        card.takes_tensors = card.takes_tensors or _holds_tensors((args, kwargs))
        try:
            if torch._C._functorch.peek_interpreter_stack() is not None:
                raise IneligibleError("runs inside a torch.func transform")
            if is_compiled(target.subject if module is None else module):
                raise IneligibleError("is compiled by torch.compile, not run in eager mode")
            if isinstance(target.subject, Operator):
                card.spellings.add(target.subject.path)
                bound = bind_operator(target.subject, args, kwargs)
            else:
                bound = bind_call(module, args, kwargs)
            for kind in sorted({tensor.device.type for tensor in bound.tensors}):
                if torch.is_autocast_enabled(kind):
                    bound.autocast = NAMES.get(torch.get_autocast_dtype(kind), "other")
            pickle = compared = b""
            numbers: tuple[Any, ...] = ()
            if module is not None:
                refuse_module(module)
                numbers = layer_numbers(module)
                pickle = compared = comparable_state(module)
            specs = specify(bound.tensors)
            layout = [[spec[name] for name in _LAYOUT] for spec in specs]
            state = hashlib.sha256(pickle).hexdigest() if pickle else ""
            key = hashlib.sha256(json.dumps([identity(bound), bound.autocast, state, layout]).encode()).hexdigest()
            card.calls[key] += 1
            if module is not None and numbers:
                pickle = self._numbered(card.variants.get(key), module, numbers)
            if key in card.variants:
                known = card.variants[key]
                is_examined = known.output is not None and not known.reason
                return known, Watch(bound, args, kwargs, module, compared) if is_examined else None
            variant = card.variants[key] = VariantDraft(key, bound, specs=specs, module=module)
            variant.pickle = pickle
            variant.pickle_digest = hashlib.sha256(pickle).hexdigest() if pickle else ""
            if numbers:
                variant.alternates[numbers] = b""
        except IneligibleError as refusal:
            return self._refuse(card, str(refusal)), None
        try:
            self._examine(card, variant, bound, args, kwargs)
        except IneligibleError as refusal:
            variant.reason = str(refusal)
            return variant, None
        is_operator = isinstance(target.subject, Operator)
        budget = self._prover.budget
        return variant, Before(bound, args, kwargs, module, compared, budget, trusts_versions=is_operator)

    def _numbered(self, known: VariantDraft | None, module: torch.nn.Module, numbers: tuple[Any, ...]) -> bytes:
        """The pickle of a module with layer numbers; one that a known variant has not seen yet is noted there."""
        if known is None:
            return module_state(module)
        if numbers not in known.alternates and not known.reason and len(known.alternates) < _MAXIMUM_ALTERNATES:
            known.alternates[numbers] = module_state(module)
        return b""

    def _examine(
        self, card: CardDraft, variant: VariantDraft, bound: BoundCall, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        if not bound.tensors:
            raise IneligibleError("takes no tensor")
        elsewhere = {tensor.device.type for tensor in bound.tensors} - {self._device.type}
        if elsewhere:
            raise IneligibleError(f"takes a tensor on another device ({elsewhere.pop()})")
        if len(bound.tensors) > _MAXIMUM_TENSORS:
            raise IneligibleError(
                f"takes {len(bound.tensors)} tensors with its parameters, more than {_MAXIMUM_TENSORS}; see its parts"
            )
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in bound.tensors):
            raise IneligibleError("runs with gradients")
        variant.arguments = describe_arguments(card.target.subject, variant.module, args, kwargs, bound)

    def _refuse(self, card: CardDraft, reason: str) -> VariantDraft:
        key = "refused: " + reason
        card.calls[key] += 1
        return card.variants.setdefault(key, VariantDraft(key, reason=reason))

    def _finish(self, card: CardDraft, variant: VariantDraft, before: Watch | None, result: Any) -> None:
        card.gives_tensors = card.gives_tensors or _holds_tensors(result)
        # An operator that gives nothing, `x[i] = y`, gives what it writes.
        card.gives_tensors |= result is None and isinstance(card.target.subject, Operator)
        if before is None:
            return
        try:
            if isinstance(before, Before):
                variant.output = before.judge(result)
                for spec, snapshot, tensor in zip(variant.specs, before.inputs, before.bound.tensors, strict=False):
                    self._prover.sample(spec, snapshot, tensor)
            elif variant.output is not None:
                before.recheck(result, variant.output)
        except IneligibleError as refusal:
            variant.reason = str(refusal)
        before.bound.release_inputs()


def _holds_tensors(value: Any) -> bool:
    return next(every_tensor(value, most=_MOST_SEARCHED), None) is not None
