"""Putting the kernels into a model and taking them out: instances change class, functions are replaced where held.

Several packages may be attached to one model and detached in any order: each keeps a layer over what it found, and
leaving removes that layer alone.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import inspect
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch

from ._cards import Card, Dispatcher
from ._devices import loaded, places
from ._library import UnsupportedError, load, manifest, namespace
from ._swap import Layer, swap_in, swap_out

_is_compiling = torch.compiler.is_compiling
_lock = threading.RLock()
_gate: contextvars.ContextVar[bool] = contextvars.ContextVar(f"{__package__}.running", default=False)


@dataclass
class Attached:
    """What `attach` did: instances by card, places of functions by card, and what was left alone, with the reason."""

    modules: dict[str, int] = field(default_factory=dict)
    functions: dict[str, list[str]] = field(default_factory=dict)
    left_alone: dict[str, str] = field(default_factory=dict)

    @property
    def active(self) -> bool:
        """Whether any kernel can be reached."""
        return bool(self.modules or self.functions)


@dataclass
class Site:
    """A place that holds a function of a card."""

    card: Card
    place: str
    holder: Any
    attribute: str
    wrapper: Callable[..., Any]


_models: dict[int, tuple[weakref.ref[torch.nn.Module], list[weakref.ref[torch.nn.Module]], Attached]] = {}
_sites: list[Site] = []
_site_notes = Attached()
_site_users = 0


@functools.lru_cache(maxsize=1)
def cards() -> list[Card]:
    """The package's cards; loads the library on first use."""
    load()
    return [Card(number, entry, namespace()) for number, entry in enumerate(manifest()["cards"])]


def attach(model: torch.nn.Module, *, on_error: Literal["raise", "fallback"] = "raise") -> Attached:
    """Let the package's kernels serve a model's calls until `detach`. Attaching twice changes nothing.

    An error inside a kernel is raised, or with `on_error="fallback"` counted, logged once, and the original is
    called; the latest choice holds for the whole package. Functions are replaced where modules loaded by now hold
    them. A class or function whose source differs from the captured one is left alone. GPU kernels are loaded on the
    devices that the model is on now: after a move to another one, attach again. Raises `UnsupportedError` where this
    machine cannot run the kernels.
    """
    if on_error not in ("raise", "fallback"):
        raise ValueError(f"on_error is 'raise' or 'fallback', not {on_error!r}")
    with _lock:
        known = _models.get(id(model))
        if known is not None and known[0]() is model:
            _serve(model, known[2])
            return known[2]
        result = Attached()
        _serve(model, result)
        for card in cards():
            card.on_error = on_error
        swapped = _swap_modules(model, result)
        _patch_functions()
        result.functions.update(_site_notes.functions)
        result.left_alone.update(_site_notes.left_alone)
        _models[id(model)] = (weakref.ref(model), [weakref.ref(module) for module in swapped], result)
        return result


def detach(model: torch.nn.Module | None = None) -> None:
    """Restore the identical classes and functions of one model, or of all that were attached."""
    with _lock:
        for key in [id(model)] if model is not None else list(_models):
            root, modules, _ = _models.pop(key, (None, [], None))
            if root is None:
                continue
            for reference in modules:
                module = reference()
                if module is not None:
                    swap_out(module, namespace())
            _unpatch_functions()


@contextlib.contextmanager
def enabled(*, on_error: Literal["raise", "fallback"] = "raise") -> Iterator[None]:
    """Let the kernels of function cards serve calls made in this block, whatever model makes them."""
    with _lock:
        _serve(None, Attached())
        for card in cards():
            card.on_error = on_error
        _patch_functions()
    token = _gate.set(True)
    try:
        yield
    finally:
        _gate.reset(token)
        with _lock:
            _unpatch_functions()


def stats() -> dict[str, dict[str, Any]]:
    """Counts since import, by card: calls a kernel served (`hits`), calls that went to the original by reason
    (`misses`), inputs that were cloned since they lay at a lesser alignment, errors inside kernels."""
    return {
        card.name: {
            "hits": card.hits,
            "misses": dict(card.misses),
            "cloned_inputs": load().kforge_cloned(card.number),
            "errors": card.errors,
        }
        for card in cards()
    }


