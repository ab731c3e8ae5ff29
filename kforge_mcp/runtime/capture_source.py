"""The Python text of an operator, for whoever writes a candidate."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

import torch

from .capture_operators import Operator
from .entry import Workload
from .entry_script import defined_names

_MAXIMUM = 20_000
_MAXIMUM_SCHEMAS = 4
_MAXIMUM_DOC = 1500


def reference_source(subject: Any) -> str:
    """The source of a function or class, followed by the functions of the same file that it calls."""
    parts = []
    for item in [subject, *_helpers(subject)]:
        try:
            parts.append(inspect.getsource(item if inspect.isclass(item) else inspect.unwrap(item)).rstrip())
        except (OSError, TypeError):
            continue
    return "\n\n\n".join(parts)[:_MAXIMUM]


def operator_source(operator: Operator, operations: list[str]) -> str:
    """The source of a torch operator written in Python, else its signatures and the start of its documentation; then
    what it dispatches to."""
    function = operator.function
    parts = []
    if inspect.isfunction(function):
        parts.append(reference_source(function))
    else:
        parts += [f"{operator.name}{schema}" for schema in operator.schemas[:_MAXIMUM_SCHEMAS]]
        parts.append((inspect.getdoc(function) or "")[:_MAXIMUM_DOC].rstrip())
    if operations:
        parts.append("# dispatches to " + ", ".join(operations))
    return "\n".join(part for part in parts if part)[:_MAXIMUM]


def source_location(subject: Any) -> str:
    """`path:line`, or an empty string where the source is not at hand."""
    try:
        plain = subject if inspect.isclass(subject) else inspect.unwrap(subject)
        return f"{inspect.getsourcefile(plain)}:{inspect.getsourcelines(plain)[1]}"
    except (OSError, TypeError):
        return ""


def computed_globals(subject: Any, workload: Workload) -> list[str]:
    """The globals of a script that a function, or the classes of a module's parts, use and a mere import of its
    definitions lacks."""
    paths = [item["path"] for item in workload.imports if item.get("definitions")]
    if not paths or workload.module is None:
        return []
    known, lacking = vars(workload.module), set[str]()
    bound = {name for path in paths for name in defined_names(path)}
    classes = {cls for part in subject.modules() for cls in type(part).__mro__} if _is_module(subject) else set()
    waiting = [value for cls in classes for value in vars(cls).values()] if classes else [subject]
    seen: set[int] = set()
    while waiting:
        held = waiting.pop()
        if not isinstance(held, (FunctionType, staticmethod, classmethod)):
            continue
        function = inspect.unwrap(getattr(held, "__func__", held))
        if not isinstance(function, FunctionType) or function.__globals__ is not known or id(function) in seen:
            continue
        seen.add(id(function))
        for name in _names(function.__code__):
            if name not in known:
                continue
            if name not in bound:
                lacking.add(name)
            value = known[name]
            waiting += [*vars(value).values()] if isinstance(value, type) else [value]
    return sorted(lacking)


def _is_module(subject: Any) -> bool:
    return isinstance(subject, torch.nn.Module)


def _helpers(subject: Any) -> Iterator[FunctionType]:
    if inspect.isclass(subject) and issubclass(subject, torch.jit.ScriptModule):
        # Its forward exists on instances only: reading it from the class raises.
        return
    function = inspect.unwrap(subject.forward if inspect.isclass(subject) else subject)
    if not isinstance(function, FunctionType):
        return
    seen = {function.__name__}
    waiting = list(_names(function.__code__))
    while waiting:
        name = waiting.pop(0)
        helper = function.__globals__.get(name)
        if name in seen or not isinstance(helper, FunctionType) or helper.__module__ != function.__module__:
            continue
        seen.add(name)
        yield helper
        waiting += _names(helper.__code__)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
