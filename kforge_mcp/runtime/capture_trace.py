"""What eager does when it runs: operations counted under a dispatch mode, on a replay and never on the workload."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

_aten = torch.ops.aten
_GATHERS = {_aten.embedding, _aten.index, _aten.index_select, _aten.gather, _aten.take, _aten.take_along_dim}
_BAGS = {_aten._embedding_bag, _aten._embedding_bag_forward_only}
_INDEXING = {_aten.index, _aten._unsafe_index}
_MASKS = (torch.bool, torch.uint8)
_SHAPED = {
    _aten.zeros_like, _aten.ones_like, _aten.empty_like, _aten.full_like,
    _aten.new_zeros, _aten.new_ones, _aten.new_empty, _aten.new_full, _aten.new_empty_strided,
}  # fmt: skip
"""Operations that take a tensor's shape and none of its values."""
_HOST_READS = ("tolist", "numpy", "__dlpack__")
_RECURRENT = {_aten.mkldnn_rnn_layer, _aten._cudnn_rnn}
_ATTENTION = {
    _aten._scaled_dot_product_flash_attention,
    _aten._scaled_dot_product_efficient_attention,
    _aten._scaled_dot_product_cudnn_attention,
    _aten._scaled_dot_product_flash_attention_for_cpu,
}


