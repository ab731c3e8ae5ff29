"""Calls that deviate from the captured ones, with the reason that has to be counted; runs in the model interpreter.

The kernels serve `norm(x)`, `scaled_pair(first, second, 2.0)` with fp32 tensors of 1 x 64 x 256, and `doubled(values)`
with one of 8 x 16.
"""

from __future__ import annotations

import contextlib
import decimal
import fractions
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import tiny_model
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

_with = mock.patch.dict
SHAPE = (1, 64, 256)
DTYPES = [
    torch.float64, torch.float16, torch.bfloat16, torch.complex32, torch.complex64, torch.complex128, torch.bool,
    torch.uint8, torch.uint16, torch.uint32, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float8_e4m3fn, torch.float8_e5m2,
]  # fmt: skip

Call = Callable[[], Any]


@dataclass
class Deviation:
    """`call` under `context` deviates for `reason` in one call of `card`."""

    name: str
    card: str
    reason: str
    call: Call
    context: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


class Tagged(torch.Tensor):
    """A subclass without behaviour."""


class Count(int):
    """A subclass of a constant's type."""


class Real(float):
    """A subclass of a constant's type."""


class Doubling:
    """An object that multiplies itself."""

    def __rmul__(self, other: Any) -> Any:
        return other * 2


class Watching(TorchDispatchMode):
    """Sees every operator."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


class Changing(TorchFunctionMode):
    """Makes other numbers of additions."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.add, torch.Tensor.add, torch.Tensor.mul) else result


def groups(model: Any) -> dict[str, list[Deviation]]:
    """All deviations, by what deviates. `model` is the tiny model."""
    norm = model.norms[0]
    y = torch.randn(SHAPE)
    return {
        "dtype": [*_tensors(norm, y, _dtypes(y), "dtype"), *_weights(norm, y)],
        "rank": _tensors(norm, y, _ranks(), "shape"),
        "shape": _tensors(norm, y, _shapes(), "shape"),
        "stride": _tensors(norm, y, _strides(y), "stride"),
        "kind": _kinds(norm, y),
        "constant": _constants(y),
        "state": _states(norm, y),
        "form": _forms(norm, y),
        "context": _contexts(norm, y),
        "lazy": _lazy(norm, y),
    }


def _norm(norm: Any, x: Any) -> Call:
    return lambda: norm(x)


def _pair(*args: Any, **kwargs: Any) -> Call:
    return lambda: tiny_model.scaled_pair(*args, **kwargs)


def _tensors(norm: Any, y: torch.Tensor, made: dict[str, torch.Tensor], reason: str) -> list[Deviation]:
    """Each deviating tensor in the place of every input in turn."""
    found = []
    for name, tensor in made.items():
        found += [
            Deviation(f"norm({name})", "TinyNorm", reason, _norm(norm, tensor)),
            Deviation(f"pair({name}, y)", "scaled_pair", reason, _pair(tensor, y)),
            Deviation(f"pair(y, {name})", "scaled_pair", reason, _pair(y, tensor)),
            Deviation(f"pair(second={name})", "scaled_pair", reason, _pair(second=tensor, first=y, scale=2.0)),
        ]
    return found


def _dtypes(y: torch.Tensor) -> dict[str, torch.Tensor]:
    return {str(dtype): y.to(dtype) for dtype in DTYPES}


def _ranks() -> dict[str, torch.Tensor]:
    shapes = [(), (256,), (64, 256), (1, 1, 64, 256), (1, 1, 1, 64, 256), (16384,)]
    return {f"rank {len(shape)}, {shape}": torch.randn(shape) for shape in shapes}


def _shapes() -> dict[str, torch.Tensor]:
    shapes = [
        (2, 64, 256), (0, 64, 256), (1, 63, 256), (1, 65, 256), (1, 1, 256), (1, 0, 256), (1, 64, 255), (1, 64, 257),
        (1, 64, 1), (1, 64, 0), (64, 1, 256), (1, 256, 64), (1, 128, 256),
    ]  # fmt: skip
    return {str(shape): torch.randn(shape) for shape in shapes}


def _strides(y: torch.Tensor) -> dict[str, torch.Tensor]:
    wide = torch.randn(1, 128, 512)
    return {
        "transposed": torch.randn(1, 256, 64).transpose(1, 2),
        "every second row": wide[:, ::2, :256],
        "every second column": wide[:, :64, ::2],
        "a slice of wider rows": wide[:, :64, 128:384],
        "one row repeated": torch.randn(1, 1, 256).expand(SHAPE),
        "one column repeated": torch.randn(1, 64, 1).expand(SHAPE),
        "one number repeated": torch.randn(1, 1, 1).expand(SHAPE),
        "another stride of the single batch": y.as_strided(SHAPE, (1, 256, 1)),
        "no stride of the single batch": y.as_strided(SHAPE, (0, 256, 1)),
        "overlapping windows": torch.randn(1000).as_strided(SHAPE, (16384, 1, 1)),
        "a real part": torch.randn(SHAPE, dtype=torch.complex64).real,
    }


