"""What each argument of a candidate stands for in one variant."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from kforge_mcp.candidate.bound import BoundArgument, BoundWorkspace, ScalarType
from kforge_mcp.candidate.c_types import tensor_type
from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.expressions import Expression, ExpressionError, TensorValue, Value, evaluate, kind
from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.rejection import Rejected, located
from kforge_mcp.candidate.scope import output_names, variant_scope
from kforge_mcp.records.result import Diagnostic
from kforge_mcp.records.variant import Variant

__all__ = [
    "MAX_MEMORY_BYTES",
    "NOMINAL_SM_COUNT",
    "BoundArgument",
    "BoundWorkspace",
    "ScalarType",
    "argument",
    "bind",
    "bind_workspaces",
    "claimed",
    "rejection",
    "scope_of",
    "size",
    "too_large",
]

NOMINAL_SM_COUNT = 132
"""What `sm_count` is where no device is at hand: the multiprocessors of an H100."""
MAX_MEMORY_BYTES = 1 << 40
"""Bytes of one workspace or intermediate."""


def bind(plan: Plan, variant: Variant, config: Config) -> list[BoundArgument] | Rejected:
    """The arguments of a CPU candidate's `entry` for one variant and one configuration."""
    scope = scope_of(plan, variant, config)
    bound: list[BoundArgument] = []
    for expression in plan.args:
        try:
            bound.append(argument(plan, variant, scope, expression))
        except ExpressionError as error:
            return rejection(plan, expression, error, variant, config)
    return bound


def scope_of(plan: Plan, variant: Variant, config: Config, *, sm_count: int = NOMINAL_SM_COUNT) -> dict[str, Value]:
    """Every name that a plan's expressions may use in one variant and configuration, with its value."""
    scope = variant_scope(variant, config)
    if plan.inplace:
        for name in output_names(variant):
            del scope[name]
    return {"sm_count": sm_count, **scope} if plan.target == "cuda" else scope


def bind_workspaces(
    plan: Plan, variant: Variant, config: Config, *, sm_count: int = NOMINAL_SM_COUNT
) -> list[BoundWorkspace] | Rejected:
    """The workspaces of a plan with their sizes for one variant and one configuration."""
    scope = scope_of(plan, variant, config, sm_count=sm_count)
    bound: list[BoundWorkspace] = []
    for space in plan.workspace:
        sizes: list[int] = []
        for expression in space.shape:
            try:
                sizes.append(size(evaluate(expression, scope)))
            except ExpressionError as error:
                return rejection(plan, expression, error, variant, config)
        found = BoundWorkspace(name=space.name, dtype=space.dtype, shape=sizes, init=space.init)
        if space.shape and found.size_bytes > MAX_MEMORY_BYTES:
            return rejection(plan, space.shape[0], too_large(plan, found.size_bytes), variant, config)
        bound.append(found)
    return bound


def too_large(plan: Plan, size_bytes: int) -> ExpressionError:
    """What to say of more than MAX_MEMORY_BYTES."""
    machine = "GPU" if plan.target == "cuda" else "machine for CPU candidates"
    return ExpressionError(f"{size_bytes} bytes of memory are more than any {machine} has")


def claimed(plan: Plan, variant: Variant, config: Config) -> bool | Rejected:
    """The value of `where` for one variant; True without one."""
    if plan.where is None:
        return True
    try:
        value = evaluate(plan.where, scope_of(plan, variant, config))
        if not isinstance(value, bool):
            raise ExpressionError(f"`where` is a condition, not {kind(value)}")
    except ExpressionError as error:
        return rejection(plan, plan.where, error, variant, config)
    return value


