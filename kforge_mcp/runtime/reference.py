"""Eager itself, rebuilt in another process: the operator that a card stands for, called on flat tensors.

A reference is `{"kind": "function", "module", "qualname"}`, `{"kind": "module", "pickle"}` or `{"kind": "torch"}`,
each with `"imports"` (user files to import first, see `import_code`), `"sys_path"` and `"flags"` (see `flags.py`). A
variant's `call` is `{"args": [tree], "kwargs": {name: tree}, "parameters": {name: index}}`, its indices into
`Variant.tensors`; where instances of a class differ, `"module"` is the digest of that variant's own pickle; a torch
operator has many spellings, and `"function"` is `module:qualname` of the one that this variant was called by.
`"autocast"` is the dtype of automatic mixed precision around the captured call, which did not change its result.
"""

from __future__ import annotations

import functools
import importlib
import io
import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch

from . import blobs, flags
from .entry import import_file
from .values import decode

_PERSISTENT = "kforge.tensor"


class _Pickler(pickle.Pickler):
    """Leaves a module's parameters and buffers out: they are arguments of the variant, not state."""

    def __init__(self, file: io.BytesIO, module: torch.nn.Module) -> None:
        super().__init__(file, protocol=4)
        self._names: dict[int, tuple[str, str]] = {}
        for name, tensor in module.named_buffers(remove_duplicate=False):
            self._names.setdefault(id(tensor), ("buffer", name))
        for name, tensor in module.named_parameters(remove_duplicate=False):
            self._names.setdefault(id(tensor), ("parameter", name))

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, torch.Tensor) or id(obj) not in self._names:
            return None
        kind, name = self._names[id(obj)]
        return _PERSISTENT, kind, name, str(obj.dtype).removeprefix("torch."), tuple(obj.shape)


class _Unpickler(pickle.Unpickler):
    """Puts tensors without storage where parameters and buffers belong."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._made: dict[Any, torch.Tensor] = {}

    def persistent_load(self, pid: Any) -> torch.Tensor:
        _, kind, _, dtype, shape = pid
        if pid not in self._made:
            empty = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
            self._made[pid] = torch.nn.Parameter(empty, requires_grad=False) if kind == "parameter" else empty
        return self._made[pid]


class _EqualPickler(_Pickler):
    """Writes modules that differ in nothing but the attributes `left_out` alike."""

    def __init__(self, file: io.BytesIO, module: torch.nn.Module, left_out: Collection[str]) -> None:
        super().__init__(file, module)
        self._left_out = left_out

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, torch.nn.Module) or not any(name in vars(obj) for name in self._left_out):
            return NotImplemented
        make, arguments, state, *rest = obj.__reduce_ex__(4)
        if not isinstance(state, dict):
            return NotImplemented
        return make, arguments, {name: 0 if name in self._left_out else state[name] for name in state}, *rest


def dump_module(module: torch.nn.Module, *, left_out: Collection[str] = ()) -> bytes:
    """The state of a module without its parameters and buffers. Raises what pickling the user's objects raises.

    With `left_out`, attributes by these names are written as 0: for comparison, not for loading.
    """
    file = io.BytesIO()
    pickler = _EqualPickler(file, module, left_out) if left_out else _Pickler(file, module)
    pickler.dump(module)
    return file.getvalue()


def load_module(data: bytes) -> torch.nn.Module:
    """The inverse of `dump_module`; parameters and buffers are on the meta device until they are bound."""
    return _Unpickler(io.BytesIO(data)).load()


def import_code(reference: dict[str, Any]) -> None:
    """Import what the reference needs, without running an operator of it: for a parent that forks evaluators.

    `imports` are `{"name", "path"}`; of a script, `"definitions": true`, what it does is left out.
    """
    search_path = reference.get("sys_path", [])
    for item in reference.get("imports", []):
        import_file(item["name"], item["path"], search_path, definitions=item.get("definitions", False))
    if "module" in reference:
        importlib.import_module(reference["module"])


class Reference:
    """Eager of one card. Not safe for concurrent calls: parameters are set on the one module instance."""

    def __init__(self, reference: dict[str, Any], blob_root: str) -> None:
        self._reference = reference
        self._blob_root = blob_root
        self._functions: dict[str, Callable[..., Any]] = {}
        self._modules: dict[str, torch.nn.Module] = {}

    def bind(self, tensors: Sequence[torch.Tensor], call: dict[str, Any]) -> functools.partial[Any]:
        """Eager with its arguments in place: calling it costs what the original call costs, and no more.

        `tensors` are in the order of `Variant.tensors`. For a module, the next `bind` replaces the parameters.
        """
        target = self._module(call) if self._reference["kind"] == "module" else self._function(call)
        if isinstance(target, torch.nn.Module):
            place(target, {name: tensors[index] for name, index in call["parameters"].items()})
        args = [decode(tree, tensors) for tree in call["args"]]
        kwargs = {name: decode(tree, tensors) for name, tree in call["kwargs"].items()}
        return functools.partial(target, *args, **kwargs)

    def call(self, tensors: Sequence[torch.Tensor], call: dict[str, Any]) -> Any:
        """The result of eager on these tensors, under `no_grad`."""
        with torch.no_grad():
            return self.bind(tensors, call)()

    def adopt(self, digest: str, pickle: bytes) -> None:
        """Take a module's pickle from memory, under a digest that a `call` may then name."""
        self._modules[digest] = load_module(pickle)

    def forget(self, digest: str) -> None:
        """Let go of an adopted module."""
        self._modules.pop(digest, None)

    def _function(self, call: dict[str, Any]) -> Callable[..., Any]:
        path = call.get("function") or f"{self._reference['module']}:{self._reference['qualname']}"
        if path not in self._functions:
            module, _, qualname = path.partition(":")
            target: Any = importlib.import_module(module)
            for part in qualname.split("."):
                target = getattr(target, part)
            self._functions[path] = target
        return self._functions[path]

    def _module(self, call: dict[str, Any]) -> torch.nn.Module:
        digest = call.get("module") or self._reference["pickle"]
        if digest not in self._modules:
            self._modules[digest] = load_module(blobs.read(self._blob_root, digest))
        return self._modules[digest]


def place(module: torch.nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    """Set parameters and buffers by dotted name, of whatever dtype, without copying."""
    for name, tensor in tensors.items():
        owner_path, _, attribute = name.rpartition(".")
        owner = module.get_submodule(owner_path)
        if attribute in owner._parameters:
            is_plain = type(tensor) is torch.Tensor
            owner._parameters[attribute] = torch.nn.Parameter(tensor, requires_grad=False) if is_plain else tensor
        else:
            owner._buffers[attribute] = tensor


def load_reference(reference: dict[str, Any], blob_root: str) -> Reference:
    """Rebuild eager for a card. `blob_root` is the workspace's blob folder.

    Raises `Refusal` if the user's files cannot be imported any more, `FileNotFoundError` for a missing blob.
    """
    import_code(reference)
    flags.apply(reference.get("flags", {}))
    return Reference(reference, blob_root)
