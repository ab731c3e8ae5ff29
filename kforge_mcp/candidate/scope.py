"""The names a candidate may use in one variant, and what stands behind each."""

from __future__ import annotations

from collections.abc import Mapping

from kforge_mcp.candidate.expressions import TensorValue, Value
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Variant


def tensor_value(spec: TensorSpec) -> TensorValue:
    """What expressions see of a tensor."""
    return TensorValue(spec.dtype, tuple(spec.shape), tuple(spec.stride), spec.itemsize)


def output_names(variant: Variant) -> list[str]:
    """`out` for one output, `out0, out1, ...` for several, in the order of `Variant.outputs`."""
    if len(variant.outputs) == 1:
        return ["out"]
    return [f"out{index}" for index in range(len(variant.outputs))]


def variant_scope(variant: Variant, config: Mapping[str, Value] | None = None) -> dict[str, Value]:
    """Every name of a variant with its value: arguments, outputs, and the tunables of `config`."""
    scope: dict[str, Value] = dict(config or {})
    for argument in variant.arguments:
        if argument.kind == "tensor":
            scope[argument.name] = tensor_value(variant.tensors[argument.tensors[0]])
        elif argument.kind == "tensors":
            scope[argument.name] = tuple(tensor_value(variant.tensors[index]) for index in argument.tensors)
        elif argument.kind == "constant":
            value = argument.value
            scope[argument.name] = tuple(value) if isinstance(value, list) else value
        else:
            scope[argument.name] = None
    for name, spec in zip(output_names(variant), variant.outputs, strict=True):
        scope[name] = tensor_value(spec)
    return scope


def card_names(card: OperatorCard) -> list[str]:
    """The names that some variant of the card has, arguments first, in order."""
    names: dict[str, None] = {}
    for variant in card.variants:
        names.update(dict.fromkeys(argument.name for argument in variant.arguments))
    for variant in card.variants:
        names.update(dict.fromkeys(output_names(variant)))
    return list(names)
