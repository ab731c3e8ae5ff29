"""How capture puts itself around what a workload calls, and takes itself away again."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack, _pop_mode_temporarily

from .capture_operators import Operator, is_watched, operator_of
from .capture_targets import Target, references

Call = Callable[..., Any]


class Watcher(Protocol):
    """What a pass does at each call."""

    def around_call(self, original: Call) -> Call:
        """A `nn.Module.__call__`."""
        ...

    def around_function(self, target: Target) -> Call:
        """What stands in for the target's function."""
        ...

    def on_operator(self, operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make the call of a torch operator."""
        ...


@dataclass
class Elsewhere:
    """Calls in other threads than the one that watches, left alone: their order differs from run to run, and time
    that passes at once cannot be divided among them. To whatever waits for them they are part of its own call."""

    calls: int = 0

    def leave_alone(self, watched: Call, original: Call) -> Call:
        """`watched` in the thread that calls this, `original` in others."""
        owner = threading.get_ident()

        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling():
                return original(*args, **kwargs)
            if threading.get_ident() != owner:
                self.calls += 1
                return original(*args, **kwargs)
            return watched(*args, **kwargs)

        return call


class _Mode(TorchFunctionMode):
    """Sees every torch function that takes a tensor; what such a function itself calls stays unseen."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self._watcher = watcher

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling() or not is_watched(args, kwargs):
            return func(*args, **kwargs)
        operator = operator_of(func)
        return func(*args, **kwargs) if operator is None else self._watcher.on_operator(operator, args, kwargs)


def is_compiled(subject: Any) -> bool:
    """Whether `torch.compile` made a function or module: what it contains is not eager's."""
    if isinstance(subject, torch.nn.Module):
        # By name: importing the compiler costs seconds and changes the process.
        return subject._compiled_call_impl is not None or type(subject).__name__ == "OptimizedModule"
    return hasattr(subject, "_torchdynamo_orig_callable")


def unwatched(subject: Any) -> AbstractContextManager[Any]:
    """A context for a call of what `torch.compile` made, which would be compiled anew under a mode."""
    if not is_compiled(subject):
        return nullcontext()
    stack = _get_current_function_mode_stack()
    return _pop_mode_temporarily() if stack and isinstance(stack[-1], _Mode) else nullcontext()


@contextmanager
def observing(
    model: torch.nn.Module, functions: Sequence[Target], watcher: Watcher, *, operators: bool = True
) -> Iterator[Elsewhere]:
    """Watch every module call, the functions, and torch's operators unless `operators` is False; put all back after.

    Only calls of the current thread are watched. References that the workload itself took to a wrapper meanwhile are
    put back too.
    """
    original_call = torch.nn.Module.__call__
    original_check = torch.overrides.has_torch_function
    wrappers: dict[int, tuple[Any, Target]] = {}
    sites = [site for target in functions for site in target.sites if isinstance(site.owner, type)]
    elsewhere = Elsewhere()
    methods = [(site, vars(site.owner)[site.key]) for site in sites]
    try:
        torch.nn.Module.__call__ = elsewhere.leave_alone(watcher.around_call(original_call), original_call)
        # torch's own attention and encoder layers leave their fast path where this is true, which it is under any
        # mode: with it the workload would compute something else when it is watched.
        torch.overrides.has_torch_function = _has_overriding_argument
        for target in functions:
            watched = elsewhere.leave_alone(watcher.around_function(target), target.subject)
            wrapper = functools.wraps(target.subject)(watched)
            wrappers[id(wrapper)] = (wrapper, target)
            for site in target.sites:
                site.put(wrapper)
        with _Mode(watcher) if operators else nullcontext():
            yield elsewhere
    finally:
        torch.nn.Module.__call__ = original_call
        torch.overrides.has_torch_function = original_check
        for site, wrapper in list(references(set(wrappers), model)):
            site.put(wrappers[id(wrapper)][1].subject)
        for site, method in methods:
            setattr(site.owner, site.key, method)


def _has_overriding_argument(arguments: Any) -> bool:
    return any(
        type(item) not in (torch.Tensor, torch.nn.Parameter) and hasattr(type(item), "__torch_function__")
        for item in arguments
        if isinstance(item, torch.Tensor) or hasattr(type(item), "__torch_function__")
    )