def _weights(norm: Any, y: torch.Tensor) -> list[Deviation]:
    def weight(name: str, made: torch.Tensor, reason: str) -> Deviation:
        parameter = torch.nn.Parameter(made, requires_grad=False)
        return Deviation(name, "TinyNorm", reason, _norm(norm, y), lambda: _with(norm._parameters, weight=parameter))

    ones = torch.ones(256)
    return [
        *[weight(f"weight {dtype}", ones.to(dtype), "dtype") for dtype in DTYPES],
        weight("weight of one row", ones[None], "shape"),
        weight("weight of one number", torch.ones(1), "shape"),
        weight("weight without dimensions", torch.tensor(1.0), "shape"),
        weight("weight with gaps", torch.ones(512)[::2], "stride"),
        weight("weight repeated", torch.ones(1).expand(256), "stride"),
        weight("weight on meta", ones.to("meta"), "device"),
    ]


def _kinds(norm: Any, y: torch.Tensor) -> list[Deviation]:
    fake = FakeTensorMode(allow_non_fake_inputs=True)
    subclasses = {
        "subclass": Tagged(y),
        "parameter of a subclass": torch.nn.Parameter(Tagged(y), requires_grad=False),
        "two tensors": TwoTensor(y, y.clone()),
        "fake": fake.from_tensor(y),
        "jagged": torch.nested.nested_tensor([y[0, :3], y[0, :5]], layout=torch.jagged),
        "uninitialised": torch.nn.UninitializedParameter(),
        "masked": torch.masked.masked_tensor(y, y > 0),
    }
    layouts = {
        "coo": y.to_sparse(),
        "csr": y[0].to_sparse_csr(),
        "bsr": y[0].to_sparse_bsr((8, 8)),
        "mkldnn": y.to_mkldnn(),
        "nested": torch.nested.nested_tensor([y[0, :3], y[0, :5]]),
    }
    quantised = {"quantised": torch.quantize_per_tensor(y, 0.1, 0, torch.qint8)}
    return [
        *_tensors(norm, y, subclasses, "subclass"),
        *_tensors(norm, y, layouts, "layout"),
        *_tensors(norm, y, quantised, "dtype"),
        *_tensors(norm, y, {"meta": y.to("meta")}, "device"),
    ]


def _constants(y: torch.Tensor) -> list[Deviation]:
    values: list[tuple[Any, str]] = [
        (3.0, "constant"), (-2.0, "constant"), (0.0, "constant"), (-0.0, "constant"), (float("inf"), "constant"),
        (float("nan"), "constant"), (2.0000000000000004, "constant"), (2, "constant"), (True, "constant"),
        (False, "constant"), (None, "constant"), ("2.0", "constant"), (b"2", "argument type"),
        (2 + 0j, "argument type"),
        ([2.0], "form"), ((2.0,), "form"), ([], "constant"), ({}, "constant"), ({"scale": 2.0}, "form"),
        (torch.tensor(2.0), "form"),
        (torch.tensor([2.0]), "form"), (torch.tensor(2), "form"), (Real(2.0), "argument type"),
        (Count(2), "argument type"), (decimal.Decimal(2), "argument type"), (fractions.Fraction(2), "argument type"),
        (torch.float32, "constant"), (slice(2), "form"), (..., "constant"), (Doubling(), "argument type"),
        (Doubling, "argument type"), (Tagged(torch.tensor(2.0)), "subclass"), ({2.0}, "argument type"),
        (range(2), "argument type"), (torch.device("cpu"), "constant"), (torch.Size([2]), "form"),
    ]  # fmt: skip
    found = []
    for value, reason in values:
        text = f"{type(value).__name__} {value!r}"
        found += [
            Deviation(f"scale {text}", "scaled_pair", reason, _pair(y, y, value)),
            Deviation(f"scale={text}", "scaled_pair", reason, _pair(y, y, scale=value)),
        ]
    return found


