"""Reads the steps of a metadata block: launches of own kernels and calls of operators."""

from __future__ import annotations

import ast
from typing import Any

from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.kernel_names import kernel_fault
from kforge_mcp.candidate.operators import OPERATORS, Operator
from kforge_mcp.candidate.positions import Path
from kforge_mcp.candidate.reading import CALL_KEYS, LAUNCH_KEYS, MAX_ARGUMENTS, Reader, toml_kind
from kforge_mcp.candidate.rejection import suggestion
from kforge_mcp.candidate.steps import Call, Launch, Step

MAX_STEPS = 64


def read_steps(reader: Reader, known: set[str]) -> tuple[Step, ...]:
    """The steps in order; the result of an operator call is a name for the steps after it."""
    steps = reader.values.get("step")
    if steps is None:
        if reader.target == "cuda":
            reader.fault((), "no [[step]]: a candidate for CUDA describes its launches in [[step]] tables")
        return ()
    if reader.target == "cpu":
        message = "[[step]] belongs to candidates for CUDA"
        reader.fault(("step", 0), message, hint="for the CPU write top-level `entry` and `args` instead")
        return ()
    if not isinstance(steps, list) or not steps or not all(isinstance(step, dict) for step in steps):
        reader.fault(("step",), "steps are written as [[step]] tables, with double brackets")
        return ()
    if len(steps) > MAX_STEPS:
        reader.fault(("step", MAX_STEPS), f"{len(steps)} steps; at most {MAX_STEPS} are run", reason="limit_exceeded")
        return ()
    names = set(known)
    found: list[Step] = []
    for index, table in enumerate(steps):
        is_call = "call" in table or ("out" in table and "kernel" not in table)
        step = (_call if is_call else _launch)(reader, index, table, names)
        if isinstance(step, Call):
            names.update(step.outs)
        found.append(step)
    return tuple(found)


def _launch(reader: Reader, index: int, table: dict[str, Any], names: set[str]) -> Launch:
    path = ("step", index)
    reader.check_table(path, table, LAUNCH_KEYS, CALL_KEYS)
    cooperative = table.get("cooperative", False)
    if not isinstance(cooperative, bool):
        reader.fault((*path, "cooperative"), f"`cooperative` is true or false, not {toml_kind(cooperative)}")
    inner = names
    if "repeat" in table:
        inner = names | {"step"}
        if "step" in reader.names:
            message = "`repeat` cannot be used on this card: the loop index is `step`, which is one of its arguments"
            reader.key_fault((*path, "repeat"), message)
    return Launch(
        kernel=_kernel(reader, path, table),
        grid=_sizes(reader, (*path, "grid"), inner),
        block=_sizes(reader, (*path, "block"), inner),
        args=reader.expressions((*path, "args"), inner, most=MAX_ARGUMENTS),
        shared_bytes=_optional(reader, (*path, "shared_bytes"), inner),
        cluster=_sizes(reader, (*path, "cluster"), inner) if "cluster" in table else (),
        cooperative=bool(cooperative),
        repeat=_optional(reader, (*path, "repeat"), names),
    )


def _kernel(reader: Reader, path: Path, table: dict[str, Any]) -> str:
    kernel = table.get("kernel")
    place = (*path, "kernel")
    if kernel is None:
        message = "a step has a `kernel`, a name or template instance in quotes, or a `call`"
        reader.missing(path, "kernel", message)
    elif not isinstance(kernel, str):
        reader.fault(place, f"`kernel` is a name or template instance in quotes, not {toml_kind(kernel)}")
    else:
        fault = kernel_fault(kernel, reader.code)
        if fault is None:
            return kernel
        reader.fault(place, fault.message, hint=fault.hint, offset=fault.offset)
    return ""


