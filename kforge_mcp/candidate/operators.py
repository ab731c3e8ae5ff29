"""Operators that a step may call between launches: their parameters, and how arguments bind to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kforge_mcp.candidate.evaluation import TensorValue, Value, kind
from kforge_mcp.candidate.operator_shapes import RULES, Operand, Operands, Result, Unfit

SlotKind = Literal["tensor", "tensor?", "int", "ints", "float", "float?", "bool"]


@dataclass(frozen=True)
class Slot:
    """A parameter of an operator. One without a default has to be given."""

    name: str
    kind: SlotKind
    required: bool = True
    keyword: bool = False


@dataclass(frozen=True)
class Operator:
    """An allow-listed ATen operator; a call gives its parameters in this order, keyword-only ones last."""

    name: str
    slots: tuple[Slot, ...]
    results: tuple[str, ...] = ("result",)
    overload: str = "default"

    @property
    def rule(self) -> Callable[[Operands], list[Result]]:
        """The shape rule."""
        return RULES[self.name.removeprefix("aten::")]

    @property
    def signature(self) -> str:
        """Its parameters for a reader."""
        return ", ".join(slot.name + ("" if slot.required else "?") for slot in self.slots)


def _slots(text: str) -> tuple[Slot, ...]:
    """Slots from `name:kind` words; `=` in front of the kind has a default, `*` begins those by keyword."""
    found: list[Slot] = []
    keyword = False
    for word in text.split():
        if word == "*":
            keyword = True
            continue
        name, _, what = word.partition(":")
        kind_: Any = what.removeprefix("=")
        found.append(Slot(name, kind_, required=not what.startswith("="), keyword=keyword))
    return tuple(found)


OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operator in (
        Operator("aten::linear", _slots("input:tensor weight:tensor bias:=tensor?")),
        Operator("aten::matmul", _slots("input:tensor other:tensor")),
        Operator("aten::bmm", _slots("input:tensor mat2:tensor")),
        Operator("aten::addmm", _slots("input:tensor mat1:tensor mat2:tensor * beta:=float alpha:=float")),
        Operator(
            "aten::convolution",
            _slots(
                "input:tensor weight:tensor bias:tensor? stride:ints padding:ints dilation:ints transposed:bool"
                " output_padding:ints groups:int"
            ),
        ),
        Operator(
            "aten::scaled_dot_product_attention",
            _slots(
                "query:tensor key:tensor value:tensor attn_mask:=tensor? dropout_p:=float is_causal:=bool"
                " * scale:=float? enable_gqa:=bool"
            ),
        ),
        Operator("aten::topk", _slots("input:tensor k:int dim:=int largest:=bool sorted:=bool"), ("values", "indices")),
        Operator("aten::sort", _slots("input:tensor dim:=int descending:=bool"), ("values", "indices")),
        Operator(
            "aten::embedding",
            _slots("weight:tensor indices:tensor padding_idx:=int scale_grad_by_freq:=bool sparse:=bool"),
        ),
    )
}
"""By the name that a step writes."""

_WANTED: dict[SlotKind, str] = {
    "tensor": "a tensor", "tensor?": "a tensor or None", "int": "an integer", "ints": "a list of integers",
    "float": "a number", "float?": "a number or None", "bool": "true or false",
}  # fmt: skip


def operand(slot: Slot, value: Value) -> Operand:
    """A value as the operator takes it. Raises `Unfit` for one of the wrong kind."""
    boolean, integer = isinstance(value, bool), isinstance(value, int) and not isinstance(value, bool)
    match slot.kind:
        case "tensor" | "tensor?":
            fits = isinstance(value, TensorValue) or (value is None and slot.kind == "tensor?")
        case "bool":
            fits = boolean
        case "int":
            fits = integer
        case "ints":
            value = (value,) if integer else value
            fits = isinstance(value, tuple) and all(type(item) is int for item in value) and len(value) > 0
        case _:
            fits = integer or isinstance(value, float) or (value is None and slot.kind == "float?")
    if not fits:
        raise Unfit(slot.name, f"`{slot.name}` is {_WANTED[slot.kind]}, not {kind(value)}")
    return value  # pyright: ignore[reportReturnType]


def results(operator: Operator, values: Sequence[Value]) -> tuple[list[Operand], list[Result]]:
    """The arguments as the operator takes them, and what it returns. Raises `Unfit`; the count must be right."""
    operands = [operand(slot, value) for slot, value in zip(operator.slots, values, strict=False)]
    given = {slot.name: value for slot, value in zip(operator.slots, operands, strict=False)}
    return operands, operator.rule(given)
