"""One operator card at run time: the lookup from a call's facts to a kernel, and what is counted."""

from __future__ import annotations

import functools
import logging
import operator
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack  # type: ignore[attr-defined]
from torch.utils._device import DeviceContext

from ._facts import (
    Binder,
    Tree,
    Unserved,
    build_result,
    captured_facts,
    captured_steps,
    facts,
    tensor_facts,
)

_log = logging.getLogger(__package__)
_REMEMBERED_MISSES = 4096
_is_compiling = torch.compiler.is_compiling
_grad_enabled = torch.is_grad_enabled
_autocast_enabled = torch.is_autocast_enabled
_capturing = torch.cuda.is_current_stream_capturing
# Inside vmap, grad and the like a wrapped tensor looks like a plain one from Python; only this tells.
_functorch_layer = torch._C._functorch.peek_interpreter_stack
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack
_tracing = torch._C._get_tracing_state
_deterministic = torch.are_deterministic_algorithms_enabled


class Variant:
    """A captured call that a kernel serves: where its tensors are found, and how its result is built."""

    def __init__(self, index: int, entry: dict[str, Any], bound: tuple[Any, ...], card: Card) -> None:
        self.index = index
        self._entry = entry
        self._bound = bound
        steps = [None if tensor is None else _find(tensor, bound, entry, card) for tensor in entry["operands"]]
        self.pick = _picker(steps)
        self.single = len(entry["outputs"]) == 1
        self.plain = entry["output_tree"] == {"t": 0} and self.single
        self.result = build_result(entry["output_tree"])
        self.complex = any(spec["dtype"].startswith("complex") for spec in entry["tensors"])

    def key(self, place: torch.device) -> tuple[Any, ...]:
        """The facts of the captured call with its tensors on a device."""
        tensors = [{**spec, "device": place} for spec in self._entry["tensors"]]
        return (
            *[captured_facts(value, tensors) for value in self._bound],
            *[_state_facts(item, tensors) for item in self._entry["state"]],
        )


def _state_facts(item: dict[str, Any], tensors: list[dict[str, Any]]) -> tuple[Any, ...]:
    return tensor_facts(tensors[item["tensor"]]) if item["tensor"] is not None else facts(_as_tuple(item["value"]))


def _find(tensor: int, bound: tuple[Any, ...], entry: dict[str, Any], card: Card) -> tuple[Any, ...]:
    for position, item in enumerate(entry["state"]):
        if item["tensor"] == tensor:
            return (len(bound) + position,)
    for position, value in enumerate(bound):
        steps = captured_steps(value, tensor)
        if steps is not None:
            return (position, *steps)
    raise ValueError(f"the manifest of {card.name} names tensor {tensor}, which its call does not hold")


class Card:
    """The kernels of one operator card. `hits`, `misses` by reason and `errors` are counts since import."""

    def __init__(self, number: int, entry: dict[str, Any], namespace: str) -> None:
        self.number = number
        self.entry = entry
        self.name: str = entry["name"]
        self.level: str = entry["level"]
        self.on_error = "raise"
        self.hits = 0
        self.errors = 0
        self.misses: dict[str, int] = {}
        self.device = torch.device(entry["device"]).type
        # The function behind the overload: its `__call__` would add a Python call to every call.
        self.operator = getattr(getattr(torch.ops, namespace), entry["operator"]).default.op
        state = entry["variants"][0]["state"]
        self.readers = [_reader(item["path"], item["role"], item["value"]) for item in state]
        self.explained: dict[Any, str] = {}
        self.places: list[torch.device] = []
        self._dispatchers: weakref.WeakSet[Dispatcher] = weakref.WeakSet()

    def serve_on(self, place: torch.device) -> None:
        """Let calls on a device be served, on which the kernels were loaded."""
        if place not in self.places:
            self.places.append(place)
            for dispatcher in list(self._dispatchers):
                dispatcher.serve_on(place)

    def dispatcher(self, original: Callable[..., Any], *, method: bool) -> Dispatcher:
        """The lookup for one original, whose signature says how arguments are bound."""
        made = Dispatcher(self, original, method=method)
        self._dispatchers.add(made)
        return made

    def miss(self, reason: str) -> None:
        """Count a call that goes to the original."""
        self.misses[reason] = self.misses.get(reason, 0) + 1

    def failed(self, error: Exception) -> None:
        """Count an error inside a kernel; the first is logged."""
        self.errors += 1
        if self.errors == 1:
            _log.error("%s: a kernel failed and the original was called instead: %s", self.name, error)


Found = tuple[Variant, "list[Any]"]
Find = Callable[[Any, "tuple[Any, ...]", "dict[str, Any]"], "Found | None"]