def source_digest(target: Any) -> str:
    """What tells the captured source of a class or function from a changed one; empty if there is no source."""
    try:
        text = textwrap.dedent(inspect.getsource(target))
    except (OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()


class Point(NamedTuple):
    """A callable of the attached model that belongs to a card, for whoever measures a kernel inside the model."""

    card: str
    holder: Any
    attribute: str
    dispatch: Callable[..., Any]
    original: Callable[..., Any]


def points() -> list[Point]:
    """Every place where a call of the attached models meets this package."""
    found = [
        Point(site.card.name, site.holder, site.attribute, site.wrapper, site.wrapper._kforge_original)
        for site in _sites
    ]
    modules = [reference() for _, references, _ in _models.values() for reference in references]
    for cls in dict.fromkeys(type(module) for module in modules if module is not None):
        card = vars(cls).get("_kforge_card")
        if card is not None:
            found.append(Point(card.name, cls, "forward", vars(cls)["forward"], vars(cls)["_kforge_base"].forward))
    return found


def _serve(model: torch.nn.Module | None, result: Attached) -> None:
    """Load the kernels on the model's devices; one that cannot run them is noted if another can."""
    reasons = {place: loaded(place) for place in places(model)}
    if all(reasons.values()):
        raise UnsupportedError("; ".join(reasons.values()))
    for place, reason in reasons.items():
        if reason:
            result.left_alone[str(place)] = reason
            continue
        for card in cards():
            card.serve_on(place)


def _swap_modules(model: torch.nn.Module, result: Attached) -> list[torch.nn.Module]:
    swapped = []
    for place, module in model.named_modules():
        card, reason = _card_for(module)
        if reason:
            result.left_alone[place or type(module).__qualname__] = reason
        if card is not None:
            result.modules[card.name] = result.modules.get(card.name, 0) + 1
        if card is not None or module is model:
            swap_in(module, namespace(), Layer(card, _gated if module is model else None))
            swapped.append(module)
    return swapped


def _card_for(module: torch.nn.Module) -> tuple[Card | None, str]:
    reason = ""
    for card in cards():
        if card.level == "module" and card.entry["class_name"] == type(module).__qualname__:
            if "forward" in vars(module):
                return None, "its forward is patched"
            reason = _why_not(card, type(module))
            if not reason:
                return card, ""
    return None, reason


@functools.lru_cache(maxsize=256)
def _why_not(card: Card, cls: type[torch.nn.Module]) -> str:
    if source_digest(cls) != card.entry["source_sha256"]:
        return "the source of its class differs from the captured one"
    return card.dispatcher(cls.forward, method=True).unusable


def _gated(call: Callable[..., Any]) -> Callable[..., Any]:
    """The root model's call: functions go to kernels only while it runs."""

    @functools.wraps(call)
    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        if _is_compiling():
            return call(self, *args, **kwargs)
        token = _gate.set(True)
        try:
            return call(self, *args, **kwargs)
        finally:
            _gate.reset(token)

    return __call__


def _patch_functions() -> None:
    global _site_users
    _site_users += 1
    if _site_users > 1:
        return
    for card in cards():
        for place in card.entry["patch_sites"]:
            reason = _patch(card, place)
            if reason:
                _site_notes.left_alone[place] = reason
            else:
                _site_notes.functions.setdefault(card.name, []).append(place)


def _patch(card: Card, place: str) -> str:
    holder = _holder(place)
    attribute = place.partition(":")[2].rpartition(".")[2]
    original = getattr(holder, attribute, None)
    if original is None:
        return "nothing of this name is loaded"
    if source_digest(original) != card.entry["source_sha256"]:
        return "its source differs from the captured one"
    dispatcher = card.dispatcher(original, method=False)
    if dispatcher.unusable:
        return dispatcher.unusable
    wrapper = _wrap(card, dispatcher, original)
    setattr(holder, attribute, wrapper)
    _sites.append(Site(card, place, holder, attribute, wrapper))
    return ""


def _holder(place: str) -> Any:
    module, _, path = place.partition(":")
    # What is not loaded is not called; a file that runs as a script here is `__main__`, not a module of its name.
    holder = sys.modules.get(module, sys.modules["__main__"])
    for step in path.split(".")[:-1]:
        holder = getattr(holder, step, None)
    return holder


def _wrap(card: Card, dispatcher: Dispatcher, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        # Compiled code was not measured, so it is traced through the original.
        if _is_compiling() or not _gate.get():
            return original(*args, **kwargs)
        found = dispatcher.find(None, args, kwargs)
        if found is None:
            return original(*args, **kwargs)
        if card.on_error == "raise":
            return dispatcher.run(*found)
        try:
            return dispatcher.run(*found)
        except Exception as error:  # noqa: BLE001 - the caller asked for the original on any error
            card.failed(error)
            return original(*args, **kwargs)

    wrapper._kforge_owner = namespace()  # type: ignore[attr-defined]
    wrapper._kforge_original = original  # type: ignore[attr-defined]
    wrapper._kforge_layer = functools.partial(_wrap, card, dispatcher)  # type: ignore[attr-defined]
    return wrapper


def _unpatch_functions() -> None:
    global _site_users
    _site_users -= 1
    if _site_users:
        return
    for site in _sites:
        setattr(site.holder, site.attribute, _without_layer(getattr(site.holder, site.attribute)))
    _sites.clear()
    _site_notes.functions.clear()
    _site_notes.left_alone.clear()


def _without_layer(function: Any) -> Any:
    others = []
    while hasattr(function, "_kforge_layer"):
        if function._kforge_owner != namespace():
            others.append(function._kforge_layer)
        function = function._kforge_original
    for layer in reversed(others):
        function = layer(function)
    return function
