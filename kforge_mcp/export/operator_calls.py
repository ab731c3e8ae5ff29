"""An operator call between launches as the arguments of torch's dispatcher: every parameter of the schema, typed."""

from __future__ import annotations

from collections.abc import Callable

from kforge_mcp.candidate.bound import BoundCall, CallArgument
from kforge_mcp.candidate.operators import OPERATORS, Slot
from kforge_mcp.export.literals import floating, integer

Value = int | float | bool | list[int] | None

DEFAULTS: dict[str, dict[str, Value]] = {
    "aten::linear": {"bias": None},
    "aten::addmm": {"beta": 1.0, "alpha": 1.0},
    "aten::scaled_dot_product_attention": {
        "attn_mask": None, "dropout_p": 0.0, "is_causal": False, "scale": None, "enable_gqa": False,
    },
    "aten::topk": {"dim": -1, "largest": True, "sorted": True},
    "aten::sort": {"dim": -1, "descending": False},
    "aten::embedding": {"padding_idx": -1, "scale_grad_by_freq": False, "sparse": False},
}  # fmt: skip
"""What the schema gives a parameter that a call leaves out; the dispatcher fills in nothing."""

SlotOf = Callable[[CallArgument], int]


def call_arguments(call: BoundCall, slot_of: SlotOf) -> list[str]:
    """The C++ of each argument, in the schema's order. `slot_of` gives a tensor's place in the frame.

    `aten::addmm` takes Scalars, which the stable ABI's dispatcher does not pass: it goes through a function of its
    own, with plain tensors and doubles.
    """
    given = {argument.parameter: argument for argument in call.arguments}
    plain = call.operator == "aten::addmm"
    slots = OPERATORS[call.operator].slots
    return [_argument(call.operator, slot, given.get(slot.name), slot_of, plain) for slot in slots]


def _argument(operator: str, slot: Slot, given: CallArgument | None, slot_of: SlotOf, plain: bool) -> str:
    if given is not None and given.kind not in ("none", "value"):
        tensor = f"frame.tensors[{slot_of(given)}].get()"
        return tensor if plain else f"pass{'_optional' if slot.kind == 'tensor?' else ''}({tensor})"
    value = DEFAULTS[operator][slot.name] if given is None else given.value
    if plain:
        return floating(float(value), "double")  # pyright: ignore[reportArgumentType]
    return f"torch::stable::detail::from({_typed(slot, value)})"


def _typed(slot: Slot, value: Value) -> str:
    if value is None:
        return "std::nullopt"
    if isinstance(value, list):
        return f"std::vector<int64_t>{{{', '.join(map(integer, value))}}}"
    match slot.kind:
        case "bool":
            return "true" if value else "false"
        case "int":
            return f"static_cast<int64_t>({integer(int(value))})"
        case "float?":
            return f"std::optional<double>({floating(float(value), 'double')})"
        case "ints":
            return f"std::vector<int64_t>{{{integer(int(value))}}}"
        case _:
            return floating(float(value), "double")