def _states(norm: Any, y: torch.Tensor) -> list[Deviation]:
    values: list[tuple[Any, str]] = [
        (1e-5, "constant"), (0.0, "constant"), (-1e-6, "constant"), (0, "constant"), (True, "constant"),
        (None, "constant"), ("1e-6", "constant"), (torch.tensor(1e-6), "form"), (Real(1e-6), "argument type"),
        ([1e-6], "form"), (float("nan"), "constant"), (Doubling(), "argument type"),
    ]  # fmt: skip
    found = [
        Deviation(
            f"eps {value!r}",
            "TinyNorm",
            reason,
            _norm(norm, y),
            lambda value=value: _with(vars(norm), eps=value),
        )
        for value, reason in values
    ]
    weights: list[tuple[Any, str]] = [(None, "form"), (torch.nn.Parameter(Tagged(torch.ones(256))), "subclass")]
    found += [
        Deviation(
            f"weight {type(w)}", "TinyNorm", reason, _norm(norm, y), lambda w=w: _with(norm._parameters, weight=w)
        )
        for w, reason in weights
    ]
    found.append(Deviation("no eps", "TinyNorm", "form", _norm(norm, y), lambda: _without(norm.__dict__, "eps")))
    found.append(
        Deviation("no weight", "TinyNorm", "form", _norm(norm, y), lambda: _without(norm._parameters, "weight"))
    )
    return found


def _forms(norm: Any, y: torch.Tensor) -> list[Deviation]:
    pairs: dict[str, tuple[tuple[Any, ...], dict[str, Any], str]] = {
        "nothing": ((), {}, "form"),
        "one": ((y,), {}, "form"),
        "too many": ((y, y, 2.0, 2.0), {}, "form"),
        "an unknown name": ((y, y), {"factor": 2.0}, "form"),
        "a name twice": ((y, y), {"second": y}, "form"),
        "the first by name only": ((), {"first": y}, "form"),
        "a number first": ((1.5, y), {}, "form"),
        "a number second": ((y, 1.5), {}, "form"),
        "None first": ((None, y), {}, "form"),
        "None second": ((y, None), {}, "form"),
        "a list of tensors": (([y], y), {}, "form"),
        "a tuple of tensors": ((y, (y,)), {}, "form"),
        "a dictionary of tensors": (({"first": y}, y), {}, "form"),
        "an object": ((Doubling(), y), {}, "argument type"),
        "a generator": ((y, iter([y])), {}, "argument type"),
    }
    found = [
        Deviation(f"pair with {name}", "scaled_pair", reason, _pair(*args, **kwargs))
        for name, (args, kwargs, reason) in pairs.items()
    ]
    norms: dict[str, tuple[Call, str]] = {
        "nothing": (lambda: norm(), "form"),
        "two": (lambda: norm(y, y), "form"),
        "an unknown name": (lambda: norm(x=y), "form"),
        "None": (lambda: norm(None), "form"),
        "a number": (lambda: norm(1.0), "form"),
        "a text": (lambda: norm("y"), "form"),
        "a list": (lambda: norm([y]), "form"),
        "an object": (lambda: norm(Doubling()), "argument type"),
    }
    return found + [Deviation(f"norm with {name}", "TinyNorm", *reversed(item)) for name, item in norms.items()]


def _contexts(norm: Any, y: torch.Tensor) -> list[Deviation]:
    leaf = y.clone().requires_grad_()
    found = []
    for card, call, with_leaf in (
        ("TinyNorm", _norm(norm, y), _norm(norm, leaf)),
        ("scaled_pair", _pair(y, y), _pair(leaf, y)),
    ):
        found += [
            Deviation(f"{card}: a leaf under grad", card, "grad", with_leaf, torch.enable_grad),
            Deviation(f"{card}: autocast", card, "autocast", call, lambda: torch.autocast("cpu", torch.bfloat16)),
            Deviation(
                f"{card}: autocast to fp16", card, "autocast", call, lambda: torch.autocast("cpu", torch.float16)
            ),
            Deviation(f"{card}: a dispatch mode", card, "torch mode", call, Watching),
            Deviation(f"{card}: counting operations", card, "torch mode", call, lambda: FlopCounterMode(display=False)),
            Deviation(
                f"{card}: fake mode", card, "torch mode", call, lambda: FakeTensorMode(allow_non_fake_inputs=True)
            ),
            Deviation(f"{card}: strict fake mode", card, "torch mode", call, FakeTensorMode),
            Deviation(f"{card}: a function mode", card, "torch mode", call, Changing),
        ]
    first = tiny_model.scaled_pair
    functions: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "TinyNorm": ("TinyNorm", lambda value: norm(value)),
        "scaled_pair": ("scaled_pair", lambda value: tiny_model.scaled_pair(value, y)[1]),
        "scaled_pair's second": ("scaled_pair", lambda value: tiny_model.scaled_pair(y, value)[1]),
    }
    assert first is tiny_model.scaled_pair
    for name, (card, function) in functions.items():
        found += [
            Deviation(f"{name}: {what}", card, reason, _transformed(transform, function, y))
            for what, (reason, transform) in TRANSFORMS.items()
        ]
    return found


