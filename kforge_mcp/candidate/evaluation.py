"""The value of a size expression in a scope: 64-bit integers with Python's floor semantics, every overflow an error."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kforge_mcp.candidate.syntax import INT64_MAX, Expression, ExpressionError

INT64_MIN = -INT64_MAX - 1


@dataclass(frozen=True)
class TensorValue:
    """What an expression can ask of a tensor. Shape and stride in elements."""

    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    itemsize: int

    @property
    def ndim(self) -> int:
        """Dimensions."""
        return len(self.shape)

    @property
    def numel(self) -> int:
        """Elements."""
        return math.prod(self.shape)

    @property
    def is_dense(self) -> bool:
        """Whether the elements lie row by row without gaps; strides of single elements do not count."""
        pairs = zip(self.shape, self.stride, dense_strides(self.shape), strict=True)
        return self.numel == 0 or all(step == wanted for length, step, wanted in pairs if length > 1)


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a row-major tensor, in elements."""
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


Value = bool | int | float | str | None | TensorValue | tuple["Value", ...]
Scope = Mapping[str, Value]


def evaluate(expression: Expression, scope: Scope) -> Value:
    """The value of an expression.

    Raises:
        ExpressionError: an unknown name, a wrong kind of operand, an index out of range, a division that is not
            exact or by zero, or a result outside 64 bits.
    """
    return _value(expression.tree, scope)


