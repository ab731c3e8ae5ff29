"""Reads the tables of a metadata block: steps, workspaces and tensor maps."""

from __future__ import annotations

from typing import Any, get_args

from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.reading import TOP_LEVEL, Reader
from kforge_mcp.candidate.rejection import suggestion
from kforge_mcp.candidate.steps import CALLS, Call, Launch, Step, TensorMap, Workspace
from kforge_mcp.records.tensor import DType

_LAUNCH = ("kernel", "grid", "block", "shared_bytes", "cluster", "cooperative", "repeat", "args")
_CALL = ("call", "args", "out")
_WORKSPACE = ("dtype", "shape", "init")
_TENSOR_MAP = ("tensor", "box", "swizzle", "interleave", "l2_promotion", "element_strides")
_MAP_CHOICES = {
    "swizzle": ("none", "32B", "64B", "128B"),
    "interleave": ("none", "16B", "32B"),
    "l2_promotion": ("none", "64B", "128B", "256B"),
}
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
    if not isinstance(steps, list) or not all(isinstance(step, dict) for step in steps):
        reader.fault(("step",), "steps are written as [[step]] tables, with double brackets")
        return ()
    if len(steps) > MAX_STEPS:
        reader.fault(("step", MAX_STEPS), f"{len(steps)} steps; at most {MAX_STEPS} are run")
        return ()
    names = set(known)
    found: list[Step] = []
    for index, table in enumerate(steps):
        step = _call(reader, index, table, names) if "call" in table else _launch(reader, index, table, names)
        if isinstance(step, Call):
            names.add(step.out)
        found.append(step)
    return tuple(found)


def _launch(reader: Reader, index: int, table: dict[str, Any], names: set[str]) -> Launch:
    path = ("step", index)
    _keys(reader, path, table, _LAUNCH)
    kernel = table.get("kernel")
    if not isinstance(kernel, str) or not kernel.strip():
        reader.fault((*path, "kernel"), "a step has a `kernel`, a name or template instance in quotes, or a `call`")
        kernel = ""
    cooperative = table.get("cooperative", False)
    if not isinstance(cooperative, bool):
        reader.fault((*path, "cooperative"), "`cooperative` is true or false")
    inner = names | {"step"} if "repeat" in table else names
    return Launch(
        kernel=kernel,
        grid=_sizes(reader, (*path, "grid"), inner),
        block=_sizes(reader, (*path, "block"), inner),
        args=reader.expressions((*path, "args"), inner, most=64),
        shared_bytes=_optional(reader, (*path, "shared_bytes"), inner),
        cluster=_sizes(reader, (*path, "cluster"), inner) if "cluster" in table else (),
        cooperative=bool(cooperative),
        repeat=_optional(reader, (*path, "repeat"), names),
    )


def _call(reader: Reader, index: int, table: dict[str, Any], names: set[str]) -> Call:
    path = ("step", index)
    _keys(reader, path, table, _CALL)
    call, out = table["call"], table.get("out")
    if call not in CALLS:
        hint = suggestion(call, CALLS) if isinstance(call, str) else ""
        reader.fault((*path, "call"), f"{call!r} is not an operator that a step may call", hint=hint)
    if not isinstance(out, str):
        reader.fault((*path, "out"), 'a call names its result: `out = "h"`')
        out = ""
    elif out not in reader.names:
        reader.check_name((*path, "out"), out, names, "an intermediate tensor")
    return Call(call=str(call), args=reader.expressions((*path, "args"), names, most=32), out=out)


def read_workspaces(reader: Reader, known: set[str]) -> tuple[Workspace, ...]:
    """The workspaces, in order."""
    found: list[Workspace] = []
    for name, table in _tables(reader, "workspace", _WORKSPACE):
        path = ("workspace", name)
        if not reader.new_name(path, reader.names, "a workspace"):
            continue
        dtype: Any
        dtype, init = table.get("dtype"), table.get("init", "none")
        if dtype not in get_args(DType):
            hint = suggestion(str(dtype), get_args(DType))
            reader.fault((*path, "dtype"), f"a workspace's `dtype` is the name of a type, not {dtype!r}", hint=hint)
        elif init not in ("none", "zero"):
            reader.fault((*path, "init"), f'`init` is "none" or "zero", not {init!r}')
        else:
            shape = reader.expressions((*path, "shape"), known, most=8)
            found.append(Workspace(name=name, dtype=dtype, shape=shape, init=init))
    return tuple(found)


def read_tensor_maps(reader: Reader, known: set[str]) -> tuple[TensorMap, ...]:
    """The tensor maps, in order; they exist for CUDA only."""
    if reader.target == "cpu" and "tensor_maps" in reader.values:
        reader.fault(("tensor_maps",), "[tensor_maps] belongs to candidates for CUDA")
        return ()
    found: list[TensorMap] = []
    for name, table in _tables(reader, "tensor_maps", _TENSOR_MAP):
        path = ("tensor_maps", name)
        if not reader.new_name(path, reader.names, "a tensor map"):
            continue
        tensor = table.get("tensor")
        if tensor not in reader.names:
            hint = suggestion(str(tensor), reader.names)
            reader.fault((*path, "tensor"), f"`tensor` names the tensor that the map is of, not {tensor!r}", hint=hint)
        choices = {key: _choice(reader, path, table, key) for key in _MAP_CHOICES}
        strides = (*path, "element_strides")
        found.append(
            TensorMap(
                name=name,
                tensor=str(tensor),
                box=reader.expressions((*path, "box"), known, most=5),
                element_strides=reader.expressions(strides, known, most=5) if "element_strides" in table else (),
                **choices,
            )
        )
    return tuple(found)


def _choice(reader: Reader, path: tuple[str, ...], table: dict[str, Any], key: str) -> Any:
    value = table.get(key, "none")
    if value not in _MAP_CHOICES[key]:
        reader.fault((*path, key), f"`{key}` is one of {', '.join(_MAP_CHOICES[key])}, not {value!r}")
    return value


def _tables(reader: Reader, name: str, allowed: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    tables = reader.values.get(name, {})
    found: list[tuple[str, dict[str, Any]]] = []
    if not isinstance(tables, dict):
        return found
    for key, table in tables.items():
        if isinstance(table, dict):
            _keys(reader, (name, key), table, allowed)
            found.append((key, table))
        elif key in TOP_LEVEL:
            reader.unknown_key((name, key), ())
        else:
            reader.fault((name, key), f"`{key}` is a table: {key} = {{ {allowed[0]} = ..., {allowed[1]} = ... }}")
    return found


def _keys(reader: Reader, path: tuple[str | int, ...], table: dict[str, Any], allowed: tuple[str, ...]) -> None:
    for key in table:
        if key not in allowed:
            reader.unknown_key((*path, key), allowed)


def _sizes(reader: Reader, path: tuple[str | int, ...], known: set[str]) -> tuple[Expression, ...]:
    return reader.expressions(path, known, most=3)


def _optional(reader: Reader, path: tuple[str | int, ...], known: set[str]) -> Expression | None:
    return reader.expression(path, known) if path[-1] in reader.value(path[:-1]) else None
