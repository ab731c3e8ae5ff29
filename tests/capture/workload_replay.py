"""In the model interpreter: an account of a workload that owes nothing to capture, and captured cards held to it.

`python workload_replay.py REQUEST ANSWER` reads `{"entry", "project_dir", "cards", "blob_root", "scratch"}` and
writes what `main` returns, all as JSON. With `"cards": null` it only runs the workload plainly, to time it.
"""

from __future__ import annotations

import functools
import hashlib
import json
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, ModuleType, WrapperDescriptorType
from typing import Any

import torch
import torch._dynamo  # importing it replaces torch.manual_seed: before anything is compared
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from kforge_mcp.runtime import recipes
from kforge_mcp.runtime.blobs import read
from kforge_mcp.runtime.capture import capture
from kforge_mcp.runtime.entry import load_workload
from kforge_mcp.runtime.reference import load_reference
from kforge_mcp.runtime.tensors import NAMES, from_bytes, to_bytes
from kforge_mcp.runtime.values import Unencodable, flatten

Key = tuple[tuple[str, ...], tuple[str, ...]]
_MOST_TENSORS = 40
_PLAIN_RUNS = 5
_FUNCTIONS = (
    FunctionType,
    BuiltinFunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
    staticmethod,
    classmethod,
)


def digest(tensor: torch.Tensor) -> str:
    """Dtype, shape and elements of a tensor, its layout left out."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or torch._C._functorch.peek_interpreter_stack():
        return "a tensor without bytes"
    if tensor.layout is not torch.strided or tensor.dtype not in NAMES or tensor.is_meta:
        return "a tensor without bytes"
    data = to_bytes(tensor.detach().contiguous())
    return f"{NAMES[tensor.dtype]}{list(tensor.shape)}{hashlib.sha256(data).hexdigest()}"


def digests(tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
    return tuple(digest(tensor) for tensor in tensors)


def given_digests(tensors: Iterable[torch.Tensor]) -> tuple[str, ...]:
    """Digests of what a call is given, each tensor once, in no order: spellings of one call differ in that."""
    return tuple(sorted(digests({id(tensor): tensor for tensor in tensors}.values())))


class Account(TorchFunctionMode):
    """Every call of a run, by the values that went in and came out: torch functions, modules, functions."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: set[Key] = set()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        call = functools.partial(func, *args, **(kwargs or {}))
        if getattr(func, "__name__", "") in ("__get__", "__set__"):
            return call()
        return self.note(call, tensors_of((args, kwargs)))

    def note(self, call: Any, given: list[torch.Tensor]) -> Any:
        """Make a call and write it down."""
        with torch._C.DisableTorchFunction():
            before = given_digests(given) if 0 < len(given) <= _MOST_TENSORS else None
        result = call()
        with torch._C.DisableTorchFunction():
            if before is not None:
                try:
                    self.calls.add((before, digests(flatten(result))))
                except Unencodable:
                    pass
        return result

    def watching(self, function: Any) -> Any:
        """A module's `__call__`, or a plain function, that is written down."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            given = tensors_of((args, kwargs))
            for module in args[:1]:
                if isinstance(module, torch.nn.Module):
                    given += [*module.parameters(), *module.buffers()]
            return self.note(functools.partial(function, *args, **kwargs), given)

        return watched


def tensors_of(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def account(workload: Any, sites: set[str]) -> tuple[set[Key], tuple[str, ...]]:
    """The calls of one run, and its result. `sites` are the patch sites of the function cards."""
    book = Account()
    replaced: list[tuple[Any, str, Any]] = [(torch.nn.Module, "__call__", torch.nn.Module.__call__)]
    for site in sites:
        module_name, _, path = site.partition(":")
        owner: Any = sys.modules.get(module_name)
        *outer, name = path.split(".")
        for part in outer:
            owner = getattr(owner, part, None)
        if owner is not None and isinstance(vars(owner).get(name), (FunctionType, staticmethod)):
            replaced.append((owner, name, vars(owner)[name]))
    try:
        for owner, name, value in replaced:
            is_static = isinstance(value, staticmethod)
            watched = book.watching(value.__func__ if is_static else value)
            setattr(owner, name, staticmethod(watched) if is_static else watched)
        with book:
            result = workload.run()
    finally:
        for owner, name, value in replaced:
            setattr(owner, name, value)
    return book.calls, digests(tensors_of(result))


def held(workload: Any, python_modules: Iterable[str] | None = None) -> dict[tuple[str, str], int]:
    """The identity of every function in the globals of Python modules, on torch's classes and on the model's."""
    names = list(sys.modules) if python_modules is None else python_modules
    owners: dict[str, Any] = {name: sys.modules[name] for name in names if isinstance(sys.modules[name], ModuleType)}
    for cls in {base for module in workload.model.modules() for base in type(module).__mro__}:
        owners[f"{cls.__module__}.{cls.__qualname__}"] = cls
    owners["torch.Tensor"] = torch.Tensor
    for name, module in workload.model.named_modules():
        owners[f"model.{name}"] = module
    found = {}
    for owner_name, owner in owners.items():
        for name, value in list(vars(owner).items()):
            # Not `isinstance`: asking some of torch's objects for their class is a deprecation warning.
            if issubclass(type(value), _FUNCTIONS):
                found[owner_name, name] = id(value)
    found["torch", "function modes"] = torch._C._len_torch_function_stack()
    found["torch", "dispatch modes"] = torch._C._len_torch_dispatch_stack()
    return found


def replay(card: dict[str, Any], originals: set[Key], blob_root: str) -> tuple[int, list[str]]:
    """The number of variants rerun from stored samples, and what went wrong with any variant."""
    faults = []
    replayed = 0
    generator = torch.Generator().manual_seed(1)
    reference = load_reference(card["reference"], blob_root)
    for number, variant in enumerate(card["variants"]):
        name = f"{card['name']}, variant {number}"
        specs = variant["tensors"]
        wanted = [True] * len(variant["outputs"])
        try:
            if all(spec["sample"] for spec in specs):
                tensors = [from_bytes(spec, read(blob_root, spec["sample"])) for spec in specs]
                before = given_digests(tensors)
                outputs = flatten(reference.call(tensors, variant["call"]))
                replayed += 1
                wanted = [_is_finite(tensor) for tensor in outputs]
                if (before, digests(outputs)) not in originals:
                    faults.append(f"{name}: {_miss(before, originals)}")
            drawn = [recipes.draw(spec, generator, blob_root=blob_root) for spec in specs]
            fresh = flatten(reference.call(drawn, variant["call"]))
        except Exception as error:  # noqa: BLE001 - the user's operator may raise anything
            faults.append(f"{name}: {type(error).__name__}: {error}")
            continue
        if [list(tensor.shape) for tensor in fresh] != [spec["shape"] for spec in variant["outputs"]]:
            faults.append(f"{name}: the shape of the result changes with fresh values")
        if any(was and not _is_finite(now) for was, now in zip(wanted, fresh, strict=True)):
            faults.append(f"{name}: not finite on fresh values")
    return replayed, faults


def _miss(before: tuple[str, ...], originals: set[Key]) -> str:
    seen = any(given == before for given, _ in originals)
    return "rerun, it gives another result than the original call" if seen else "the workload made no such call"


def _is_finite(tensor: torch.Tensor) -> bool:
    return not tensor.dtype.is_floating_point or bool(torch.isfinite(tensor.float()).all())


def _plain(workload: Any) -> dict[str, Any]:
    seconds = []
    for _ in range(_PLAIN_RUNS):
        start = time.perf_counter()
        workload.run()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"forward_s": sorted(seconds)[len(seconds) // 2], "first_forward_s": seconds[0], "peak_bytes": peak}


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Run what the request asks for."""
    workload = load_workload(request["entry"], request["project_dir"])
    if request["cards"] is None:
        return _plain(workload)
    plain = digests(tensors_of(workload.run()))
    sites = {site for card in request["cards"] if card["level"] == "function" for site in card["patch_sites"]}
    originals, watched = account(workload, sites)
    before = held(workload)
    payload = {"entry": request["entry"], "project_dir": request["project_dir"], "target": "cpu"}
    capture({**payload, "pass": "timing", "budget_s": 0.1}, lambda event: None)
    capture({**payload, "pass": "sampling", "blob_root": request["scratch"], "max_bytes": 1 << 30}, lambda event: None)
    after = held(workload)
    again = digests(tensors_of(workload.run()))
    replayed, faults = 0, []
    for card in request["cards"]:
        if card["eligible"]:
            count, wrong = replay(card, originals, request["blob_root"])
            replayed += count
            faults += wrong
    return {
        "unchanged": plain == again,
        "deterministic": plain == watched,
        "patched": sorted(
            f"{owner}: {name}" for (owner, name), value in before.items() if after.get((owner, name)) != value
        ),
        "replayed": replayed,
        "faults": faults,
    }


if __name__ == "__main__":
    answer = main(json.loads(Path(sys.argv[1]).read_text()))
    Path(sys.argv[2]).write_text(json.dumps(answer))
