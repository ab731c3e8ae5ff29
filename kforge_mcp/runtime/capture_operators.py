"""Torch operators: one name for all spellings, and names for the arguments of each.

`x.softmax(-1)`, `torch.softmax(x, -1)` and `torch.nn.functional.softmax(x, -1)` are one operator. It is named
`torch.nn.functional.x` where that exists, else `torch.x`, else `torch.Tensor.x`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .capture_schemas import MISSING, Parameter, Schema, fit, schemas_of

_NAMESPACES = ("torch.nn.functional", "torch", "torch.special", "torch.linalg", "torch.fft", "torch._C._nn")
_KEPT = ("torch.special", "torch.linalg", "torch.fft")
"""Namespaces whose operators are named by them: `torch.fft.fft` is no other operator than that."""
_ALIASES = {
    "__add__": "add", "__radd__": "add", "__iadd__": "add_", "__sub__": "sub", "__isub__": "sub_", "__rsub__": "rsub",
    "__mul__": "mul", "__rmul__": "mul", "__imul__": "mul_", "__truediv__": "div", "__div__": "div",
    "__itruediv__": "div_", "__idiv__": "div_", "__floordiv__": "floor_divide", "__mod__": "remainder",
    "__matmul__": "matmul", "__pow__": "pow", "__ipow__": "pow_", "__neg__": "neg", "__pos__": "positive",
    "__abs__": "abs", "__invert__": "bitwise_not", "__and__": "bitwise_and", "__iand__": "bitwise_and_",
    "__or__": "bitwise_or", "__ior__": "bitwise_or_", "__xor__": "bitwise_xor", "__ixor__": "bitwise_xor_",
    "__lshift__": "bitwise_left_shift", "__rshift__": "bitwise_right_shift", "__eq__": "eq", "__ne__": "ne",
    "__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge", "divide": "div", "true_divide": "div",
    "divide_": "div_", "true_divide_": "div_", "multiply": "mul", "multiply_": "mul_", "subtract": "sub",
    "subtract_": "sub_", "negative": "neg", "absolute": "abs", "greater": "gt", "greater_equal": "ge", "less": "lt",
    "less_equal": "le", "not_equal": "ne", "concat": "cat", "concatenate": "cat", "clip": "clamp", "clip_": "clamp_",
    "swapaxes": "transpose", "swapdims": "transpose", "moveaxis": "movedim",
}  # fmt: skip
_QUESTIONS = """__get__ __set__ __delete__ __len__ __repr__ __format__ __hash__ __bool__ __dir__ __reduce_ex__
    __deepcopy__ size dim ndimension numel nelement stride storage_offset element_size data_ptr untyped_storage
    storage get_device
    is_contiguous is_floating_point is_complex is_signed is_pinned is_inference is_same_size is_set_to is_shared
    is_tensor is_storage is_nonzero requires_grad_ retain_grad has_names dense_dim sparse_dim _is_view type_as_
    _make_subclass as_subclass register_hook numpy tolist item"""
_FACTS = frozenset(_QUESTIONS.split())
"""Questions about a tensor, not operators on it."""
_HIDDEN = frozenset(("_stacklevel", "cudnn_enable", "cudnn_enabled"))
_UNSAID = frozenset(("memory_format", "implicit", "out", "pin_memory", "layout"))
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}


@dataclass(frozen=True, eq=False)
class Operator:
    """A torch callable as the workload spelled it.

    `name` is the operator's, equal for all spellings, `home` its `module:qualname`; `path` is the `module:qualname`
    of this spelling, empty if it cannot be imported. `schemas` are tried in order.
    """

    name: str
    home: str
    path: str
    function: Any
    schemas: tuple[Schema, ...]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[tuple[str, str, Any]] | None:
        """`(name, path, value)` of every argument, defaults filled in; None if no schema takes them."""
        for schema in self.schemas:
            named = {k if k in schema.names else _NUMPY_NAMES.get(k, k): value for k, value in kwargs.items()}
            bound = fit(schema, args, named)
            if bound is not None:
                return [item for item in bound if not _is_hidden(*item)]
        return None


def _is_hidden(name: str, path: str, value: Any) -> bool:
    """Whether an argument says nothing about the result, or what its absence says too."""
    if name in _UNSAID and path == f"default.{name}":
        return True
    return name in _HIDDEN or (name == "inplace" and value is False)


def is_watched(args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> bool:
    """Whether a call of a torch function takes a tensor, itself or in a list."""
    return any(_holds_tensor(value) for value in (*args, *(kwargs or {}).values()))


def _holds_tensor(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(isinstance(item, torch.Tensor) for item in value)
    return isinstance(value, torch.Tensor)


@functools.cache
def operator_of(function: Any) -> Operator | None:
    """The operator that a function handed to a `TorchFunctionMode` is; None for questions about a tensor."""
    base = _base_name(function)
    if base in _FACTS:
        return None
    path = _path(function)
    schemas = _schemas(function, base)
    home = _home(function, base, path, schemas)
    return Operator(home.replace(":", "."), home, path, function, schemas)


def _base_name(function: Any) -> str:
    if isinstance(function, torch._ops.OpOverload):
        return function._schema.name.partition("::")[2]
    return getattr(function, "__name__", type(function).__name__)


def _namespace(function: Any) -> str:
    """`aten` or the library's name for `torch.ops.x.y`, else an empty string."""
    if isinstance(function, torch._ops.OpOverload):
        return function.namespace
    if isinstance(function, torch._ops.OpOverloadPacket):
        return function._qualified_op_name.partition("::")[0]
    return ""


