"""Whether a call is a pure function of its tensors: what is compared before and after it."""

from __future__ import annotations

import pickle
import random
import sys
from dataclasses import dataclass
from typing import Any

import torch

from .capture_arguments import BoundCall, IneligibleError, containers, is_lazy_view
from .capture_drafts import OutputDraft, specify
from .capture_store import Budget, Snapshot, digest
from .reference import dump_module
from .tensors import NAMES, extent, to_bytes
from .values import Tree, Unencodable, encode

LAYER_NUMBERS = ("layer_idx", "layer_index", "layer_id", "layer_number", "block_idx")
"""Attributes that number equal modules of a stack, and change nothing but which slot of a cache is theirs."""


def refuse_module(module: torch.nn.Module) -> None:
    """Raise `IneligibleError` for a module whose call is more than its class's forward."""
    for path, part in module.named_modules():
        where = f"its submodule {path}" if path else "it"
        if isinstance(part, torch.jit.ScriptModule):
            raise IneligibleError(f"is compiled by TorchScript ({where})")
        hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
        if any(hooks):
            raise IneligibleError(f"has hooks ({where})")
        if "forward" in vars(part):
            raise IneligibleError(f"has a forward of its own set on the instance ({where})")
        held = [name for name, value in vars(part).items() if isinstance(value, torch.Tensor)]
        if held:
            raise IneligibleError(f"holds tensors that are neither parameters nor buffers ({where}: {', '.join(held)})")


def module_state(module: torch.nn.Module, *, left_out: tuple[str, ...] = ()) -> bytes:
    """A module's pickled state without its tensors. Raises `IneligibleError` if it cannot be pickled."""
    try:
        return dump_module(module, left_out=left_out)
    except Exception as error:
        raise IneligibleError(f"cannot be pickled ({type(error).__name__}: {error})") from error


def comparable_state(module: torch.nn.Module) -> bytes:
    """A module's pickled state without its tensors and the numbers of its layers. Raises `IneligibleError`."""
    return module_state(module, left_out=LAYER_NUMBERS if layer_numbers(module) else ())


def layer_numbers(module: torch.nn.Module) -> tuple[Any, ...]:
    """The layer numbers of a module and those it contains, in order."""
    return tuple(
        vars(part)[name] for part in module.modules() for name in LAYER_NUMBERS if isinstance(vars(part).get(name), int)
    )


@dataclass(eq=False)
class Watch:
    """The state of the world before a call, as far as it costs little: every call is watched so.

    `module_state` is the module's `comparable_state`.
    """

    bound: BoundCall
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    module: torch.nn.Module | None
    module_state: bytes

    def __post_init__(self) -> None:
        self.versions = [_version(tensor) for tensor in self.bound.tensors]
        self.places = [_place(tensor) for tensor in self.bound.tensors]
        self.identities = _identities(self.module)
        self.generators = _generators()

    def recheck(self, result: Any, known: OutputDraft) -> None:
        """Raise `IneligibleError` if a later call of a variant does what the first, which gave `known`, did not."""
        outputs, tree, aliases, written = self._results(result)
        shapes = [(spec["dtype"], spec["shape"]) for spec in known.specs]
        now = [(NAMES.get(tensor.dtype, ""), list(tensor.shape)) for tensor in outputs]
        if tree != known.tree or now != shapes:
            raise IneligibleError("gives results of different structure or shapes for arguments that look alike")
        if (aliases if written else []) != known.overwritten:
            raise IneligibleError("writes into its inputs in some calls and not in others")

    def _results(self, result: Any) -> tuple[list[torch.Tensor], Tree, list[int], list[int]]:
        """The output tensors, their tree, per output the input that it is or -1, and the inputs written."""
        if _generators() != self.generators:
            raise IneligibleError("draws random numbers")
        written: list[int] = []
        for index, (tensor, place) in enumerate(zip(self.bound.tensors, self.places, strict=True)):
            if _place(tensor) != place:
                raise IneligibleError("changes the shape, the strides or the storage of a tensor that it is given")
            if self._is_written(index, tensor):
                if index >= self.bound.inputs:
                    raise IneligibleError("writes into its parameters or buffers")
                written.append(index)
        self._check_arguments()
        if self.module is not None and (
            _identities(self.module) != self.identities or comparable_state(self.module) != self.module_state
        ):
            raise IneligibleError("keeps state between calls")
        return self._outputs(result, written)

    def _is_written(self, index: int, tensor: torch.Tensor) -> bool:
        return _version(tensor) != self.versions[index]

    def _check_arguments(self) -> None:
        try:
            changed = containers(self.args, self.kwargs, self.bound) != (self.bound.args, self.bound.kwargs)
        except IneligibleError:
            changed = True
        if changed:
            raise IneligibleError("changes a list, a dictionary or an object that it is given")

    def _outputs(self, result: Any, written: list[int]) -> tuple[list[torch.Tensor], Tree, list[int], list[int]]:
        outputs: list[torch.Tensor] = []
        try:
            tree = encode(result, outputs)
        except Unencodable as error:
            raise IneligibleError(f"returns {error}") from error
        if not outputs:
            raise IneligibleError("writes into an input in place" if written else "returns no tensor")
        if any(map(is_lazy_view, outputs)):
            raise IneligibleError("returns a conjugated or negated view, whose memory holds other values")
        elsewhere = {tensor.device.type for tensor in outputs} - {tensor.device.type for tensor in self.bound.tensors}
        if elsewhere:
            raise IneligibleError(f"returns a tensor on another device ({elsewhere.pop()})")
        aliases = [self._overwritten(tensor, written) for tensor in outputs]
        if set(written) != set(aliases) - {-1} or len(written) != len([index for index in aliases if index >= 0]):
            raise IneligibleError("writes into an input in place without returning just that input")
        given = {_storage(tensor) for tensor in self.bound.tensors if tensor.numel()}
        fresh = [tensor for tensor, index in zip(outputs, aliases, strict=True) if index < 0 and tensor.numel()]
        if given.intersection(map(_storage, fresh)):
            raise IneligibleError("returns a view of its input, or the input itself")
        if len(fresh) > 1 and _overlap(fresh):
            raise IneligibleError("returns tensors that share elements")
        return outputs, tree, aliases, written

    def _overwritten(self, output: torch.Tensor, written: list[int]) -> int:
        """The index of the written input that an output is, or -1. Raises if another tensor shares its storage."""
        for index in written:
            given = self.bound.tensors[index]
            others = [tensor for place, tensor in enumerate(self.bound.tensors) if place != index and tensor.numel()]
            if any(_storage(other) == _storage(given) for other in others):
                raise IneligibleError("writes into an input that shares its storage with another")
            if any(size > 1 and step == 0 for size, step in zip(given.shape, given.stride(), strict=True)):
                raise IneligibleError("writes into an input that repeats elements")
            if output is given or (_place(output) == _place(given) and output.numel()):
                return index
        return -1