def _value(node: ast.expr, scope: Scope) -> Value:
    match node:
        case ast.Constant(value=value):
            assert value is None or isinstance(value, (bool, int, float, str))
            return value
        case ast.Name(id=name):
            if name not in scope:
                raise ExpressionError(f"`{name}` is not known here", node.col_offset)
            return scope[name]
        case ast.Tuple(elts=items):
            return tuple(_value(item, scope) for item in items)
        case ast.Attribute():
            return getattr(_tensor(node.value, scope), node.attr)
        case ast.Subscript():
            return _index(node, scope)
        case ast.UnaryOp():
            return _unary(node, scope)
        case ast.BinOp():
            left, right = _integer(node.left, scope), _integer(node.right, scope)
            return _bounded(_arithmetic(node, left, right), node)
        case ast.BoolOp(op=operator):
            values = (_boolean(value, scope) for value in node.values)
            return any(values) if isinstance(operator, ast.Or) else all(values)
        case ast.Compare():
            return _compare(node, scope)
        case ast.Call(func=ast.Name(id=name)):
            numbers = [_integer(argument, scope) for argument in node.args]
            if name == "ceil_div":
                if numbers[1] == 0:
                    raise ExpressionError("division by zero", node.args[1].col_offset)
                return _bounded(-(-numbers[0] // numbers[1]), node)
            return min(numbers) if name == "min" else max(numbers)
        case _:
            raise AssertionError(f"{type(node).__name__} passed the whitelist")


def kind(value: Value) -> str:
    """What a value is, in words."""
    if isinstance(value, TensorValue):
        return "a tensor"
    names = {bool: "a boolean", int: "an integer", float: "a floating-point number", str: "a string", tuple: "a tuple"}
    return names.get(type(value), "None")


def _integer(node: ast.expr, scope: Scope) -> int:
    value = _value(node, scope)
    if isinstance(value, bool) or not isinstance(value, int):
        hint = "write x.numel, x.shape[i], ... of it" if isinstance(value, TensorValue) else ""
        if isinstance(value, float):
            hint = "arithmetic is on integers: pass the constant itself and compute in the kernel"
        raise ExpressionError(f"an integer is needed here, not {kind(value)}", node.col_offset, hint=hint)
    return value


def _boolean(node: ast.expr, scope: Scope) -> bool:
    value = _value(node, scope)
    if not isinstance(value, bool):
        raise ExpressionError(
            f"a condition is needed here, not {kind(value)}", node.col_offset, hint="write a comparison"
        )
    return value


def _tensor(node: ast.expr, scope: Scope) -> TensorValue:
    value = _value(node, scope)
    if not isinstance(value, TensorValue):
        what = "an absent tensor (None)" if value is None else kind(value)
        hint = "ask `is not None` first" if value is None else ""
        raise ExpressionError(f"a tensor is needed here, not {what}", node.col_offset, hint=hint)
    return value


def _bounded(value: int, node: ast.expr) -> int:
    if not INT64_MIN <= value <= INT64_MAX:
        raise ExpressionError("the result does not fit 64 bits", node.col_offset)
    return value


def _index(node: ast.Subscript, scope: Scope) -> Value:
    if isinstance(node.value, ast.Attribute):
        items: Value = getattr(_tensor(node.value.value, scope), node.value.attr)
        what = f"`.{node.value.attr}`"
    else:
        items = _value(node.value, scope)
        what = f"`{ast.unparse(node.value)}`"
    if not isinstance(items, tuple):
        raise ExpressionError(f"{what} is {kind(items)} and has no elements", node.col_offset)
    index = _integer(node.slice, scope)
    if not -len(items) <= index < len(items):
        raise ExpressionError(f"index {index} is out of range: {what} has {len(items)} elements", node.col_offset)
    return items[index]


def _unary(node: ast.UnaryOp, scope: Scope) -> Value:
    if isinstance(node.op, ast.Not):
        return not _boolean(node.operand, scope)
    if isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, float):
        return -node.operand.value if isinstance(node.op, ast.USub) else node.operand.value
    value = _integer(node.operand, scope)
    return _bounded(-value, node) if isinstance(node.op, ast.USub) else value


def _arithmetic(node: ast.BinOp, left: int, right: int) -> int:
    match node.op:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Pow():
            return _power(node, left, right)
    if right == 0:
        raise ExpressionError("division by zero", node.right.col_offset)
    if isinstance(node.op, ast.FloorDiv):
        return left // right
    if isinstance(node.op, ast.Mod):
        return left % right
    if left % right:
        raise ExpressionError(
            f"{left} / {right} is not exact", node.col_offset, hint="use // (rounds down) or ceil_div (rounds up)"
        )
    return left // right


def _power(node: ast.BinOp, base: int, exponent: int) -> int:
    if exponent < 0:
        raise ExpressionError(f"a negative exponent ({exponent}) gives no integer", node.right.col_offset)
    if exponent > 64 and abs(base) > 1:
        raise ExpressionError("the result does not fit 64 bits", node.col_offset)
    if exponent > 64:
        exponent = 64 + exponent % 2
    return base**exponent


def _compare(node: ast.Compare, scope: Scope) -> bool:
    if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return (_value(node.left, scope) is None) == isinstance(node.ops[0], ast.Is)
    left = _value(node.left, scope)
    for operator, right_node in zip(node.ops, node.comparators, strict=True):
        right = _value(right_node, scope)
        if not _holds(operator, left, right, right_node):
            return False
        left = right
    return True


def _holds(operator: ast.cmpop, left: Value, right: Value, node: ast.expr) -> bool:
    numbers = all(isinstance(side, (int, float)) and not isinstance(side, bool) for side in (left, right))
    equality = isinstance(operator, (ast.Eq, ast.NotEq))
    same = any(isinstance(left, one) and isinstance(right, one) for one in (bool, str))
    if not numbers and not (equality and same):
        raise ExpressionError(f"{kind(left)} and {kind(right)} cannot be compared like this", node.col_offset)
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)  # pyright: ignore[reportArgumentType]
    match operator:
        case ast.Eq():
            return left == right
        case ast.NotEq():
            return left != right
        case ast.Lt():
            return left < right  # pyright: ignore[reportOperatorIssue]
        case ast.LtE():
            return left <= right  # pyright: ignore[reportOperatorIssue]
        case ast.Gt():
            return left > right  # pyright: ignore[reportOperatorIssue]
        case _:
            return left >= right  # pyright: ignore[reportOperatorIssue]
