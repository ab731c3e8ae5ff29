"""Checks a tensor map in one variant against what `cuTensorMapEncodeTiled` accepts, so that encoding cannot fail.

The rules are those of the CUDA driver API reference, section "Tensor Map Object Management".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import get_args

from kforge_mcp.candidate.bound import BoundArgument, BoundTensorMap
from kforge_mcp.candidate.evaluation import dense_strides
from kforge_mcp.candidate.expressions import Expression, TensorValue
from kforge_mcp.candidate.steps import TensorMap

_DATA_TYPES = {
    "uint8": "UINT8", "int8": "UINT8", "bool": "UINT8", "fp8_e4m3": "UINT8", "fp8_e5m2": "UINT8",
    "int16": "UINT16", "int32": "INT32", "int64": "INT64",
    "fp16": "FLOAT16", "bf16": "BFLOAT16", "fp32": "FLOAT32", "fp64": "FLOAT64",
}  # fmt: skip
assert set(_DATA_TYPES.values()) <= set(get_args(BoundTensorMap.model_fields["data_type"].annotation))

_MAX_RANK = 5
_MAX_BOX = 256
_MAX_ELEMENT_STRIDE = 8
_MAX_SIZE = 2**32
_MAX_STRIDE_BYTES = 2**40

Sizes = Callable[[Sequence[Expression]], list[int]]
Blame = Callable[[Expression, str], Exception]


def bind_tensor_map(
    plan: TensorMap, tensor: BoundArgument, value: TensorValue, sizes: Sizes, blame: Blame
) -> BoundTensorMap:
    """The arguments for encoding a map. `blame` makes the exception that is raised for an expression at fault."""

    def refuse(expressions: Sequence[Expression], axis: int, message: str) -> Exception:
        return blame(expressions[axis] if axis < len(expressions) else plan.tensor, message)

    data_type = _DATA_TYPES.get(value.dtype)
    if data_type is None:
        raise blame(plan.tensor, f"tensor maps of {value.dtype} do not exist")
    shape, stride = _view(plan, value, sizes, blame)
    rank = len(shape)
    least = 1 if plan.interleave == "none" else 3
    if not least <= rank <= _MAX_RANK:
        message = f"a tensor map has {least} to {_MAX_RANK} dimensions, not {rank}"
        raise refuse(plan.shape, 0, message + ("" if plan.shape else "; give it another `shape`"))
    step_bytes = 16 if plan.interleave != "32B" else 32
    for axis, (length, step) in reversed(list(enumerate(zip(shape, stride, strict=True)))):
        if not 1 <= length <= _MAX_SIZE:
            raise refuse(plan.shape, axis, f"dimension {axis} has {length} elements; 1 to 2**32 can be mapped")
        offset = step * value.itemsize
        if axis == rank - 1:
            if step != 1 and length > 1:
                raise refuse(plan.stride, axis, f"the last dimension has stride {step}; only 1 can be mapped")
        elif length == 1:
            # The stride of a single element says nothing, and torch puts anything there.
            inner = max(shape[axis + 1] * stride[axis + 1] * value.itemsize, 1)
            stride[axis] = -(-inner // step_bytes) * step_bytes // value.itemsize
        elif offset % step_bytes or not 0 < offset < _MAX_STRIDE_BYTES:
            message = f"dimension {axis} has a stride of {offset} bytes; a multiple of {step_bytes} is needed"
            raise refuse(plan.stride, axis, message)
    box = _sequence(plan.box, "box", rank, sizes, _MAX_BOX, blame, plan.tensor)
    steps = (
        _sequence(plan.element_strides, "element_strides", rank, sizes, _MAX_ELEMENT_STRIDE, blame, plan.tensor)
        if plan.element_strides
        else [1] * rank
    )
    _check_inner(plan, box[-1] * value.itemsize, blame)
    if plan.out_of_bounds == "nan" and not data_type.startswith(("FLOAT", "BFLOAT")):
        raise blame(plan.tensor, f'`out_of_bounds = "nan"` needs floating-point elements, not {value.dtype}')
    return BoundTensorMap.model_validate({
        "name": plan.name,
        "tensor": tensor,
        "data_type": data_type,
        "size": shape[::-1],
        "stride_bytes": [step * value.itemsize for step in stride[-2::-1]] if rank > 1 else [],
        "box": box[::-1],
        "element_strides": steps[::-1],
        "interleave": plan.interleave,
        "swizzle": plan.swizzle,
        "l2_promotion": plan.l2_promotion,
        "out_of_bounds": plan.out_of_bounds,
        "alignment": step_bytes,
    })  # fmt: skip


def _view(plan: TensorMap, value: TensorValue, sizes: Sizes, blame: Blame) -> tuple[list[int], list[int]]:
    """Shape and stride in elements, outermost first, checked to lie within the tensor."""
    if not plan.shape:
        if plan.stride:
            raise blame(plan.stride[0], "`stride` goes with `shape`")
        return list(value.shape), list(value.stride)
    shape = sizes(plan.shape)
    if plan.stride:
        stride = sizes(plan.stride)
        if len(stride) != len(shape):
            raise blame(plan.stride[0], f"`stride` has {len(stride)} elements and `shape` {len(shape)}")
    elif not value.is_dense:
        raise blame(plan.shape[0], f"the tensor has strides {list(value.stride)}: give `stride` beside `shape`")
    else:
        stride = list(dense_strides(shape))
    if _extent(shape, stride) > _extent(value.shape, value.stride):
        message = f"{shape} with strides {stride} reaches beyond the tensor of shape {list(value.shape)}"
        raise blame(plan.shape[0], message)
    return shape, stride


def _extent(shape: Sequence[int], stride: Sequence[int]) -> int:
    if 0 in shape:
        return 0
    return 1 + sum((length - 1) * step for length, step in zip(shape, stride, strict=True))


def _sequence(
    expressions: Sequence[Expression], name: str, rank: int, sizes: Sizes, most: int, blame: Blame, tensor: Expression
) -> list[int]:
    values = sizes(expressions)
    if len(values) != rank:
        place = expressions[0] if expressions else tensor
        raise blame(place, f"`{name}` has {len(values)} elements, but the map has {rank} dimensions")
    for expression, value in zip(expressions, values, strict=True):
        if not 1 <= value <= most:
            raise blame(expression, f"an element of `{name}` is 1 to {most}, not {value}")
    return values


def _check_inner(plan: TensorMap, inner_bytes: int, blame: Blame) -> None:
    last = plan.box[-1]
    if plan.interleave == "none" and inner_bytes % 16:
        raise blame(last, f"the box is {inner_bytes} bytes wide; a multiple of 16 is needed")
    if plan.interleave == "32B" and plan.swizzle != "32B":
        raise blame(plan.tensor, f'`interleave = "32B"` needs `swizzle = "32B"`, not "{plan.swizzle}"')
    if plan.interleave == "none" and plan.swizzle != "none" and inner_bytes > int(plan.swizzle.removesuffix("B")):
        raise blame(last, f"the box is {inner_bytes} bytes wide; a swizzle of {plan.swizzle} takes at most that many")