class Dispatcher:
    """Sends a call to the kernel that was judged on it, or to the original with a counted reason."""

    def __init__(self, card: Card, original: Callable[..., Any], *, method: bool) -> None:
        self._card = card
        self._bind = Binder(original, skip_self=method)
        self._table: dict[Any, Variant] = {}
        self._variants: list[Variant] = []
        self.unusable = ""
        for index, entry in enumerate(card.entry["variants"]):
            trees = tuple(Tree(tree) for tree in entry["call"]["args"])
            named = {name: Tree(tree) for name, tree in entry["call"]["kwargs"].items()}
            try:
                self._variants.append(Variant(index, entry, self._bind(trees, named), card))
            except Unserved as outcome:
                self.unusable = f"the captured call does not fit the signature here ({outcome})"
        for place in card.places:
            self.serve_on(place)
        self.find: Find = self._lookup()

    def serve_on(self, place: torch.device) -> None:
        """Find calls whose tensors are on this device."""
        self._table.update({variant.key(place): variant for variant in self._variants})

    def _lookup(self) -> Find:
        """The lookup as one closure: it runs on every call, so nothing is fetched from an object that need not be.

        It takes the module (None for a function) and the arguments, and gives the variant with its tensors, or None
        after counting why there is none.
        """
        card, bind, find, readers, explain = self._card, self._bind, self._table.get, self._card.readers, self._explain
        device = card.device
        deterministic = _deterministic if card.entry["nondeterministic"] else None
        # A kernel that was not accepted under CUDA graphs is not recorded into one.
        capturing = None if device != "cuda" or "cuda_graph" in card.entry["modes"] else _capturing

        def lookup(receiver: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Found | None:
            # These would see, or record, that a tensor is asked for its facts.
            if _tracing() is not None:
                card.miss("tracing")
                return None
            if (_dispatch_modes() or _function_modes()) and _intercepted():
                card.miss("torch mode")
                return None
            try:
                values = bind(args, kwargs)
                if receiver is not None:
                    values += tuple([read(receiver) for read in readers])
                key = tuple([facts(value) for value in values])
                variant = find(key)
            except Unserved as outcome:
                card.miss(str(outcome))
                return None
            except RuntimeError:  # a tensor without strides, such as a sparse one
                card.miss("layout")
                return None
            except Exception:  # noqa: BLE001 - an attribute that is gone, a value that cannot be hashed, a property
                # of the user's that raises: the original meets the same, and raises if it minds
                card.miss("form")
                return None
            if variant is None:
                card.miss(explain(key))
                return None
            tensors = variant.pick(values)
            if _functorch_layer() is not None:
                card.miss("functorch")
            elif (_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)) or (
                forward_ad._current_level >= 0 and _dual(tensors)
            ):
                card.miss("grad")
            elif _autocast_enabled(device):
                card.miss("autocast")
            elif deterministic is not None and deterministic():
                card.miss("deterministic")
            elif _lazy(tensors, variant.complex):
                card.miss("lazy view")
            elif capturing is not None and capturing():
                card.miss("mode")
            else:
                return variant, tensors
            return None

        return lookup

    def run(self, variant: Variant, tensors: list[Any]) -> Any:
        """Call the kernel and build what the original would return."""
        card = self._card
        result = card.operator(*tensors, variant.index)
        card.hits += 1
        if variant.plain:
            return result
        return variant.result((result,) if variant.single else result)

    def _explain(self, key: tuple[Any, ...]) -> str:
        known = self._card.explained
        reason = known.get(key)
        if reason is None:
            differences = [list(_differences(("call", *variant), ("call", *key))) for variant in self._table]
            nearest = min(differences, key=len, default=["form"])
            reason = nearest[0] if nearest else "form"
            if len(known) >= _REMEMBERED_MISSES:
                known.clear()
            known[key] = reason
        return reason


def _differences(expected: tuple[Any, ...], got: tuple[Any, ...]) -> Iterator[str]:
    """The reasons why two facts differ, the plainest first."""
    if expected == got:
        return
    tensors = isinstance(expected[0], torch.dtype), isinstance(got[0], torch.dtype)
    if all(tensors):
        for reason, position in (("layout", 4), ("dtype", 0), ("device", 3), ("shape", 1), ("stride", 2)):
            if expected[position] != got[position]:
                yield reason
        return
    nested = any(tensors) or any(isinstance(item, tuple) for item in (*expected[1:], *got[1:]))
    if not nested:
        yield "constant"
    elif expected[0] != got[0] or len(expected) != len(got):
        yield "form"
    else:
        for one, two in zip(expected[1:], got[1:], strict=True):
            yield from _differences(one, two) if isinstance(one[0], (tuple, type, torch.dtype)) else ["form"]


def _dual(tensors: Any) -> bool:
    """Whether a tensor carries a forward-mode tangent, which `no_grad` does not stop and a kernel would drop."""
    return any(tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors)


def _lazy(tensors: Any, is_complex: bool) -> bool:
    """Whether a tensor's memory holds the negatives or conjugates of its values."""
    return any(tensor is not None and (tensor.is_neg() or (is_complex and tensor.is_conj())) for tensor in tensors)


def _intercepted() -> bool:
    """Whether a mode watches or changes torch's calls. A default device only concerns tensors that are made anew."""
    return _dispatch_modes() > 0 or any(
        not isinstance(mode, DeviceContext) for mode in _get_current_function_mode_stack()
    )


def _picker(steps: list[tuple[Any, ...] | None]) -> Callable[[Any], Any]:
    """How a variant's tensors are taken from the values of a call."""
    if all(path is not None and len(path) == 1 for path in steps):
        if len(steps) == 1:
            position = steps[0][0]
            return lambda values: (values[position],)
        return operator.itemgetter(*[path[0] for path in steps])
    return lambda values: [None if path is None else functools.reduce(operator.getitem, path, values) for path in steps]


def _reader(path: str, role: str, value: Any) -> Callable[[Any], Any]:
    """Reads `weight`, `net.0.weight` or `config.eps` from a module; parameters without nn.Module's slow lookup."""
    if role == "parameter" and "." not in path:

        def read_parameter(module: Any) -> Any:
            parameters = module._parameters
            return parameters[path] if path in parameters else getattr(module, path)

        return read_parameter
    read = operator.attrgetter(path)
    return (lambda module: _as_tuple(read(module))) if isinstance(value, list) else read


def _as_tuple(value: Any) -> Any:
    """The manifest keeps no difference between lists and tuples that a module holds."""
    return tuple([_as_tuple(item) for item in value]) if isinstance(value, (list, tuple)) else value
