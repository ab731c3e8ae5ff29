"""What each allow-listed operator returns for its arguments: dtypes and shapes, without torch.

The rules are those of torch's meta device, against which tests hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kforge_mcp.candidate.evaluation import TensorValue

Operand = TensorValue | int | float | bool | tuple[int, ...] | None
Operands = Mapping[str, Operand]
Result = tuple[str, tuple[int, ...]]
"""Dtype and shape."""

_MATRIX_DTYPES = ("fp32", "fp64", "fp16", "bf16", "complex64")
_ORDERED_DTYPES = ("fp32", "fp64", "fp16", "bf16", "int64", "int32", "int16", "int8", "uint8")


@dataclass(frozen=True)
class Unfit(Exception):
    """Arguments that an operator would refuse; `parameter` is the one to blame."""

    parameter: str
    message: str


def linear(given: Operands) -> list[Result]:
    """`input @ weight.T + bias`."""
    x, weight = _tensor(given, "input"), _tensor(given, "weight")
    _same_dtype(given, "input", ("weight", "bias"))
    _rank("weight", weight, 2)
    if x.ndim < 1 or x.shape[-1] != weight.shape[1]:
        raise Unfit("weight", f"weight {_shape(weight)} needs an input with {weight.shape[1]} columns, not {_shape(x)}")
    bias = given.get("bias")
    if isinstance(bias, TensorValue) and bias.shape != weight.shape[:1]:
        raise Unfit("bias", f"a bias of shape [{weight.shape[0]}] is needed, not {_shape(bias)}")
    return [(x.dtype, (*x.shape[:-1], weight.shape[0]))]


def matmul(given: Operands) -> list[Result]:
    """The matrix product with vectors, matrices and broadcast batches, as `torch.matmul`."""
    left, right = _tensor(given, "input"), _tensor(given, "other")
    _same_dtype(given, "input", ("other",))
    for name, one in (("input", left), ("other", right)):
        if one.ndim == 0:
            raise Unfit(name, "a tensor with at least one dimension is needed")
    a = left.shape if left.ndim > 1 else (1, *left.shape)
    b = right.shape if right.ndim > 1 else (*right.shape, 1)
    if a[-1] != b[-2]:
        raise Unfit("other", f"{_shape(left)} and {_shape(right)} cannot be multiplied: {a[-1]} and {b[-2]} differ")
    batch = _broadcast("other", a[:-2], b[:-2])
    rows = a[-2:-1] if left.ndim > 1 else ()
    columns = b[-1:] if right.ndim > 1 else ()
    return [(left.dtype, (*batch, *rows, *columns))]


def bmm(given: Operands) -> list[Result]:
    """A batch of matrix products, without broadcasting."""
    left, right = _tensor(given, "input"), _tensor(given, "mat2")
    _same_dtype(given, "input", ("mat2",))
    _rank("input", left, 3)
    _rank("mat2", right, 3)
    if left.shape[0] != right.shape[0] or left.shape[2] != right.shape[1]:
        raise Unfit("mat2", f"{_shape(left)} and {_shape(right)} are no batches that can be multiplied")
    return [(left.dtype, (*left.shape[:2], right.shape[2]))]


def addmm(given: Operands) -> list[Result]:
    """`beta * input + alpha * (mat1 @ mat2)`."""
    left, right = _tensor(given, "mat1"), _tensor(given, "mat2")
    _same_dtype(given, "input", ("mat1", "mat2"))
    _rank("mat1", left, 2)
    _rank("mat2", right, 2)
    if left.shape[1] != right.shape[0]:
        raise Unfit("mat2", f"{_shape(left)} and {_shape(right)} cannot be multiplied")
    shape = (left.shape[0], right.shape[1])
    added = _tensor(given, "input")
    if added.ndim > 2 or not _expands(added.shape, shape):
        raise Unfit("input", f"{_shape(added)} does not expand to {list(shape)}")
    return [(left.dtype, shape)]


def convolution(given: Operands) -> list[Result]:
    """A convolution over one to three spatial dimensions, plain or transposed."""
    x, weight = _tensor(given, "input"), _tensor(given, "weight")
    _same_dtype(given, "input", ("weight", "bias"))
    if weight.ndim not in (3, 4, 5):
        raise Unfit("weight", f"a weight of 3 to 5 dimensions is needed, not {_shape(weight)}")
    _rank("input", x, weight.ndim)
    spatial = weight.ndim - 2
    stride = _integers(given, "stride", spatial, 1)
    padding = _integers(given, "padding", spatial, 0)
    dilation = _integers(given, "dilation", spatial, 1)
    extra = _integers(given, "output_padding", spatial, 0)
    groups, transposed = given["groups"], given["transposed"]
    assert isinstance(groups, int)
    if groups < 1 or x.shape[1] % groups or weight.shape[0] % groups:
        raise Unfit("groups", f"{groups} groups do not divide {x.shape[1]} input and {weight.shape[0]} weight channels")
    expected = weight.shape[0] if transposed else weight.shape[1] * groups
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    if x.shape[1] != expected:
        raise Unfit("weight", f"weight {_shape(weight)} needs an input of {expected} channels, not {_shape(x)}")
    bias = given.get("bias")
    if isinstance(bias, TensorValue) and bias.shape != (channels,):
        raise Unfit("bias", f"a bias of shape [{channels}] is needed, not {_shape(bias)}")
    if not transposed and any(extra):
        raise Unfit("output_padding", "output_padding belongs to transposed convolutions")
    sizes: list[int] = []
    for index in range(spatial):
        reach = dilation[index] * (weight.shape[2 + index] - 1)
        size = x.shape[2 + index]
        if transposed:
            if extra[index] >= max(stride[index], dilation[index]):
                raise Unfit("output_padding", "output_padding must be smaller than the stride or the dilation")
            length = (size - 1) * stride[index] - 2 * padding[index] + reach + extra[index] + 1
        else:
            length = (size + 2 * padding[index] - reach - 1) // stride[index] + 1
        if length < 1:
            raise Unfit("weight", f"the kernel {list(weight.shape[2:])} is larger than the input {_shape(x)}")
        sizes.append(length)
    return [(x.dtype, (x.shape[0], channels, *sizes))]


def scaled_dot_product_attention(given: Operands) -> list[Result]:
    """Attention without dropout; with `enable_gqa` fewer key heads than query heads."""
    query, key, value = (_tensor(given, name) for name in ("query", "key", "value"))
    _same_dtype(given, "query", ("key", "value"))
    if given.get("dropout_p"):
        raise Unfit("dropout_p", "dropout draws random numbers; only 0.0 is run")
    for name, one in (("query", query), ("key", key), ("value", value)):
        if one.ndim < 3 or one.ndim != query.ndim:
            raise Unfit(name, f"query, key and value have the same number of dimensions, at least 3, not {_shape(one)}")
    heads = given.get("enable_gqa") is True
    if heads and query.ndim < 4:
        raise Unfit("enable_gqa", "grouped heads need tensors of 4 dimensions")
    batch = -3 if heads else -2
    for name, one in (("key", key), ("value", value)):
        if one.shape[:batch] != query.shape[:batch]:
            raise Unfit(name, f"{_shape(one)} has other leading dimensions than the query {_shape(query)}")
        if heads and (one.shape[-3] == 0 or query.shape[-3] % one.shape[-3]):
            raise Unfit(name, f"{query.shape[-3]} query heads are no multiple of {one.shape[-3]}")
    if query.shape[-1] != key.shape[-1]:
        raise Unfit("key", f"query {_shape(query)} and key {_shape(key)} have different head sizes")
    if key.shape[-2] != value.shape[-2]:
        raise Unfit("value", f"key {_shape(key)} and value {_shape(value)} have different lengths")
    mask = given.get("attn_mask")
    if isinstance(mask, TensorValue):
        if given.get("is_causal"):
            raise Unfit("is_causal", "a mask and is_causal exclude each other")
        if mask.dtype not in ("bool", query.dtype):
            raise Unfit("attn_mask", f"a mask is bool or {query.dtype}, not {mask.dtype}")
        if not _expands(mask.shape, (*query.shape[:-1], key.shape[-2])):
            raise Unfit("attn_mask", f"{_shape(mask)} does not expand to {[*query.shape[:-1], key.shape[-2]]}")
    return [(query.dtype, (*query.shape[:-1], value.shape[-1]))]


def topk(given: Operands) -> list[Result]:
    """The `k` largest or smallest elements along `dim`, and their indices."""
    x = _ordered(given)
    dim = _dimension(given, x)
    k = given["k"]
    assert isinstance(k, int)
    if not 0 <= k <= x.shape[dim]:
        raise Unfit("k", f"k = {k} is out of range: the dimension has {x.shape[dim]} elements")
    shape = (*x.shape[:dim], k, *x.shape[dim + 1 :])
    return [(x.dtype, shape), ("int64", shape)]


def sort(given: Operands) -> list[Result]:
    """The elements in order along `dim`, and their indices."""
    x = _ordered(given)
    _dimension(given, x)
    return [(x.dtype, x.shape), ("int64", x.shape)]


def embedding(given: Operands) -> list[Result]:
    """Rows of `weight` by `indices`."""
    weight, indices = _tensor(given, "weight"), _tensor(given, "indices")
    _rank("weight", weight, 2)
    if indices.dtype not in ("int64", "int32"):
        raise Unfit("indices", f"indices are int64 or int32, not {indices.dtype}")
    return [(weight.dtype, (*indices.shape, weight.shape[1]))]


RULES: dict[str, Callable[[Operands], list[Result]]] = {
    rule.__name__: rule
    for rule in (linear, matmul, bmm, addmm, convolution, scaled_dot_product_attention, topk, sort, embedding)
}


def _tensor(given: Operands, name: str) -> TensorValue:
    value = given[name]
    assert isinstance(value, TensorValue)
    return value


def _shape(tensor: TensorValue) -> str:
    return str(list(tensor.shape))


def _rank(name: str, tensor: TensorValue, rank: int) -> None:
    if tensor.ndim != rank:
        raise Unfit(name, f"a tensor of {rank} dimensions is needed, not {_shape(tensor)}")


def _same_dtype(given: Operands, first: str, others: tuple[str, ...]) -> None:
    wanted = _tensor(given, first).dtype
    if wanted not in _MATRIX_DTYPES:
        raise Unfit(first, f"{wanted} is not computed by this operator on a GPU; use {', '.join(_MATRIX_DTYPES)}")
    for name in others:
        other = given.get(name)
        if isinstance(other, TensorValue) and other.dtype != wanted:
            raise Unfit(name, f"{other.dtype}, but `{first}` is {wanted}: one type is needed")


def _ordered(given: Operands) -> TensorValue:
    x = _tensor(given, "input")
    if x.dtype not in _ORDERED_DTYPES:
        raise Unfit("input", f"{x.dtype} cannot be ordered on a GPU")
    if x.ndim == 0:
        raise Unfit("input", "a tensor with at least one dimension is needed")
    return x


def _dimension(given: Operands, x: TensorValue) -> int:
    dim = given.get("dim", -1)
    assert isinstance(dim, int)
    if not -x.ndim <= dim < x.ndim:
        raise Unfit("dim", f"dimension {dim} is out of range for {_shape(x)}")
    return dim % x.ndim


def _integers(given: Operands, name: str, count: int, least: int) -> tuple[int, ...]:
    values = given[name]
    assert isinstance(values, tuple)
    if len(values) not in (1, count):
        raise Unfit(name, f"{count} integers are needed, not {len(values)}")
    if min(values) < least:
        raise Unfit(name, f"at least {least} is needed, not {min(values)}")
    return values if len(values) == count else values * count


def _expands(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    return len(shape) <= len(to) and all(
        size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(to), strict=False)
    )


def _broadcast(name: str, left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    length = max(len(left), len(right))
    left, right = (1,) * (length - len(left)) + left, (1,) * (length - len(right)) + right
    if any(a != b and 1 not in (a, b) for a, b in zip(left, right, strict=True)):
        raise Unfit(name, f"batches {list(left)} and {list(right)} do not broadcast")
    return tuple(b if a == 1 else a for a, b in zip(left, right, strict=True))
