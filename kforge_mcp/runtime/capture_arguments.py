"""The arguments of one call: what the operator is called with, as trees for eager and as names for a candidate."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .capture_constants import is_constant, read_constants
from .capture_names import c_name
from .capture_operators import Operator
from .tensors import NAMES
from .values import Tree, Unencodable, encode, every_tensor


class IneligibleError(Exception):
    """A call that no card can stand for; the message completes the sentence `not eligible: it ...`."""


@dataclass
class BoundCall:
    """A call in the encoding of `values.py`. The first `inputs` of `tensors` are passed, the rest are the module's."""

    args: list[Tree]
    kwargs: dict[str, Tree]
    parameters: dict[str, int]
    tensors: list[torch.Tensor]
    inputs: int
    function: str = ""
    """How a torch operator was spelled, as `module:qualname`."""
    autocast: str = ""
    """The dtype of automatic mixed precision around the call, if there was any."""
    named: list[tuple[str, str, Any]] | None = None
    """Its arguments by name, see `Operator.bind`; not kept once the call is over."""

    def release_inputs(self) -> None:
        """Let go of the activations, which would otherwise live as long as the capture."""
        self.tensors = self.tensors[self.inputs :]
        self.named = None

    @property
    def call(self) -> dict[str, Any]:
        """The record's `call`, without the module's pickle."""
        call: dict[str, Any] = {"args": self.args, "kwargs": self.kwargs, "parameters": self.parameters}
        extra = {"function": self.function, "autocast": self.autocast}
        return {**call, **{name: value for name, value in extra.items() if value}}


