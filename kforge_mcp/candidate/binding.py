"""What each argument of a candidate stands for in one variant."""

from __future__ import annotations

import ast

from kforge_mcp.candidate.bound import BoundArgument, BoundWorkspace, ScalarType
from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.expressions import Expression, ExpressionError, TensorValue, Value, evaluate, kind
from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.rejection import Rejected, located
from kforge_mcp.candidate.scope import output_names, variant_scope
from kforge_mcp.records.result import Diagnostic
from kforge_mcp.records.variant import Variant

__all__ = ["BoundArgument", "BoundWorkspace", "ScalarType", "bind", "bind_workspaces", "claimed", "rejection"]

_CPU_DTYPES = frozenset({"fp64", "fp32", "fp16", "bf16", "int64", "int32", "int16", "int8", "uint8", "bool"})


def bind(plan: Plan, variant: Variant, config: Config) -> list[BoundArgument] | Rejected:
    """The arguments of a CPU candidate's `entry` for one variant and one configuration."""
    scope = variant_scope(variant, config)
    bound: list[BoundArgument] = []
    for expression in plan.args:
        try:
            bound.append(_argument(plan, variant, scope, expression))
        except ExpressionError as error:
            return rejection(plan, expression, error, variant, config)
    return bound


def bind_workspaces(plan: Plan, variant: Variant, config: Config) -> list[BoundWorkspace] | Rejected:
    """The workspaces of a plan with their sizes for one variant and one configuration."""
    scope = variant_scope(variant, config)
    bound: list[BoundWorkspace] = []
    for space in plan.workspace:
        sizes: list[int] = []
        for expression in space.shape:
            try:
                sizes.append(_size(evaluate(expression, scope)))
            except ExpressionError as error:
                return rejection(plan, expression, error, variant, config)
        bound.append(BoundWorkspace(name=space.name, dtype=space.dtype, shape=sizes, init=space.init))
    return bound


def claimed(plan: Plan, variant: Variant, config: Config) -> bool | Rejected:
    """The value of `where` for one variant; True without one."""
    if plan.where is None:
        return True
    try:
        value = evaluate(plan.where, variant_scope(variant, config))
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


def _size(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ExpressionError(f"a size is an integer, not {kind(value)}")
    if value < 0:
        raise ExpressionError(f"a size is not negative: {value}")
    return value


def _argument(plan: Plan, variant: Variant, scope: dict[str, Value], expression: Expression) -> BoundArgument:
    tree = expression.tree
    if isinstance(tree, ast.Name):
        named = _named(plan, variant, tree.id)
        if named:
            return named
    if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
        argument = variant.argument(tree.value.id)
        if argument and argument.kind == "tensors":
            index = evaluate(Expression(expression.text, tree.slice), scope)
            evaluate(expression, scope)
            assert isinstance(index, int)
            position = range(len(argument.tensors))[index]
            return _pointer(variant, argument.tensors[position], f"{argument.name}[{position}]")
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
    outputs = output_names(variant)
    if name in outputs:
        _check_dtype(variant.outputs[outputs.index(name)].dtype, name)
        return BoundArgument(kind="output", index=outputs.index(name), name=name)
    for index, space in enumerate(plan.workspace):
        if space.name == name:
            return BoundArgument(kind="workspace", index=index, name=name)
    argument = variant.argument(name)
    if argument is None or (argument.kind == "constant" and argument.value is not None):
        return None
    if argument.kind == "tensor":
        return _pointer(variant, argument.tensors[0], name)
    if argument.kind == "tensors":
        raise ExpressionError(
            f"`{name}` is a list of {len(argument.tensors)} tensors: pass its elements", hint=f"write {name}[0]"
        )
    return BoundArgument(kind="null", name=name)


def _pointer(variant: Variant, index: int, name: str) -> BoundArgument:
    _check_dtype(variant.tensors[index].dtype, name)
    return BoundArgument(kind="tensor", index=index, name=name)


def _check_dtype(dtype: str, name: str) -> None:
    if dtype not in _CPU_DTYPES:
        raise ExpressionError(f"`{name}` is of type {dtype}, which candidates for the CPU cannot take")