def _grouped(left: torch.Tensor, right: torch.Tensor, *_: Any) -> int:
    """Rows of a flat `left`, or columns of a flat `right`, are split among the groups."""
    products = left.numel() * right.shape[-1]
    return 2 * (products // left.shape[0] if left.ndim == 3 and right.ndim == 2 else products)


_PRODUCTS: dict[Any, Callable[..., int]] = {
    _aten._grouped_mm: _grouped,
    _aten._scaled_grouped_mm: _grouped,
    _aten._int_mm: lambda left, right: 2 * left.numel() * right.shape[-1],
    _aten._addmm_activation: lambda _, left, right: 2 * left.numel() * right.shape[-1],
    _aten.mv: lambda matrix, _: 2 * matrix.numel(),
    _aten.addmv: lambda _, matrix, __: 2 * matrix.numel(),
    _aten.dot: lambda left, _: 2 * left.numel(),
    _aten.vdot: lambda left, _: 2 * left.numel(),
    _aten.linalg_solve_triangular: lambda matrix, right: right.numel() * matrix.shape[-1],
}
"""Operations of matrix products by their positional operands, where `torch.utils.flop_counter` has none."""
_OPERANDS = {_aten.addmv: 3, _aten._addmm_activation: 3}


@dataclass
class Trace:
    """`flops` of matrix products and attention; `input_bytes` of the given tensors that are read at least once."""

    flops: int = 0
    input_bytes: int = 0
    value_dependent: str = ""
    """The first operation whose output shape, or whose result on the host, depends on the values given."""
    hidden: torch.Tensor | None = None
    """The first tensor that is read, and neither given nor made in the call."""
    operations: list[str] = field(default_factory=list)
    """The operations in order, repetitions in a row once."""


class _Tracer(TorchDispatchMode):
    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        super().__init__()
        self.trace = Trace()
        self._read: dict[int, int] = {}
        self._limits: dict[int, int] = {}
        for tensor in tensors:
            address = tensor.untyped_storage().data_ptr()
            self._read[address] = 0
            self._limits[address] = self._limits.get(address, 0) + unique_bytes(tensor)
        self._seen: set[tuple[Any, ...]] = set()
        self._derived = dict.fromkeys(self._read, True)
        """By address of what was given or made in the call: whether its values come from what was given."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = _tensors((args, kwargs))
        packet = func._overloadpacket
        if packet is not _aten.lift_fresh and self.trace.hidden is None:
            self.trace.hidden = next((tensor for tensor in given if _address(tensor) not in self._derived), None)
        if self._depends_on_values(func, args, given):
            self.trace.value_dependent = self.trace.value_dependent or str(packet)
        result = func(*args, **kwargs)
        self._follow(func, given, _tensors(result))
        if not self.trace.operations or self.trace.operations[-1] != str(packet):
            self.trace.operations.append(str(packet))
        self.trace.flops += _flops(packet, args, kwargs, result)
        if not func.is_view:
            self._touch(packet, (args, kwargs), result)
        return result

    def _touch(self, packet: Any, values: Any, result: Any) -> None:
        """Count what an operation reads; a gather reads no more of its table than it gives."""
        for tensor in tree_leaves(values):
            if not isinstance(tensor, torch.Tensor) or tensor.untyped_storage().data_ptr() not in self._read:
                continue
            address = tensor.untyped_storage().data_ptr()
            key = (address, tensor.storage_offset(), tensor.shape, tensor.stride())
            if key in self._seen:
                continue
            size = unique_bytes(tensor)
            if packet in _GATHERS and isinstance(result, torch.Tensor) and tensor.dtype == result.dtype:
                size = min(size, unique_bytes(result))
            elif packet in _BAGS and tensor is values[0][0]:
                size = min(size, values[0][1].numel() * tensor.shape[-1] * tensor.element_size())
            else:
                self._seen.add(key)
            self._read[address] = min(self._limits[address], self._read[address] + size)

    def _follow(self, func: Any, given: list[torch.Tensor], made: list[torch.Tensor]) -> None:
        """Note of each result, and of what was written, whether its values come from what the call was given."""
        is_derived = any(map(self.is_derived, given)) and func._overloadpacket not in _SHAPED
        before = set(map(_address, given))
        for tensor in [*made, *(given if func._schema.is_mutable else [])]:
            address = _address(tensor)
            self._derived[address] = is_derived or (address in before and self._derived.get(address, False))

    def is_derived(self, tensor: torch.Tensor) -> bool:
        """Whether the values of a tensor come from those given."""
        return self._derived.get(_address(tensor), False)

    def _depends_on_values(self, func: Any, args: Any, given: list[torch.Tensor]) -> bool:
        """Whether the shape of the result, or a result on the host, depends on values; an index does if it is a
        mask."""
        if func._overloadpacket in _INDEXING:
            masks = [index for index in args[1] if index is not None and index.dtype in _MASKS]
            return any(map(self.is_derived, masks))
        tagged = torch.Tag.dynamic_output_shape in func.tags or torch.Tag.data_dependent_output in func.tags
        return tagged and any(map(self.is_derived, given))

    def read_on_host(self, tensor: torch.Tensor, how: str) -> None:
        """Note that a tensor's elements were taken to the host past the dispatcher."""
        if self.is_derived(tensor):
            self.trace.value_dependent = self.trace.value_dependent or how

    def finish(self) -> Trace:
        """The trace with its totals."""
        self.trace.input_bytes = sum(self._read.values())
        return self.trace


def _tensors(values: Any) -> list[torch.Tensor]:
    """Those with elements."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor) and leaf.numel()]


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> int:
    """Both products, for each head of the queries; fewer heads of keys and values are shared, which torch's own
    formula refuses."""
    return 2 * (query.numel() // query.shape[-1]) * key.shape[-2] * (query.shape[-1] + value.shape[-1])


def _flops(packet: Any, args: Any, kwargs: Any, result: Any) -> int:
    if packet in _ATTENTION:
        return _attention(*args[:3])
    if packet in flop_registry:
        return int(flop_registry[packet](*args, **kwargs, out_val=result))
    if packet in _PRODUCTS:
        return int(_PRODUCTS[packet](*args[: _OPERANDS.get(packet, 2)]))
    if packet in _RECURRENT:
        # At every step of every sequence the input and the last state meet their weight matrices.
        steps = args[0].numel() // args[0].shape[-1]
        weights = [leaf for leaf in tree_leaves(args[1:5]) if isinstance(leaf, torch.Tensor) and leaf.ndim == 2]
        return 2 * steps * sum(weight.numel() for weight in weights)
    return 0


def unique_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's distinct elements: a stride of 0 repeats, it does not add."""
    count = 1
    for size, step in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if step != 0 or size == 0 else 1
    return count * tensor.element_size()


def trace(run: Callable[[], Any], tensors: Sequence[torch.Tensor]) -> Trace:
    """Run eager once under the dispatch mode. Raises what eager raises."""
    tracer = _Tracer(tensors)
    with _host_reads(tracer), torch.no_grad(), tracer:
        run()
    return tracer.finish()


@contextmanager
def _host_reads(tracer: _Tracer) -> Iterator[None]:
    """Tell the tracer of the methods that read a tensor without an operation."""

    def noted(name: str) -> Callable[..., Any]:
        original = getattr(torch.Tensor, name)

        @functools.wraps(original)
        def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            tracer.read_on_host(tensor, f"Tensor.{name}")
            return original(tensor, *args, **kwargs)

        return read

    own = {name: vars(torch.Tensor)[name] for name in _HOST_READS if name in vars(torch.Tensor)}
    for name in _HOST_READS:
        setattr(torch.Tensor, name, noted(name))
    try:
        yield
    finally:
        for name in _HOST_READS:
            if name in own:
                setattr(torch.Tensor, name, own[name])
            else:
                delattr(torch.Tensor, name)
