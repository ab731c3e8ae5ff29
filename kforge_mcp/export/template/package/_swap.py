"""Class swap: an instance becomes one of a subclass that looks and pickles like the original class."""

from __future__ import annotations

import copyreg
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from ._cards import Card, Dispatcher

_is_compiling = torch.compiler.is_compiling


class Layer(NamedTuple):
    """What a swap adds: a card's dispatch in `forward`, a wrapper around `__call__` of the root model, or both."""

    card: Card | None
    gate: Callable[[Callable[..., Any]], Callable[..., Any]] | None


class _Plain:
    """First base of every swapped class: deepcopy, pickle and torch.save see the original class, and the original's
    `__init_subclass__` is not run, since nothing of the user's was subclassed by the user.

    It has a `__dict__`, as nn.Module does: Python changes an instance's class only between equal layouts.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced = super().__reduce_ex__(protocol)
        swapped, original = type(self), unswapped(type(self))
        if not isinstance(reduced, tuple):
            return reduced
        function, arguments, *rest = reduced
        arguments = tuple(original if item is swapped else item for item in arguments)
        if function is copyreg.__newobj__:  # pickle insists that its class is the instance's own
            function, arguments = copyreg._reconstructor, (original, object, None)  # type: ignore[attr-defined]
        return (function, arguments, *rest)


def unswapped(cls: type) -> type:
    """The class under all layers, of this and other packages."""
    while "_kforge_base" in vars(cls):
        cls = vars(cls)["_kforge_base"]
    return cls


def swap_in(module: torch.nn.Module, owner: str, layer: Layer) -> None:
    """Lay a layer over the instance's class; the instance keeps its identity, dictionary, hooks and state."""
    module.__class__ = _layered(type(module), owner, layer)


def swap_out(module: torch.nn.Module, owner: str) -> None:
    """Take away this owner's layer, wherever in the stack it lies; with none left the class is the original."""
    cls, others = type(module), []
    while "_kforge_base" in vars(cls):
        if vars(cls)["_kforge_owner"] != owner:
            others.append(vars(cls)["_kforge_layer"])
        cls = vars(cls)["_kforge_base"]
    for lay in reversed(others):
        cls = lay(cls)
    module.__class__ = cls


@functools.cache
def _layered(base: type, owner: str, layer: Layer) -> type:
    namespace: dict[str, Any] = {
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "__doc__": base.__doc__,
        "_kforge_base": base,
        "_kforge_owner": owner,
        "_kforge_card": layer.card,
        "_kforge_layer": staticmethod(lambda other: _layered(other, owner, layer)),
    }
    if layer.card is not None:
        original = base.forward  # type: ignore[attr-defined]
        namespace["forward"] = _forward(layer.card, layer.card.dispatcher(original, method=True), original)
    if layer.gate is not None:
        namespace["__call__"] = layer.gate(base.__call__)
    return type(base)(base.__name__, (_Plain, base), namespace)


def _forward(card: Card, dispatcher: Dispatcher, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        # Compiled code was not measured, so it is traced through the original.
        if _is_compiling():
            return original(self, *args, **kwargs)
        found = dispatcher.find(self, args, kwargs)
        if found is None:
            return original(self, *args, **kwargs)
        if card.on_error == "raise":
            return dispatcher.run(*found)
        try:
            return dispatcher.run(*found)
        except Exception as error:  # noqa: BLE001 - the caller asked for the original on any error
            card.failed(error)
            return original(self, *args, **kwargs)

    return forward
