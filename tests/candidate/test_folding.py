"""What is left of an expression after folding has the value of the whole, and names nothing but the unknown."""

from __future__ import annotations

import pytest

from kforge_mcp.candidate.expressions import Expression, ExpressionError, Value, evaluate, parse_expression, print_cpp
from kforge_mcp.candidate.folding import fold
from tests.candidate.test_printing import SCOPE, Author

UNKNOWN = {"n", "big"}
COUNT = 5_000


def value_of(expression: Expression) -> Value | ExpressionError:
    try:
        return evaluate(expression, SCOPE)
    except ExpressionError as error:
        return error


def test_folding_keeps_the_value_of_five_thousand_expressions() -> None:
    author = Author(20250711)
    left = refused = 0
    for _ in range(COUNT):
        text = author.number(2) if author.random.random() < 0.5 else author.condition(2)
        expression = parse_expression(text)
        known = {name: value for name, value in SCOPE.items() if name not in UNKNOWN}
        try:
            folded = fold(expression, known, UNKNOWN)
        except ExpressionError:
            refused += 1  # a part that has no value, though it might never be asked for
            continue
        whole = value_of(expression)
        if not isinstance(folded, Expression):
            assert type(folded) is type(whole) and folded == whole, text
            continue
        left += 1
        assert {name for name, _ in folded.names} <= UNKNOWN, text
        assert print_cpp(folded)
        rest = value_of(folded)
        if isinstance(whole, ExpressionError):
            assert isinstance(rest, ExpressionError), text
        else:
            assert type(rest) is type(whole) and rest == whole, text
    assert left > COUNT / 20, (left, refused)
    assert refused < 0.9 * COUNT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("n * x.shape[0] + (3 - 1)", "n * 2 + 2"),
        ("flag and n > 3", "n > 3"),
        ("weight is not None and weight.numel > n", False),
        ("weight is None or weight.numel > n", True),
        ("n > 3 and mode == 'nearest'", "n > 3"),
        ("n > 3 and mode == 'near' and n > 4", "n > 3 and False"),
        ("x.shape[n + 9]", "(2, 3, 0, 7)[n + 9]"),
        ("min(n, sizes[2], 12)", "min(n, 11, 12)"),
        ("x.numel + 1", 1),
    ],
)
def test_known_parts_become_values(text: str, expected: object) -> None:
    known = {name: value for name, value in SCOPE.items() if name != "n"}
    folded = fold(parse_expression(text), known, {"n"})
    assert (folded.canonical if isinstance(folded, Expression) else folded) == expected