@dataclass(eq=False)
class Before(Watch):
    """The state of the world before the first call of a variant, values included; `judge` compares it with that after.

    `trusts_versions`: that only torch writes into the tensors, so that their version counters tell.
    """

    budget: Budget
    trusts_versions: bool = False

    def __post_init__(self) -> None:
        tensors, inputs = self.bound.tensors, self.bound.inputs
        self.inputs = [Snapshot.take(tensor, self.budget) for tensor in tensors[:inputs]]
        super().__post_init__()
        self.trusts_versions = self.trusts_versions and not any(tensor.is_inference() for tensor in tensors)
        # What is written by way of `.data` or numpy bumps no version.
        own = [] if self.trusts_versions else tensors[inputs:]
        self.own = [digest(tensor) for tensor in own]

    def judge(self, result: Any) -> OutputDraft:
        """The output's draft. Raises `IneligibleError` with the first reason why the call is not pure."""
        outputs, tree, aliases, written = self._results(result)
        return OutputDraft(
            tree,
            specify(outputs),
            fingerprints(outputs),
            [all_finite(tensor) for tensor in outputs],
            aliases if written else [],
        )

    def _is_written(self, index: int, tensor: torch.Tensor) -> bool:
        if super()._is_written(index, tensor):
            return True
        known = [*(snapshot.digest for snapshot in self.inputs), *self.own]
        return not self.trusts_versions and digest(tensor) != known[index]


def fingerprints(tensors: list[torch.Tensor]) -> list[str]:
    """A digest of each tensor's elements, gaps left out."""
    return [digest(tensor.contiguous()) for tensor in tensors]


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is infinite or NaN."""
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) or extent(tensor) == 0:
        return True
    wide = tensor.float() if tensor.element_size() == 1 else tensor
    return bool(torch.isfinite(wide).all())


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    return tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype


def _overlap(tensors: list[torch.Tensor]) -> bool:
    """Whether an element of one tensor is an element of another."""
    by_storage: dict[int, list[torch.Tensor]] = {}
    for tensor in tensors:
        by_storage.setdefault(_storage(tensor), []).append(tensor)
    for together in by_storage.values():
        if len(together) < 2:
            continue
        if len({tensor.dtype for tensor in together}) > 1:
            return True
        end = max(tensor.storage_offset() + extent(tensor) for tensor in together)
        taken = torch.zeros(end, dtype=torch.bool, device="cpu")
        for tensor in together:
            mine = taken.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
            if bool(mine.any()):
                return True
            mine.fill_(True)
    return False


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _identities(module: torch.nn.Module | None) -> list[tuple[str, int]]:
    return [] if module is None else [(name, id(tensor)) for name, tensor in module.named_buffers()]


def _generators() -> tuple[Any, ...]:
    states: list[Any] = [to_bytes(torch.get_rng_state()), random.getstate()]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        # The state's array is an object of its own each time, and comparing arrays gives an array.
        states.append(pickle.dumps(numpy.random.get_state(legacy=False), protocol=4))
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states += [to_bytes(state) for state in torch.cuda.get_rng_state_all()]
    return tuple(states)
