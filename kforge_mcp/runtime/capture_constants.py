"""The constants that a module's forward reads, found in its source: `self.eps`, `self.config.hidden_size`."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import torch

Chain = tuple[str, ...]


def read_constants(module: torch.nn.Module) -> list[tuple[str, Any]]:
    """`(path, value)` for every scalar, or tuple of scalars, that the forward of the module or of one it contains
    reads; `path` starts behind `self.`."""
    found: dict[str, Any] = {}
    for prefix, part in module.named_modules():
        for chain in _chains(type(part)):
            value = _follow(part, chain)
            if is_constant(value):
                found.setdefault(".".join([prefix, *chain] if prefix else chain), value)
    return list(found.items())


def is_constant(value: Any) -> bool:
    """Whether a value can be a constant argument: a scalar, a string, or a list or tuple of these."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(isinstance(item, (bool, int, float, str)) for item in value)
    return isinstance(value, (bool, int, float, str))


def _follow(module: torch.nn.Module, chain: Chain) -> Any:
    value: Any = module
    for name in chain:
        # Properties run code and may compute anything: only what is stored counts.
        if isinstance(getattr(type(value), name, None), property):
            return None
        try:
            value = getattr(value, name, None)
        except Exception:  # noqa: BLE001 - a `__getattribute__` of the user's classes may raise anything
            return None
    return value


@functools.cache
def _chains(cls: type) -> tuple[Chain, ...]:
    chains: dict[Chain, None] = {}
    seen: set[str] = set()
    waiting = ["forward"]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for chain in _read_source(getattr(cls, name)):
            if len(chain) == 1 and inspect.isfunction(inspect.getattr_static(cls, chain[0], None)):
                waiting.append(chain[0])
            else:
                chains[chain] = None
    return tuple(chains)


def _read_source(function: Callable[..., Any]) -> Iterator[Chain]:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return
    definition = tree.body[0]
    if not isinstance(definition, ast.FunctionDef) or not definition.args.args:
        return
    instance = definition.args.args[0].arg
    inner = {node.value for node in ast.walk(definition) if isinstance(node, ast.Attribute)}
    outer = [node for node in ast.walk(definition) if isinstance(node, ast.Attribute) and node not in inner]
    for node in sorted(outer, key=lambda node: (node.lineno, node.col_offset)):
        chain = _chain(node, instance)
        # `self.shape.index(...)` reads `self.shape`: every prefix is a candidate.
        for length in range(1, len(chain) + 1):
            yield chain[:length]


def _chain(node: ast.expr, instance: str) -> Chain:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return tuple(reversed(names)) if isinstance(node, ast.Name) and node.id == instance else ()