def _sizes(reader: Reader, path: Path, known: set[str]) -> tuple[Expression, ...]:
    found = reader.expressions(path, known, most=3)
    if reader.value(path[:-1]).get(path[-1]) == []:
        reader.fault(path, f"`{path[-1]}` has 1 to 3 sizes")
    return found


def _optional(reader: Reader, path: Path, known: set[str]) -> Expression | None:
    return reader.expression(path, known) if path[-1] in reader.value(path[:-1]) else None


def _call(reader: Reader, index: int, table: dict[str, Any], names: set[str]) -> Call:
    path = ("step", index)
    reader.check_table(path, table, CALL_KEYS, LAUNCH_KEYS)
    call = table.get("call")
    operator = OPERATORS.get(call) if isinstance(call, str) else None
    if call is None:
        reader.missing(path, "call", '`call` is missing: the operator, such as "aten::linear"')
    elif operator is None:
        hint = suggestion(call if "::" in call else f"aten::{call}", OPERATORS) if isinstance(call, str) else ""
        reader.fault((*path, "call"), f"{call!r} is not an operator that a step may call", hint=hint)
    return Call(
        call=str(call),
        args=_call_arguments(reader, (*path, "args"), operator, names),
        outs=_outs(reader, (*path, "out"), operator, names),
    )


def _call_arguments(
    reader: Reader, path: Path, operator: Operator | None, names: set[str]
) -> tuple[Expression | tuple[Expression, ...], ...]:
    items = reader.array(path, 'the operator\'s arguments, ["x", "weight"]', most=32)
    found: list[Expression | tuple[Expression, ...]] = []
    for index, item in enumerate(items):
        place = (*path, index)
        if isinstance(item, list):
            inner = reader.expressions(place, names, most=8)
            if not item:
                reader.fault(place, "a list of integers has at least one element")
            found.append(inner)
        else:
            one = _call_argument(reader, place, item, names)
            if one is not None:
                found.append(one)
    if operator is None or not isinstance(reader.value(path[:-1]).get("args"), list):
        return tuple(found)
    least, most = sum(slot.required for slot in operator.slots), len(operator.slots)
    if not least <= len(items) <= most:
        wanted = str(most) if least == most else f"{least} to {most}"
        message = f"{operator.name} takes {wanted} arguments, not {len(items)}"
        reader.fault(path, message, hint=f"in this order: {operator.signature}")
    return tuple(found)


def _call_argument(reader: Reader, place: Path, item: Any, names: set[str]) -> Expression | None:
    """A call's argument may also be None or a TOML literal, since operators have such parameters."""
    line, column = reader.metadata.place(place)
    if item == "None":
        return Expression("None", ast.Constant(None), line, column)
    if isinstance(item, (bool, float)):
        return Expression(repr(item), ast.Constant(item), line, column)
    return reader.expression(place, names)


def _outs(reader: Reader, path: Path, operator: Operator | None, names: set[str]) -> tuple[str, ...]:
    table = reader.value(path[:-1])
    out = table.get("out")
    outs = [out] if isinstance(out, str) else out
    wanted = operator.results if operator else ()
    form = " and ".join(wanted) if len(wanted) > 1 else "its result"
    example = 'out = ["h", "i"]' if len(wanted) > 1 else 'out = "h"'
    if "out" not in table:
        reader.missing(path[:-1], "out", f"a call names {form}: `{example}`")
        return ()
    if not isinstance(outs, list) or not outs or not all(isinstance(name, str) for name in outs):
        reader.fault(path, f"a call names {form}: `{example}`")
        return ()
    if operator and len(outs) != len(wanted):
        reader.fault(path, f"{operator.name} has {len(wanted)} results, not {len(outs)}: write `{example}`")
        return ()
    taken = set(names) - set(reader.output_names)
    found: list[str] = []
    for index, name in enumerate(outs):
        place = path if isinstance(out, str) else (*path, index)
        if reader.check_name(place, name, taken, "an intermediate tensor"):
            found.append(name)
        taken.add(name)
    return tuple(found)
