"""The part of a size expression that is known only where it runs: all that a variant settles becomes a value.

What is left over names nothing but the `unknown`, so it can be printed as C++ without the variant's scope, and a branch
that the variant rules out (`scale > 0` where `scale` is None) is not there to be compiled.
"""

from __future__ import annotations

import ast
from collections.abc import Collection

from kforge_mcp.candidate.evaluation import INT64_MIN, Scope, TensorValue, Value, evaluate, kind
from kforge_mcp.candidate.syntax import Expression, ExpressionError


def fold(expression: Expression, scope: Scope, unknown: Collection[str]) -> Value | Expression:
    """The expression's value, or what is left of it when every name but the `unknown` has its value from `scope`.

    Raises:
        ExpressionError: a part that does not depend on the unknown has no value.
    """
    folder = _Folder(scope, frozenset(unknown))
    tree = ast.fix_missing_locations(folder.tree(expression.tree))
    return Expression(expression.text, tree) if folder.depends(tree) else evaluate(Expression("", tree), scope)


def depends(expression: Expression, unknown: Collection[str]) -> bool:
    """Whether an expression names one of the unknown."""
    return any(name in unknown for name, _ in expression.names)


class _Folder:
    def __init__(self, scope: Scope, unknown: frozenset[str]) -> None:
        self._scope = scope
        self._unknown = unknown

    def depends(self, node: ast.expr) -> bool:
        return any(isinstance(part, ast.Name) and part.id in self._unknown for part in ast.walk(node))

    def tree(self, node: ast.expr) -> ast.expr:
        if not self.depends(node):
            # A name or a tensor is no literal: it stays for the caller to evaluate.
            value = evaluate(Expression("", node), self._scope)
            return _literal(value) if isinstance(value, (bool, int, float, str)) else node
        match node:
            case ast.BoolOp():
                return self._condition(node)
            case ast.BinOp():
                return ast.BinOp(self.tree(node.left), node.op, self.tree(node.right))
            case ast.UnaryOp():
                return ast.UnaryOp(node.op, self.tree(node.operand))
            case ast.Compare():
                return ast.Compare(self.tree(node.left), node.ops, [self.tree(one) for one in node.comparators])
            case ast.Call():
                return ast.Call(node.func, [self.tree(one) for one in node.args], [])
            case ast.Subscript():
                return self._element(node)
            case _:
                return node

    def _condition(self, node: ast.BoolOp) -> ast.expr:
        """Operands in order, those known left out, and none behind one that decides, as in Python."""
        deciding = isinstance(node.op, ast.Or)
        kept: list[ast.expr] = []
        for operand in node.values:
            folded = self.tree(operand)
            if not isinstance(folded, ast.Constant):
                kept.append(folded)
            elif folded.value is deciding:
                kept.append(folded)
                break
            elif not isinstance(folded.value, bool):
                raise ExpressionError("a condition is needed here", operand.col_offset, hint="write a comparison")
        return kept[0] if len(kept) == 1 else ast.BoolOp(node.op, kept)

    def _element(self, node: ast.Subscript) -> ast.expr:
        """An element whose place is known only where it runs takes its list along, as a tuple of numbers."""
        if self.depends(node.value):
            return ast.Subscript(node.value, self.tree(node.slice))
        items = self._items(node.value)
        if not all(type(item) is int for item in items):
            raise ExpressionError("only an element of a list of integers can be chosen at run time", node.col_offset)
        return ast.Subscript(ast.Tuple([_literal(item) for item in items]), self.tree(node.slice))  # pyright: ignore[reportArgumentType]

    def _items(self, node: ast.expr) -> tuple[Value, ...]:
        if isinstance(node, ast.Attribute):
            tensor = evaluate(Expression("", node.value), self._scope)
            if not isinstance(tensor, TensorValue):
                raise ExpressionError(f"a tensor is needed here, not {kind(tensor)}", node.col_offset)
            return getattr(tensor, node.attr)
        items = evaluate(Expression("", node), self._scope)
        if not isinstance(items, tuple):
            raise ExpressionError(f"{kind(items)} has no elements", node.col_offset)
        return items


def _literal(value: bool | int | float | str) -> ast.expr:
    if type(value) is int and value == INT64_MIN:
        # The least integer has no literal of its own in C++.
        return ast.BinOp(ast.Constant(value + 1), ast.Sub(), ast.Constant(1))
    return ast.Constant(value)
