"""Size expressions: text to a checked tree. The tree is Python's `ast`, restricted to a whitelist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from kforge_mcp.candidate.rejection import nearest

FUNCTIONS = ("min", "max", "ceil_div")
TENSOR_SCALARS = ("ndim", "numel", "itemsize", "dtype")
TENSOR_SEQUENCES = ("shape", "stride")
INT64_MAX = 2**63 - 1
MAX_CHARACTERS = 1000
MAX_DEPTH = 60

_BINARY = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Is, ast.IsNot)
_ADVICE = {
    "size": "write x.shape[i]",
    "dim": "write x.ndim",
    "ndim": "write x.ndim without parentheses",
    "stride": "write x.stride[i]",
    "shape": "write x.shape[i]",
    "numel": "write x.numel without parentheses",
    "element_size": "write x.itemsize",
    "itemsize": "write x.itemsize without parentheses",
    "len": "write x.ndim",
}


class ExpressionError(Exception):
    """An expression that is refused or has no value; `offset` is its place in the expression's text, from 0."""

    def __init__(self, message: str, offset: int = 0, *, hint: str = "", malformed: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset
        self.hint = hint
        self.malformed = malformed
        """True where the text is not even Python."""


@dataclass(frozen=True)
class Expression:
    """A checked size expression. `line` and `column` say where it starts in the candidate's file, 0 if unknown."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)

    @property
    def canonical(self) -> str:
        """The expression in one spelling: equal trees give equal text."""
        return ast.unparse(self.tree)

    @property
    def names(self) -> Iterator[tuple[str, int]]:
        """Every name it uses, with the offset in the text; functions are not names."""
        called = {id(node.func) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and id(node) not in called:
                yield node.id, node.col_offset


def parse_expression(text: str, *, line: int = 0, column: int = 0) -> Expression:
    """Read a size expression.

    Raises:
        ExpressionError: the text is not an expression of the whitelist.
    """
    if len(text) > MAX_CHARACTERS:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_CHARACTERS} are read")
    if not text.strip():
        raise ExpressionError("an empty expression", malformed=True)
    odd = re.search(r"[^\x20-\x7e]|\\", text)
    if odd:
        raise ExpressionError(f"the character {odd.group()!r} does not belong in an expression", odd.start())
    joined = re.search(r"(?<![\w.])\d+(?:\.\d*)?(?:[eE][+-]?\d+)?+[A-Za-z_]", text)
    if joined:
        raise ExpressionError(
            "only decimal numbers are read, and a name cannot follow a number directly", joined.start(), malformed=True
        )
    body = text.lstrip()
    shift = len(text) - len(body)
    try:
        tree = ast.parse(body, mode="eval").body
    except SyntaxError as error:
        place = shift + (error.offset - 1 if error.offset else len(body))
        raise ExpressionError(f"not an expression: {error.msg}", place, malformed=True) from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise ExpressionError("the expression is nested too deeply or has a number too long to read") from error
    for node in ast.walk(tree):
        if isinstance(node, ast.expr):
            node.col_offset += shift
    _check(tree, 0)
    return Expression(text, tree, line, column)


def _check(node: ast.expr, depth: int) -> None:
    if depth > MAX_DEPTH:
        raise ExpressionError(f"nested more than {MAX_DEPTH} deep", node.col_offset)
    for part in _parts(node):
        _check(part, depth + 1)


def _parts(node: ast.expr) -> list[ast.expr]:
    """The operands of an allowed node. Raises ExpressionError for a node that is not allowed."""
    match node:
        case ast.Constant():
            return _constant(node)
        case ast.Name():
            return []
        case ast.Attribute():
            return _attribute(node)
        case ast.Subscript(value=value, slice=index):
            if isinstance(index, (ast.Slice, ast.Tuple)):
                raise ExpressionError("an index is one integer; slices are not read", index.col_offset)
            if isinstance(value, ast.Attribute) and value.attr in TENSOR_SEQUENCES:
                return [value.value, index]
            if isinstance(value, ast.Attribute) and value.attr not in TENSOR_SCALARS:
                return _attribute(value)
            if not isinstance(value, ast.Name):
                raise ExpressionError(
                    "only x.shape[i], x.stride[i], a tuple constant or a list of tensors can be indexed",
                    value.col_offset,
                )
            return [value, index]
        case ast.BinOp(op=operator) if isinstance(operator, _BINARY):
            return [node.left, node.right]
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() | ast.Not()):
            return [node.operand]
        case ast.BoolOp():
            return node.values
        case ast.Compare():
            return _compare(node)
        case ast.Call():
            return _call(node)
        case _:
            raise ExpressionError(f"{_describe(node)} is not allowed in an expression", node.col_offset, hint=_HELP)


_HELP = (
    "allowed: + - * // % ** and exact /, comparisons, and/or/not, `is None`, min, max, ceil_div, "
    "x.shape[i], x.stride[i], x.ndim, x.numel, x.itemsize, x.dtype, constants and tunables"
)


def _describe(node: ast.AST) -> str:
    names = {
        "Lambda": "a lambda", "IfExp": "a conditional (`a if b else c`)", "ListComp": "a comprehension",
        "GeneratorExp": "a generator", "Dict": "a dictionary", "Set": "a set", "List": "a list", "Tuple": "a tuple",
        "JoinedStr": "an f-string", "NamedExpr": "an assignment (`:=`)", "Await": "await", "Starred": "a `*` argument",
        "MatMult": "the operator @", "LShift": "the operator <<", "RShift": "the operator >>",
        "BitOr": "the operator |", "BitAnd": "the operator &", "BitXor": "the operator ^", "Invert": "the operator ~",
        "In": "`in`", "NotIn": "`not in`",
    }  # fmt: skip
    operator = getattr(node, "op", None)
    for candidate in (operator, node):
        if candidate is not None and type(candidate).__name__ in names:
            return names[type(candidate).__name__]
    return f"a {type(node).__name__}"


def _constant(node: ast.Constant) -> list[ast.expr]:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool) and value > INT64_MAX:
        raise ExpressionError(f"{value} does not fit 64 bits", node.col_offset)
    if value is None:
        raise ExpressionError("None is written only as `x is None` or `x is not None`", node.col_offset)
    if not isinstance(value, (bool, int, float, str)):
        raise ExpressionError(f"a literal {value!r} is not allowed in an expression", node.col_offset)
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        raise ExpressionError("the number is too large for a double", node.col_offset)
    return []


def _attribute(node: ast.Attribute) -> list[ast.expr]:
    if node.attr in TENSOR_SEQUENCES:
        raise ExpressionError(f"`{node.attr}` needs an index: `.{node.attr}[i]`", node.col_offset)
    if node.attr not in TENSOR_SCALARS:
        known = ", ".join((*TENSOR_SEQUENCES, *TENSOR_SCALARS))
        raise ExpressionError(
            f"a tensor has no `{node.attr}` in expressions", node.col_offset, hint=_attribute_hint(node.attr, known)
        )
    if not isinstance(node.value, (ast.Name, ast.Subscript)):
        raise ExpressionError(f"`.{node.attr}` belongs behind the name of a tensor", node.col_offset)
    return [node.value]


def _attribute_hint(name: str, known: str) -> str:
    close = nearest(name, (*TENSOR_SEQUENCES, *TENSOR_SCALARS))
    return _ADVICE.get(name) or (f"did you mean `{close}`?" if close else f"known: {known}")


def _compare(node: ast.Compare) -> list[ast.expr]:
    for operator in node.ops:
        if not isinstance(operator, _COMPARISONS):
            raise ExpressionError(f"{_describe(operator)} is not allowed in an expression", node.col_offset, hint=_HELP)
    identity = [operator for operator in node.ops if isinstance(operator, (ast.Is, ast.IsNot))]
    if not identity:
        return [node.left, *node.comparators]
    right = node.comparators[0]
    if len(node.ops) > 1 or not (isinstance(right, ast.Constant) and right.value is None):
        raise ExpressionError("`is` is written only as `x is None` or `x is not None`", node.col_offset)
    if not isinstance(node.left, (ast.Name, ast.Subscript)):
        raise ExpressionError("`is None` asks about an argument by its name", node.left.col_offset)
    return [node.left]


def _call(node: ast.Call) -> list[ast.expr]:
    if isinstance(node.func, ast.Attribute):
        raise ExpressionError(
            f"`.{node.func.attr}(...)` is a method call, which is not allowed in an expression",
            node.col_offset,
            hint=_ADVICE.get(node.func.attr, _HELP),
        )
    if not isinstance(node.func, ast.Name):
        raise ExpressionError("only min, max and ceil_div can be called", node.col_offset)
    name = node.func.id
    if name not in FUNCTIONS:
        hint = _ADVICE.get(name, "known functions: min, max, ceil_div")
        raise ExpressionError(f"`{name}` cannot be called in an expression", node.col_offset, hint=hint)
    if node.keywords:
        raise ExpressionError(f"{name} takes no keyword arguments", node.keywords[0].value.col_offset)
    if name == "ceil_div" and len(node.args) != 2:
        raise ExpressionError(f"ceil_div takes 2 arguments, not {len(node.args)}", node.col_offset)
    if len(node.args) < 2:
        raise ExpressionError(f"{name} takes at least 2 arguments", node.col_offset)
    return node.args
