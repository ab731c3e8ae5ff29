"""Size expressions: one tree, two printers. Parsing, evaluation and C++ in their own modules, gathered here."""

from kforge_mcp.candidate.evaluation import Scope, TensorValue, Value, evaluate, kind
from kforge_mcp.candidate.printing import CPP_HELPERS, print_cpp
from kforge_mcp.candidate.syntax import Expression, ExpressionError, parse_expression

__all__ = [
    "CPP_HELPERS",
    "Expression",
    "ExpressionError",
    "Scope",
    "TensorValue",
    "Value",
    "evaluate",
    "kind",
    "parse_expression",
    "print_cpp",
]