@functools.cache
def _spellings() -> dict[Any, str]:
    found: dict[Any, str] = {}
    for namespace in _NAMESPACES:
        for name, value in list(vars(importlib.import_module(namespace)).items()):
            if callable(value) and not isinstance(value, type):
                _note(found, value, f"{namespace}:{name}")
    for name in dir(torch.Tensor):
        _note(found, inspect.getattr_static(torch.Tensor, name, None), f"torch:Tensor.{name}")
        _note(found, getattr(torch.Tensor, name, None), f"torch:Tensor.{name}")
    return found


def _note(found: dict[Any, str], value: Any, path: str) -> None:
    try:
        found.setdefault(value, path)
    except TypeError:
        return


def _path(function: Any) -> str:
    namespace = _namespace(function)
    if isinstance(function, torch._ops.OpOverload):
        return f"torch:ops.{namespace}.{_base_name(function)}.{function._overloadname}"
    if namespace:
        return f"torch:ops.{namespace}.{_base_name(function)}"
    return _spellings().get(function, "") or _by_qualified_name(function)


def _by_qualified_name(function: Any) -> str:
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    try:
        value: Any = importlib.import_module(module or "")
        for part in qualname.split("."):
            value = getattr(value, part)
    except (ImportError, AttributeError, ValueError):
        return ""
    return f"{module}:{qualname}" if value is function else ""


def _home(function: Any, base: str, path: str, schemas: tuple[Schema, ...]) -> str:
    namespace = _namespace(function)
    if namespace not in ("", "aten"):
        return f"torch:ops.{namespace}.{base}"
    module = path.partition(":")[0]
    plain = _ALIASES.get(base, base)
    if module in _KEPT:
        plain = base.removeprefix("special_")
        if module != "torch.special" or not hasattr(torch, plain):
            return path
    if module == "torch.nn.functional":
        return path
    if _is_functional(plain, schemas):
        return f"torch.nn.functional:{plain}"
    if callable(getattr(torch, plain, None)) and not isinstance(getattr(torch, plain), type):
        return f"torch:{plain}"
    if hasattr(torch.Tensor, plain):
        return f"torch:Tensor.{plain}"
    return path or f"{getattr(function, '__module__', 'torch')}:{getattr(function, '__qualname__', base)}"


def _is_functional(name: str, schemas: tuple[Schema, ...]) -> bool:
    """Whether `torch.nn.functional` has this operator: `Tensor.unfold` and `functional.unfold` are two."""
    function = getattr(torch.nn.functional, name, None)
    if not callable(function) or isinstance(function, type):
        return False
    theirs = _schemas(function, name)
    return any(_agrees(own, other) for own in schemas for other in theirs)


def _agrees(own: Schema, other: Schema) -> bool:
    required = [item.name for item in own.parameters if item.default is MISSING]
    first = [item.name for item in other.parameters][:1]
    return set(required) <= other.names and first == [item.name for item in own.parameters][:1]


def _schemas(function: Any, base: str) -> tuple[Schema, ...]:
    namespace = _namespace(function)
    if isinstance(function, torch._ops.OpOverload):
        return tuple(schemas_of([function._schema]))
    if namespace:
        return tuple(schemas_of([getattr(function, name)._schema for name in function.overloads()]))
    written = _written(function)
    if written is not None:
        return (written,)
    native = schemas_of(torch._C._jit_get_schemas_for_operator(f"aten::{_ALIASES.get(base, base)}"))
    override = _overrides().get(function)
    stated = None if override is None else _written(override)
    return (*native, *(() if stated is None else (stated,)))


@functools.cache
def _overrides() -> dict[Any, Callable[..., Any]]:
    return torch.overrides.get_testing_overrides()


def _written(function: Any) -> Schema | None:
    """The signature of a Python function, unless it is `(*args, **kwargs)`."""
    if function is torch.einsum:
        return Schema((Parameter("equation"), Parameter("operands", is_variadic=True)))
    try:
        signature = inspect.signature(inspect.unwrap(function))
    except (TypeError, ValueError):
        return None
    parameters = list(_parameters(signature))
    if not inspect.isfunction(function) or any(item.is_variadic for item in parameters):
        return None
    return Schema(tuple(parameters))


def _parameters(signature: inspect.Signature) -> Iterator[Parameter]:
    for position, item in enumerate(signature.parameters.values()):
        if item.kind is item.VAR_KEYWORD and len(signature.parameters) > 2:
            continue
        name = "input" if position == 0 and item.name in ("self", "tensor", "x") else item.name
        yield Parameter(
            name,
            default=MISSING if item.default is item.empty else item.default,
            keyword_only=item.kind is item.KEYWORD_ONLY,
            is_variadic=item.kind in (item.VAR_POSITIONAL, item.VAR_KEYWORD),
        )
