from __future__ import annotations

import pytest

from kforge_mcp.candidate.expressions import ExpressionError, TensorValue, Value, evaluate, parse_expression

X = TensorValue("bf16", (2, 3, 4), (12, 4, 1), 2)
SCOPE: dict[str, Value] = {
    "x": X,
    "weight": None,
    "eps": 1e-5,
    "n": -7,
    "kernel_size": (3, 5),
    "mode": "nearest",
    "flag": True,
    "tensors": (X, X),
    "BLOCK": 128,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("x.numel // x.shape[-1]", 6),
        ("x.stride[0] * x.itemsize", 24),
        ("tensors[1].shape[0]", 2),
        ("n // 2", -4),
        ("n % 4", 1),
        ("-n / 7", 1),
        ("ceil_div(n, 2)", -3),
        ("(-2) ** 63", -(2**63)),
        ("0 ** 0 + 1 ** 1000000 + (-1) ** 1000001", 1),
        ("min(3, n, BLOCK)", -7),
        ("kernel_size[-1]", 5),
        ('x.dtype == "bf16" and weight is None', True),
        ("weight is not None and weight.numel > 3", False),
        ("0 < x.ndim < 4 and not flag", False),
        ("eps < 1", True),
        ("eps", 1e-5),
        ('mode == "nearest"', True),
        ("flag == False", False),
        ("-1.5", -1.5),
    ],
)
def test_an_expression_has_its_value(text: str, value: Value) -> None:
    result = evaluate(parse_expression(text), SCOPE)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "offset", "part"),
    [
        ("x.size(0)", 0, "method call"),
        ("1 + x.numel()", 4, "method call"),
        ("lambda: 1", 0, "lambda"),
        ("x.shape", 0, "needs an index"),
        ("x.shpae[0]", 0, "no `shpae`"),
        ("x.__class__", 0, "no `__class__`"),
        ("__import__('os')", 0, "cannot be called"),
        ("1 if flag else 2", 0, "conditional"),
        ("[1, 2]", 0, "a list"),
        ("n << 2", 0, "<<"),
        ("n in kernel_size", 0, "`in`"),
        ("n is 7", 0, "`is`"),
        ("x.shape[0:2]", 8, "slices"),
        ("2 * None", 4, "None"),
        ("9223372036854775808", 0, "64 bits"),
        ("min(n)", 0, "at least 2"),
        ("ceil_div(1, 2, 3)", 0, "2 arguments"),
        ("min(n, key=3)", 11, "keyword"),
        ("f'{n}'", 0, "f-string"),
        ("(n := 3)", 1, "assignment"),
        ("b'x'", 0, "literal"),
        ("1j", 0, "number"),
        ("1e999", 0, "too large"),
        ("2 and", 5, "not an expression"),
        ("n n", 2, "not an expression"),
        ("n \\\n", 2, "character"),
        ("n + ñ", 4, "character"),
        ("", 0, "empty"),
        ("0x10", 0, "decimal"),
    ],
)
def test_what_is_not_on_the_whitelist_is_refused_at_its_place(text: str, offset: int, part: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_expression(text)
    assert part in caught.value.message
    assert caught.value.offset == offset


@pytest.mark.parametrize(
    ("text", "offset", "part"),
    [
        ("x.shape[3]", 0, "out of range"),
        ("x.shape[-4]", 0, "out of range"),
        ("n / 2", 0, "not exact"),
        ("1 // (n + 7)", 6, "division by zero"),
        ("n % 0", 4, "division by zero"),
        ("2 ** 63", 0, "64 bits"),
        ("-9223372036854775807 - 2", 0, "64 bits"),
        ("(-9223372036854775807 - 1) // -1", 0, "64 bits"),
        ("2 ** n", 5, "negative exponent"),
        ("eps * 2", 0, "integer is needed"),
        ("flag + 1", 0, "integer is needed"),
        ("x + 1", 0, "not a tensor"),
        ("n and flag", 0, "condition is needed"),
        ("weight.numel", 0, "absent tensor"),
        ("mode.ndim", 0, "a string"),
        ("kernel_size[2]", 0, "out of range"),
        ("mode < 'a'", 7, "cannot be compared"),
        ("n == True", 5, "cannot be compared"),
        ("missing", 0, "not known"),
        ("n[0]", 0, "has no elements"),
    ],
)
def test_an_expression_without_a_value_says_why_and_where(text: str, offset: int, part: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse_expression(text), SCOPE)
    assert part in caught.value.message
    assert caught.value.offset == offset


def test_deep_nesting_and_long_text_are_refused_without_a_crash() -> None:
    for text in ("(" * 400 + "1" + ")" * 400, "-" * 500 + "1", "1+" * 3000 + "1", "not " * 200 + "flag"):
        with pytest.raises(ExpressionError):
            parse_expression(text)


def test_decisive_operands_end_the_evaluation() -> None:
    assert evaluate(parse_expression("x.ndim == 9 and x.shape[8] == 1"), SCOPE) is False
    assert evaluate(parse_expression("weight is None or weight.ndim == 1"), SCOPE) is True


def test_equal_trees_have_one_spelling() -> None:
    assert parse_expression(" x.numel//4 ").canonical == parse_expression("(x.numel) // 4").canonical
    assert parse_expression("'a' == mode").canonical == parse_expression('"a"==mode').canonical