def rejection(plan: Plan, expression: Expression, error: ExpressionError, variant: Variant, config: Config) -> Rejected:
    """An expression that has no value in a variant, as an outcome that names the place and the variant."""
    scope = variant_scope(variant, config)
    shapes = [f"{name} {list(value.shape)}" for name, value in scope.items() if isinstance(value, TensorValue)]
    values = [f"{name}={value}" for name, value in config.items()]
    where = f" in variant {variant.variant_id} ({', '.join([*shapes, *values])[:300]})"
    lines = source_lines(plan.source)
    diagnostic = Diagnostic(
        severity="error",
        message=f"`{expression.text}`: {error.message}{where}",
        line=expression.line,
        column=expression.column + error.offset if expression.column else 0,
        source_line=lines[expression.line - 1][:200] if expression.line else "",
        hint=error.hint,
    )
    return located("contract_error", [diagnostic])


def size(value: Value) -> int:
    """A value as a size. Raises ExpressionError for one that is none."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExpressionError(f"a size is an integer, not {kind(value)}")
    if value < 0:
        raise ExpressionError(f"a size is not negative: {value}")
    return value


def argument(
    plan: Plan,
    variant: Variant,
    scope: Mapping[str, Value],
    expression: Expression,
    memory: Mapping[str, BoundArgument] | None = None,
) -> BoundArgument:
    """What an expression passes to a function. `memory` has the names of a step's own: intermediates, tensor maps.

    Raises:
        ExpressionError: it has no value, or one that cannot be passed.
    """
    tree = expression.tree
    if isinstance(tree, ast.Name):
        named = (memory or {}).get(tree.id) or _named(plan, variant, tree.id)
        if named:
            return named
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        listed = variant.argument(tree.value.id)
        if listed and listed.kind == "tensors":
            index = evaluate(Expression(expression.text, tree.slice), scope)
            evaluate(expression, scope)
            assert isinstance(index, int)
            position = range(len(listed.tensors))[index]
            return _pointer(plan, variant, listed.tensors[position], f"{listed.name}[{position}]")
    value = evaluate(expression, scope)
    if isinstance(value, bool):
        return BoundArgument(kind="scalar", scalar_type="bool", value=value)
    if isinstance(value, int):
        return BoundArgument(kind="scalar", scalar_type="int64", value=value)
    if isinstance(value, float):
        return BoundArgument(kind="scalar", scalar_type=floating_scalar(variant), value=value)
    raise ExpressionError(
        f"{kind(value)} cannot be passed to a kernel",
        hint="pass tensors, integers, booleans or floating-point constants",
    )


def floating_scalar(variant: Variant) -> ScalarType:
    """How a variant's floating-point constants are passed: `double` if it has fp64 tensors, else `float`."""
    specs = (*variant.tensors, *variant.outputs)
    return "double" if any(spec.dtype == "fp64" for spec in specs) else "float"


def _named(plan: Plan, variant: Variant, name: str) -> BoundArgument | None:
    outputs = [] if plan.inplace else output_names(variant)
    if name in outputs:
        _check_dtype(plan, variant.outputs[outputs.index(name)].dtype, name)
        return BoundArgument(kind="output", index=outputs.index(name), name=name)
    for index, space in enumerate(plan.workspace):
        if space.name == name:
            return BoundArgument(kind="workspace", index=index, name=name)
    found = variant.argument(name)
    if found is None or (found.kind == "constant" and found.value is not None):
        return None
    if found.kind == "tensor":
        return _pointer(plan, variant, found.tensors[0], name)
    if found.kind == "tensors":
        raise ExpressionError(
            f"`{name}` is a list of {len(found.tensors)} tensors: pass its elements", hint=f"write {name}[0]"
        )
    return BoundArgument(kind="null", name=name)


def _pointer(plan: Plan, variant: Variant, index: int, name: str) -> BoundArgument:
    _check_dtype(plan, variant.tensors[index].dtype, name)
    return BoundArgument(kind="tensor", index=index, name=name)


def _check_dtype(plan: Plan, dtype: str, name: str) -> None:
    if tensor_type(dtype, plan.target) is None:
        device = "the CPU" if plan.target == "cpu" else "CUDA"
        raise ExpressionError(f"`{name}` is of type {dtype}, which candidates for {device} cannot take")
