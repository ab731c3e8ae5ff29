"""Size expressions as C++17: the same tree that `evaluate` walks, over the helpers of `CPP_HELPERS`."""

from __future__ import annotations

import ast
import math

from kforge_mcp.candidate.syntax import Expression

CPP_HELPERS = r"""
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <vector>

namespace kforge {

// Thrown where the expression has no value: overflow, inexact or zero division, an index out of range, no tensor.
struct Undefined : std::domain_error { using std::domain_error::domain_error; };

struct Tensor {
    std::vector<int64_t> shape, stride;
    std::string_view dtype;
    int64_t itemsize = 0, ndim = 0, numel = 0;
    bool present = true;
};

inline int64_t add(int64_t a, int64_t b) {
    int64_t r; if (__builtin_add_overflow(a, b, &r)) throw Undefined("overflow"); return r;
}
inline int64_t sub(int64_t a, int64_t b) {
    int64_t r; if (__builtin_sub_overflow(a, b, &r)) throw Undefined("overflow"); return r;
}
inline int64_t mul(int64_t a, int64_t b) {
    int64_t r; if (__builtin_mul_overflow(a, b, &r)) throw Undefined("overflow"); return r;
}
inline int64_t negate(int64_t a) { return sub(0, a); }
inline int64_t floor_div(int64_t a, int64_t b) {
    if (b == 0) throw Undefined("division by zero");
    if (b == -1) return negate(a);
    int64_t q = a / b;
    return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}
inline int64_t floor_mod(int64_t a, int64_t b) {
    if (b == 0) throw Undefined("division by zero");
    if (b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}
inline int64_t exact_div(int64_t a, int64_t b) {
    if (floor_mod(a, b) != 0) throw Undefined("inexact division");
    return floor_div(a, b);
}
inline int64_t ceil_div(int64_t a, int64_t b) {
    if (b == 0) throw Undefined("division by zero");
    if (b == -1) return negate(a);
    int64_t q = a / b;
    return q + ((a % b != 0) && ((a < 0) == (b < 0)));
}
inline int64_t power(int64_t a, int64_t n) {
    if (n < 0) throw Undefined("negative exponent");
    int64_t r = 1;
    while (n > 0) {
        if (n & 1) r = mul(r, a);
        n >>= 1;
        if (n > 0) a = mul(a, a);
    }
    return r;
}
inline int64_t min(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max(int64_t a, int64_t b) { return a > b ? a : b; }
template <class Items> inline const auto& at(const Items& items, int64_t i) {
    int64_t n = static_cast<int64_t>(items.size());
    if (i < -n || i >= n) throw Undefined("index out of range");
    return items[static_cast<size_t>(i < 0 ? i + n : i)];
}
inline const Tensor& present(const Tensor& t) {
    if (!t.present) throw Undefined("an absent tensor has no sizes");
    return t;
}
inline bool is_none(const Tensor& t) { return !t.present; }
inline bool is_none(std::nullopt_t) { return true; }
template <class Other> inline bool is_none(const Other&) { return false; }

}  // namespace kforge
"""
"""C++17 that printed expressions need. A scope gives each tensor as `kforge::Tensor`, each tuple or list as a
`std::vector`, an absent constant as `std::nullopt`, strings as `std::string_view`."""

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "exact_div",
    ast.FloorDiv: "floor_div", ast.Mod: "floor_mod", ast.Pow: "power",
}  # fmt: skip
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


def print_cpp(expression: Expression) -> str:
    """The expression as C++17. Where `evaluate` raises for its operands' values, the C++ throws `kforge::Undefined`."""
    return _print(expression.tree)


def _print(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=value):
            return _literal(value)
        case ast.Name(id=name):
            return name
        case ast.Tuple(elts=items):
            return f"std::vector<int64_t>{{{', '.join(_print(item) for item in items)}}}"
        case ast.Attribute():
            return f"kforge::present({_print(node.value)}).{node.attr}"
        case ast.Subscript():
            if isinstance(node.value, ast.Attribute):
                items = f"kforge::present({_print(node.value.value)}).{node.value.attr}"
            else:
                items = _print(node.value)
            return f"kforge::at({items}, {_print(node.slice)})"
        case ast.UnaryOp(op=ast.Not()):
            return f"(!{_print(node.operand)})"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float())):
            return f"(-{_print(node.operand)})"
        case ast.UnaryOp(op=ast.USub()):
            return f"kforge::negate({_print(node.operand)})"
        case ast.UnaryOp():
            return _print(node.operand)
        case ast.BinOp():
            return f"kforge::{_BINARY[type(node.op)]}({_print(node.left)}, {_print(node.right)})"
        case ast.BoolOp():
            word = " || " if isinstance(node.op, ast.Or) else " && "
            return "(" + word.join(_print(value) for value in node.values) + ")"
        case ast.Compare():
            return _compare(node)
        case ast.Call(func=ast.Name(id=name)):
            text = _print(node.args[0])
            for argument in node.args[1:]:
                text = f"kforge::{name}({text}, {_print(argument)})"
            return text
        case _:
            raise AssertionError(f"{type(node).__name__} passed the whitelist")


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"INT64_C({value})"
    if isinstance(value, float):
        if math.isnan(value):
            return '__builtin_nan("")'
        return value.hex() if math.isfinite(value) else f"({'-' if value < 0 else ''}__builtin_inf())"
    text = str(value).replace('"', '\\"')
    return f'std::string_view("{text}")'


def _compare(node: ast.Compare) -> str:
    if isinstance(node.ops[0], (ast.Is, ast.IsNot)):
        return ("" if isinstance(node.ops[0], ast.Is) else "!") + f"kforge::is_none({_print(node.left)})"
    sides = [_print(side) for side in (node.left, *node.comparators)]
    links = [
        f"({left} {_COMPARISONS[type(operator)]} {right})"
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False)
    ]
    return links[0] if len(links) == 1 else "(" + " && ".join(links) + ")"
