"""Reads the workspaces and tensor maps of a metadata block."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, get_args

from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.positions import Path
from kforge_mcp.candidate.reading import MAP_KEYS, TOP_LEVEL, WORKSPACE_KEYS, Reader, toml_kind
from kforge_mcp.candidate.rejection import suggestion
from kforge_mcp.candidate.steps import TensorMap, Workspace
from kforge_mcp.records.tensor import DType

_MAP_CHOICES = {
    "swizzle": ("none", "32B", "64B", "128B"),
    "interleave": ("none", "16B", "32B"),
    "l2_promotion": ("none", "64B", "128B", "256B"),
    "out_of_bounds": ("zero", "nan"),
}
MAX_RANK = 8
MAX_MAP_RANK = 5
MAX_TENSOR_MAPS = 16


def read_workspaces(reader: Reader, known: set[str]) -> tuple[Workspace, ...]:
    """The workspaces, in order."""
    found: list[Workspace] = []
    for name, table in _tables(reader, "workspace", WORKSPACE_KEYS):
        path = ("workspace", name)
        if not reader.new_name(path, reader.names, "a workspace"):
            continue
        dtype: Any
        dtype, init = table.get("dtype"), table.get("init", "none")
        if "dtype" not in table:
            reader.missing(path, "dtype", "`dtype` is missing: the type of the workspace's elements")
        elif dtype not in get_args(DType):
            hint = suggestion(str(dtype), get_args(DType))
            reader.fault((*path, "dtype"), f"a workspace's `dtype` is the name of a type, not {dtype!r}", hint=hint)
        elif init not in ("none", "zero"):
            reader.fault((*path, "init"), f'`init` is "none" or "zero", not {init!r}')
        else:
            shape = reader.expressions((*path, "shape"), known, most=MAX_RANK)
            found.append(Workspace(name=name, dtype=dtype, shape=shape, init=init))
    return tuple(found)


def read_tensor_maps(reader: Reader, sizes: set[str], memory: Iterable[str]) -> tuple[TensorMap, ...]:
    """The tensor maps, in order; they exist for CUDA only. `memory` names workspaces and intermediate tensors."""
    if reader.target == "cpu" and "tensor_maps" in reader.values:
        reader.fault(("tensor_maps",), "[tensor_maps] belongs to candidates for CUDA")
        return ()
    known = {*sizes, *memory}
    found: list[TensorMap] = []
    tables = _tables(reader, "tensor_maps", MAP_KEYS)
    if len(tables) > MAX_TENSOR_MAPS:
        message = f"{len(tables)} tensor maps; at most {MAX_TENSOR_MAPS} are encoded"
        reader.fault(("tensor_maps",), message, reason="limit_exceeded")
        return ()
    for name, table in tables:
        path = ("tensor_maps", name)
        if not reader.new_name(path, {*reader.names, *memory}, "a tensor map"):
            continue
        tensor = _tensor(reader, (*path, "tensor"), known)
        choices = {key: _choice(reader, path, table, key) for key in _MAP_CHOICES}
        sequences = {
            key: reader.expressions((*path, key), known, most=MAX_MAP_RANK)
            for key in ("shape", "stride", "element_strides")
            if key in table
        }
        box = reader.expressions((*path, "box"), known, most=MAX_MAP_RANK)
        if tensor is not None:
            found.append(TensorMap(name=name, tensor=tensor, box=box, **sequences, **choices))
    return tuple(found)


def _tensor(reader: Reader, path: Path, known: set[str]) -> Expression | None:
    if path[-1] not in reader.value(path[:-1]):
        reader.missing(path[:-1], "tensor", "`tensor` is missing: the name of the tensor that the map is of")
        return None
    value = reader.value(path)
    if not isinstance(value, str):
        reader.fault(path, f"`tensor` names the tensor that the map is of, in quotes, not {toml_kind(value)}")
        return None
    found = reader.expression(path, known)
    if found is None:
        return None
    tree = found.tree.value if isinstance(found.tree, ast.Subscript) else found.tree
    if not isinstance(tree, ast.Name):
        reader.fault(path, f"`tensor` names the tensor that the map is of, not `{found.text}`")
        return None
    return found


def _choice(reader: Reader, path: Path, table: dict[str, Any], key: str) -> Any:
    choices = _MAP_CHOICES[key]
    value = table.get(key, choices[0])
    if value not in choices:
        reader.fault((*path, key), f"`{key}` is one of {', '.join(choices)}, not {value!r}")
    return value


def _tables(reader: Reader, name: str, allowed: tuple[str, ...]) -> list[tuple[str, dict[str, Any]]]:
    tables = reader.values.get(name, {})
    found: list[tuple[str, dict[str, Any]]] = []
    if not isinstance(tables, dict):
        return found
    for key, table in tables.items():
        if isinstance(table, dict):
            reader.check_table((name, key), table, allowed)
            found.append((key, table))
        elif key in TOP_LEVEL:
            reader.unknown_key((name, key), ())
        else:
            reader.fault((name, key), f"`{key}` is a table: {key} = {{ {allowed[0]} = ..., {allowed[1]} = ... }}")
    return found
