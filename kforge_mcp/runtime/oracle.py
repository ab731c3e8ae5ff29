"""The float64 oracle: eager itself, run under a dispatch mode that turns every floating dtype into float64.

The same trace gives the longest reduction, and a rounding mode gives eager with internals one class lower.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .slicing import Slicing
from .values import Unencodable

_UNSUPPORTED = (
    RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, IndexError, KeyError, Unencodable,
)  # fmt: skip
"""What an operator without a kernel for the other dtype, or code that insists on its own, raises."""
_WIDE = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
_PRODUCTS = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1, "mv": 0, "addmv": 1, "dot": 0, "vdot": 0, "linear": 0}
"""Matrix products, and which argument has the reduced dimension last."""
_NORMALISATIONS = {"native_layer_norm", "_fused_rms_norm", "rms_norm"}
_STATISTICS = {
    "sum", "nansum", "mean", "var", "std", "var_mean", "std_mean", "prod", "norm", "linalg_vector_norm", "logsumexp",
    "native_group_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
    "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d",
}  # fmt: skip
_SCANS = {"cumsum", "cumprod", "logcumsumexp", "_softmax", "_log_softmax", "softmax", "log_softmax"}


@dataclass(frozen=True)
class Expected:
    """What eager computes on some inputs. `wide` is float64 (or exact); `longest` is the longest reduction, in
    elements; `note` says what was used where no float64 run exists."""

    narrow: list[torch.Tensor]
    wide: list[torch.Tensor]
    longest: int
    note: str = ""
    slicing: Slicing | None = None
    """The rows that `wide` has in float64 where it has not all; the others are eager's."""


class _Mode(TorchDispatchMode):
    """A mode that does not import the compiler (a second in every process) to be left out of compilation."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class Float64Mode(_Mode):
    """Runs every operator in float64: floating tensors, dtype arguments and factories."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        wide = {key: _widen(value) for key, value in (kwargs or {}).items()}
        return tree_map(_widen_tensor, func(*(_widen(item) for item in args), **wide))

    def __enter__(self) -> Float64Mode:
        self._default = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        super().__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        torch.set_default_dtype(self._default)