def _transformed(transform: Callable[[Any, torch.Tensor], Any], function: Any, y: torch.Tensor) -> Call:
    return lambda: transform(function, y)


def _traced(function: Any, y: torch.Tensor) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(function, (y,), check_trace=False)(y)


def _dual(function: Any, y: torch.Tensor) -> Any:
    with forward_ad.dual_level():
        return tuple(forward_ad.unpack_dual(function(forward_ad.make_dual(y, torch.ones_like(y)))))


TRANSFORMS: dict[str, tuple[str, Callable[[Any, torch.Tensor], Any]]] = {
    "vmap": ("functorch", lambda f, y: torch.vmap(f)(torch.stack([y, y + 1]))),
    "vmap within vmap": ("functorch", lambda f, y: torch.vmap(torch.vmap(f))(torch.stack([y, y + 1])[None])),
    "functorch's grad": ("functorch", lambda f, y: torch.func.grad(lambda x: f(x).sum())(y)),
    "vjp": ("functorch", lambda f, y: torch.func.vjp(f, y)[0]),
    "jvp": ("functorch", lambda f, y: torch.func.jvp(f, (y,), (torch.ones_like(y),))),
    "functionalize": ("functorch", lambda f, y: torch.func.functionalize(f)(y)),
    "forward-mode tangents": ("grad", _dual),
    "tracing": ("tracing", _traced),
}


def _lazy(norm: Any, y: torch.Tensor) -> list[Deviation]:
    z = torch.randn(8, 16)
    return [
        *_tensors(norm, y, {"negative": torch._neg_view(y)}, "lazy view"),
        Deviation("no order", "doubled", "deterministic", lambda: tiny_model.doubled(z), _deterministic),
    ]


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


@contextlib.contextmanager
def _without(holder: dict[str, Any], name: str) -> Iterator[None]:
    before = holder.pop(name)
    try:
        yield
    finally:
        holder[name] = before


def outcome(deviation: Deviation) -> Any:
    """What the call gives: its result, or the type of its error."""
    with deviation.context():
        try:
            return deviation.call()
        except Exception as error:  # noqa: BLE001 - whatever the original raises
            return type(error)


def same(one: Any, two: Any) -> bool:
    """Whether two outcomes are of one kind and equal bit for bit."""
    if type(one) is not type(two):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(two) and all(map(same, one, two))
    if not isinstance(one, torch.Tensor):
        return one is two or one == two
    return _tensor_facts(one) == _tensor_facts(two) and _bits(one) == _bits(two)


def _tensor_facts(tensor: Any) -> Any:
    strides = tensor.stride() if tensor.layout is torch.strided and not tensor.is_nested else None
    shape = None if tensor.is_nested else tensor.shape
    return tensor.dtype, shape, strides, tensor.device, tensor.layout, tensor.requires_grad, tensor.is_neg()


def _bits(tensor: Any) -> Any:
    tensor = tensor.detach()
    if tensor.is_nested:
        return [_bits(part) for part in tensor.unbind()]
    if tensor.is_meta or type(tensor).__name__ == "FakeTensor":
        return None
    if isinstance(tensor, TwoTensor):
        return [_bits(tensor.a), _bits(tensor.b)]
    if type(tensor).__name__ == "MaskedTensor":
        return [_bits(tensor.get_data() * 1), _bits(tensor.get_mask())]
    if tensor.is_quantized:
        return _bits(tensor.int_repr())
    if tensor.layout is not torch.strided:
        return _bits(tensor.to_dense())
    plain = tensor.as_subclass(torch.Tensor).resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().tobytes()


def check(package: Any, model: Any, deviations: list[Deviation]) -> list[str]:
    """Run every deviation without and with the package; the complaints."""
    expected = [outcome(deviation) for deviation in deviations]
    package.attach(model)
    complaints = []
    for deviation, original in zip(deviations, expected, strict=True):
        before = package.stats()[deviation.card]
        with package.enabled():
            got = outcome(deviation)
        after = package.stats()[deviation.card]
        new = {reason: count - before["misses"].get(reason, 0) for reason, count in after["misses"].items()}
        new = {reason: count for reason, count in new.items() if count}
        if not same(got, original):
            complaints.append(f"{deviation.name}: another result")
        if after["hits"] != before["hits"] or new != {deviation.reason: 1}:
            hits = after["hits"] - before["hits"]
            complaints.append(f"{deviation.name}: counted {new} and {hits} hits, not {deviation.reason}")
    return complaints