def bind_call(module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundCall:
    """Encode a call with the module's parameters and buffers. Raises `IneligibleError`."""
    tensors: list[torch.Tensor] = []
    arg_trees = [_encode(f"args[{index}]", value, tensors) for index, value in enumerate(args)]
    kwarg_trees = {name: _encode(name, value, tensors) for name, value in kwargs.items()}
    inputs = len(tensors)
    positions = {id(tensor): index for index, tensor in enumerate(tensors)}
    parameters = {}
    for name, tensor in _state(module):
        if id(tensor) not in positions:
            _encode(f"self.{name}", tensor, [])
            positions[id(tensor)] = len(tensors)
            tensors.append(tensor)
        parameters[name] = positions[id(tensor)]
    return BoundCall(arg_trees, kwarg_trees, parameters, tensors, inputs)


def bind_operator(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> BoundCall:
    """Encode a call of a torch operator. Raises `IneligibleError`."""
    bound = bind_call(None, args, kwargs)
    if not operator.path:
        raise IneligibleError("cannot be imported by a name, so it cannot be rerun elsewhere")
    bound.function, bound.named = operator.path, operator.bind(args, kwargs)
    if bound.named is None:
        raise IneligibleError("takes arguments that none of its signatures names")
    return bound


def containers(args: tuple[Any, ...], kwargs: dict[str, Any], bound: BoundCall) -> Any:
    """What lists, dictionaries and objects among the arguments hold now, as JSON over the tensors of `bound`.

    Equal to `(bound.args, bound.kwargs)` unless the call changed one. Raises `IneligibleError`.
    """
    tensors = list(bound.tensors)
    return (
        [_encode(f"args[{index}]", value, tensors) for index, value in enumerate(args)],
        {name: _encode(name, value, tensors) for name, value in kwargs.items()},
    )


def identity(bound: BoundCall) -> Any:
    """What makes two calls of a card one variant, beside the layouts of their tensors, as JSON."""
    if bound.named is None:
        return bound.call
    tensors = list(bound.tensors)
    return [[name, _encode(name, value, tensors)] for name, _, value in bound.named]


def _state(module: torch.nn.Module | None) -> Iterator[tuple[str, torch.Tensor]]:
    if module is not None:
        yield from module.named_parameters(remove_duplicate=False)
        yield from module.named_buffers(remove_duplicate=False)


def _encode(name: str, value: Any, tensors: list[torch.Tensor]) -> Tree:
    if isinstance(value, torch.nn.Module):
        raise IneligibleError(f"takes the module {type(value).__name__} itself as {name}; see that module's card")
    known = len(tensors)
    try:
        tree = encode(value, tensors)
    except Unencodable as error:
        raise IneligibleError(f"takes {error} as {name}") from error
    if any(map(is_lazy_view, tensors[known:])):
        raise IneligibleError(f"takes a conjugated or negated view as {name}, whose memory holds other values")
    return tree


def is_lazy_view(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements are the conjugates or negatives of what its memory holds."""
    return tensor.is_conj() or tensor.is_neg()


@functools.cache
def _signature(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def describe_arguments(
    subject: Any, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any], bound: BoundCall
) -> list[dict[str, Any]]:
    """The named arguments of a call in their order on the card. Raises `IneligibleError`.

    `subject` is the function or the module's class; a torch operator's arguments are named already. The result is
    the JSON of the control plane's `Argument`.
    """
    taken: set[str] = set()
    positions = {id(tensor): index for index, tensor in enumerate(bound.tensors)}
    arguments = [
        _argument(c_name(name, taken), "input", path, value, positions)
        for item in bound.named or _passed(subject, module, args, kwargs)
        for name, path, value in _parts(*item)
    ]
    buffers = {name for name, _ in module.named_buffers(remove_duplicate=False)} if module is not None else set()
    seen: set[int] = set()
    for path, index in bound.parameters.items():
        if index not in seen:
            seen.add(index)
            role = "buffer" if path in buffers else "parameter"
            name = c_name(path, taken)
            arguments.append({"name": name, "kind": "tensor", "role": role, "tensors": [index], "path": f"self.{path}"})
    absent = _absent_parameters(module)
    for path in absent:
        arguments.append({"name": c_name(path, taken), "kind": "none", "role": "parameter", "path": f"self.{path}"})
    for path, value in read_constants(module) if module is not None else ():
        arguments.append(_argument(c_name(path, taken), "constant", f"self.{path}", value, positions))
    return arguments


def _absent_parameters(module: torch.nn.Module | None) -> list[str]:
    """Parameters and buffers registered as None: absent optional tensors, such as the bias of a linear layer."""
    if module is None:
        return []
    return [
        f"{prefix}.{name}" if prefix else name
        for prefix, part in module.named_modules()
        for name, value in [*part._parameters.items(), *part._buffers.items()]
        if value is None
    ]


def _passed(
    subject: Any, module: torch.nn.Module | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """`(name, path, value)` of every parameter of the signature, defaults filled in, `**kwargs` spread out."""
    first = () if module is None else (module,)
    try:
        signature = _signature(subject if module is None else subject.forward)
        given = signature.bind(*first, *args, **kwargs)
    except (TypeError, ValueError) as error:
        raise IneligibleError(f"has arguments that do not fit its signature ({error})") from error
    explicit = set(given.arguments)
    given.apply_defaults()
    position = -len(first)
    for name, parameter in signature.parameters.items():
        value = given.arguments[name]
        if position >= 0:
            if parameter.kind is parameter.VAR_KEYWORD:
                yield from ((key, f"kwargs.{key}", item) for key, item in value.items())
            elif parameter.kind is parameter.VAR_POSITIONAL:
                if value:
                    yield name, f"args[{position}:]", value
            elif name not in explicit:
                yield name, f"default.{name}", value
            elif name in kwargs:
                yield name, f"kwargs.{name}", value
            else:
                yield name, f"args[{position}]", value
        position += 1


def _parts(name: str, path: str, value: Any) -> Iterator[tuple[str, str, Any]]:
    """The value itself, or where it mixes tensors with other things (`x[:, index]`) its parts: `key_0`, `key_1`."""
    is_tuple = isinstance(value, (list, tuple)) and bool(value) and not is_constant(value)
    if is_tuple and not all(isinstance(item, torch.Tensor) for item in value):
        for index, item in enumerate(value):
            yield from _parts(f"{name}_{index}", f"{path}[{index}]", item)
    else:
        yield name, path, value


def _argument(name: str, role: str, path: str, value: Any, positions: dict[int, int]) -> dict[str, Any]:
    base = {"name": name, "role": role, "path": path}
    if value is None:
        return {**base, "kind": "none"}
    unknown = [tensor for tensor in every_tensor(value, most=100) if id(tensor) not in positions]
    if unknown and path.startswith("default."):
        raise IneligibleError(f"reads the tensor {name}, the default of a parameter, without being given it")
    if isinstance(value, torch.Tensor):
        return {**base, "kind": "tensor", "tensors": [positions[id(value)]]}
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, torch.Tensor) for item in value):
        return {**base, "kind": "tensors", "tensors": [positions[id(item)] for item in value]}
    if isinstance(value, (list, tuple)) and (not value or is_constant(value)):
        return {**base, "kind": "constant", "role": "constant", "value": [_said(item) for item in value]}
    if isinstance(value, torch.dtype) and value in NAMES:
        return {**base, "kind": "constant", "role": "constant", "value": NAMES[value]}
    if isinstance(value, (torch.device, torch.memory_format, torch.layout)):
        return {**base, "kind": "constant", "role": "constant", "value": str(value).removeprefix("torch.")}
    if is_constant(value):
        return {**base, "kind": "constant", "role": "constant", "value": _said(value)}
    if value is Ellipsis:
        return {**base, "kind": "constant", "role": "constant", "value": "..."}
    if isinstance(value, slice) and not any(isinstance(bound, torch.Tensor) for bound in _bounds(value)):
        return {**base, "kind": "constant", "role": "constant", "value": _written_slice(value)}
    raise IneligibleError(f"takes {name} as a {type(value).__name__} whose parts have no names of their own")


def _bounds(value: slice) -> tuple[Any, Any, Any]:
    return value.start, value.stop, value.step


def _written_slice(value: slice) -> str:
    """A slice as Python writes it: `1:`, `:-1`, `::2`."""
    start, stop, step = ("" if bound is None else str(bound) for bound in _bounds(value))
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def _said(value: Any) -> Any:
    """A constant as JSON can say it: an infinity or NaN by its name, which size expressions can compare."""
    return str(value) if isinstance(value, float) and value - value != 0.0 else value