class ReductionTrace(_Mode):
    """Notes the longest reduction among the operators that eager dispatches to."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.longest = max(self.longest, reduction_length(_name(func), args, kwargs or {}, result))
        return result


class LowerMode(_Mode):
    """Rounds the floating results of every operator to one class below that of the results: bf16 for fp32 and fp64,
    fp8 for 16 bits."""

    def __init__(self, itemsize: int) -> None:
        super().__init__()
        self.to = torch.bfloat16 if itemsize > 2 else torch.float8_e4m3fn

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return tree_map(self.round, func(*args, **(kwargs or {})))

    def round(self, value: Any) -> Any:
        """A tensor with the digits of the lower class in its own range: a kernel would scale to keep that."""
        if not isinstance(value, torch.Tensor) or value.numel() == 0:
            return value
        if value.is_complex():
            return torch.view_as_complex(self.round(torch.view_as_real(value.resolve_conj().contiguous())))
        if not value.is_floating_point() or value.dtype.itemsize <= self.to.itemsize:
            return value
        fraction, exponent = torch.frexp(value)
        rounded = torch.ldexp(fraction.to(self.to).to(value.dtype), exponent).to(value.dtype)
        return torch.where(torch.isfinite(value) & torch.isfinite(rounded), rounded, value)


def expected(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    inputs: Sequence[torch.Tensor],
    *,
    own: str = "",
    slicing: Slicing | None = None,
    affordable: bool = True,
) -> Expected:
    """Eager's result on these inputs and the oracle's. `call` maps tensors to the flat results; nothing is kept of
    `inputs`, which eager may change. With `own`, the reason why, eager in its own precision is its oracle. With
    `slicing` the oracle runs on those rows if eager allows it; else on everything if that is `affordable`.

    Raises whatever eager raises.
    """
    with ReductionTrace() as trace:
        narrow = [tensor.clone() for tensor in call([tensor.clone() for tensor in inputs])]
    if own:
        return _own(narrow, trace.longest, own)
    for choice in slicing.choices if slicing else ():
        sliced = _sliced(call, inputs, narrow, slicing, choice, trace.longest)
        if sliced:
            return sliced
    if not affordable:
        return _own(narrow, trace.longest, "too large, and no rows can be taken of it")
    wide = _widely(call, inputs)
    if isinstance(wide, str):
        return _own(narrow, trace.longest, wide)
    if [(w.shape, _kind(w)) for w in wide] != [(n.shape, _kind(n)) for n in narrow]:
        return _own(narrow, trace.longest, "another result")
    exact = [w if _kind(n) != "exact" else n for w, n in zip(wide, narrow, strict=True)]
    return Expected(narrow, exact, trace.longest)


def _widely(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]], inputs: Sequence[torch.Tensor]
) -> list[torch.Tensor] | str:
    """What eager computes in float64, or the kind of its failure."""
    try:
        with Float64Mode():
            return [tensor.clone() for tensor in call([_widen_tensor(tensor.clone()) for tensor in inputs])]
    except _UNSUPPORTED as error:
        return type(error).__name__


def _sliced(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    inputs: Sequence[torch.Tensor],
    narrow: list[torch.Tensor],
    slicing: Slicing | None,
    choice: Sequence[int],
    longest: int,
) -> Expected | None:
    """The oracle on some rows of the chosen inputs; None if eager computes other rows from them."""
    assert slicing is not None
    parts = [slicing.take(t) if index in choice else t for index, t in enumerate(inputs)]
    try:
        alone = [tensor.clone() for tensor in call([tensor.clone() for tensor in parts])]
    except _UNSUPPORTED:
        return None
    wide = _widely(call, parts) if slicing.agrees(alone, narrow, 8 * (4 + min(longest / 16, 256))) else ""
    if isinstance(wide, str) or [(w.shape, _kind(w)) for w in wide] != [(a.shape, _kind(a)) for a in alone]:
        return None
    whole: list[torch.Tensor] = []
    for n, w in zip(narrow, wide, strict=True):
        if _kind(n) == "exact":
            whole.append(n)
        else:
            whole.append(slicing.put(_widen_tensor(n), w) if slicing.divides(n.shape) else w)
    return Expected(narrow, whole, longest, str(slicing), slicing)


def _own(narrow: list[torch.Tensor], longest: int, cause: str) -> Expected:
    note = f"no float64 oracle ({cause}): eager in its own precision stands in for it"
    return Expected(narrow, [_widen_tensor(tensor) for tensor in narrow], longest, note)


def _kind(tensor: torch.Tensor) -> str:
    return "complex" if tensor.is_complex() else "real" if tensor.is_floating_point() else "exact"


def lowered(
    call: Callable[[list[torch.Tensor]], list[torch.Tensor]],
    inputs: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
) -> list[torch.Tensor] | None:
    """Eager's result with internals one class below its `results`; None where eager cannot be run so, or there is no
    lower class."""
    sizes = [torch.finfo(tensor.dtype).bits // 8 for tensor in results if _kind(tensor) != "exact"]
    if sizes and min(sizes) == 1:
        return None
    mode = LowerMode(min(sizes, default=4))
    try:
        with mode:
            return [mode.round(tensor.clone()) for tensor in call([mode.round(tensor.clone()) for tensor in inputs])]
    except _UNSUPPORTED:
        return None


def reduction_length(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> int:
    """How many elements one element of the result sums over; 0 for operators that reduce nothing."""
    tensors = [item for item in args if isinstance(item, torch.Tensor)]
    if not tensors or tensors[0].numel() == 0:
        return 0
    first = tensors[0]
    if name in _PRODUCTS:
        return args[_PRODUCTS[name]].shape[-1]
    if name in _NORMALISATIONS:
        shape = args[1] if isinstance(args[1], (list, tuple)) else first.shape[-1:]
        return _product(shape)
    if name in _SCANS:
        return first.shape[args[1]] if first.ndim else 0
    if "convolution" in name or name.startswith("conv"):
        return _product(args[1].shape[1:])
    if "attention" in name:
        return max(args[0].shape[-1], args[1].shape[-2])
    if name in _STATISTICS:
        out = result[1] if "group_norm" in name else result[-1] if isinstance(result, (tuple, list)) else result
        return first.numel() // max(out.numel(), 1)
    return 0


def _name(func: Any) -> str:
    return func.overloadpacket.__name__


def _product(sizes: Sequence[int]) -> int:
    product = 1
    for size in sizes:
        product *= size
    return product


def _widen(value: Any) -> Any:
    return tree_map(_widen_leaf, value)


def _widen_leaf(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else _WIDE.get(value, value)
    return _widen_tensor(value)


def _widen_tensor(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_floating_point() and value.dtype is not torch.float64:
        return value.to(torch.float64)
    return value.to(_WIDE[value.dtype]) if value.dtype in _WIDE else value
