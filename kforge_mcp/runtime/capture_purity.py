"""Whether a call is a pure function of its tensors: what is compared before and after it."""

from __future__ import annotations

import hashlib
import random
from typing import Any

import torch

from .capture_arguments import BoundCall, IneligibleError
from .capture_drafts import OutputDraft, specify
from .reference import dump_module
from .tensors import extent, to_bytes
from .values import Unencodable, encode


def refuse_module(module: torch.nn.Module) -> None:
    """Raise `IneligibleError` for a module whose call is more than its class's forward."""
    for path, part in module.named_modules():
        where = f"its submodule {path}" if path else "it"
        hooks = (part._forward_hooks, part._forward_pre_hooks, part._backward_hooks, part._backward_pre_hooks)
        if any(hooks):
            raise IneligibleError(f"has hooks ({where})")
        if "forward" in vars(part):
            raise IneligibleError(f"has a forward of its own set on the instance ({where})")
        held = [name for name, value in vars(part).items() if isinstance(value, torch.Tensor)]
        if held:
            raise IneligibleError(f"holds tensors that are neither parameters nor buffers ({where}: {', '.join(held)})")


def module_state(module: torch.nn.Module) -> bytes:
    """A module's pickled state without its tensors. Raises `IneligibleError` if it cannot be pickled."""
    try:
        return dump_module(module)
    except Exception as error:
        raise IneligibleError(f"cannot be pickled ({type(error).__name__}: {error})") from error


class Before:
    """The state of the world before a call; `judge` compares it with the state after."""

    def __init__(self, bound: BoundCall, module: torch.nn.Module | None, pickle: bytes) -> None:
        self.bound = bound
        self.module = module
        self.pickle = pickle
        self.inputs = [to_bytes(tensor) for tensor in bound.tensors[: bound.inputs]]
        self.versions = [_version(tensor) for tensor in bound.tensors]
        self.identities = _identities(module)
        self.generators = _generators()

    def judge(self, result: Any) -> OutputDraft:
        """The output's draft. Raises `IneligibleError` with the first reason why the call is not pure."""
        if _generators() != self.generators:
            raise IneligibleError("draws random numbers")
        for index, (tensor, version) in enumerate(zip(self.bound.tensors, self.versions, strict=True)):
            written = _version(tensor) != version
            if index < self.bound.inputs:
                if written or to_bytes(tensor) != self.inputs[index]:
                    raise IneligibleError("writes into an input in place")
            elif written:
                raise IneligibleError("writes into its parameters or buffers")
        if self.module is not None and (
            _identities(self.module) != self.identities or module_state(self.module) != self.pickle
        ):
            raise IneligibleError("keeps state between calls")
        return self._output(result)

    def _output(self, result: Any) -> OutputDraft:
        outputs: list[torch.Tensor] = []
        try:
            tree = encode(result, outputs)
        except Unencodable as error:
            raise IneligibleError(f"returns {error}") from error
        if not outputs:
            raise IneligibleError("returns no tensor")
        given = {tensor.untyped_storage().data_ptr() for tensor in self.bound.tensors if tensor.numel()}
        storages = [tensor.untyped_storage().data_ptr() for tensor in outputs if tensor.numel()]
        if given.intersection(storages):
            raise IneligibleError("returns a view of its input, or the input itself")
        if len(set(storages)) < len(storages):
            raise IneligibleError("returns tensors that share a storage")
        return OutputDraft(tree, specify(outputs), fingerprints(outputs), [all_finite(tensor) for tensor in outputs])


def fingerprints(tensors: list[torch.Tensor]) -> list[str]:
    """A digest of each tensor's elements, gaps left out."""
    return [hashlib.sha256(to_bytes(tensor.contiguous())).hexdigest() for tensor in tensors]


def all_finite(tensor: torch.Tensor) -> bool:
    """Whether no element is infinite or NaN."""
    if not (tensor.dtype.is_floating_point or tensor.dtype.is_complex) or extent(tensor) == 0:
        return True
    wide = tensor.float() if tensor.element_size() == 1 else tensor
    return bool(torch.isfinite(wide).all())


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _identities(module: torch.nn.Module | None) -> list[tuple[str, int]]:
    return [] if module is None else [(name, id(tensor)) for name, tensor in module.named_buffers()]


def _generators() -> tuple[Any, ...]:
    return to_bytes(torch.get_rng_state()), random.getstate()
