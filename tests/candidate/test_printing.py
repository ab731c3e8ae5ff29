"""Both readings of a tree agree: what `evaluate` computes is what the printed C++ computes, compiled and run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kforge_mcp.candidate.expressions import (
    CPP_HELPERS,
    ExpressionError,
    TensorValue,
    Value,
    evaluate,
    parse_expression,
    print_cpp,
)

SCOPE: dict[str, Value] = {
    "x": TensorValue("bf16", (2, 3, 0, 7), (21, 7, 7, 1), 2),
    "weight": None,
    "eps": 0.125,
    "n": -7,
    "big": 2**62,
    "sizes": (3, -5, 11),
    "mode": "nearest",
    "flag": True,
}
CPP_SCOPE = """
const kforge::Tensor x{{2, 3, 0, 7}, {21, 7, 7, 1}, "bf16", 2, 4, 0, true};
const kforge::Tensor weight{{}, {}, "", 0, 0, 0, false};
const double eps = 0.125;
const int64_t n = -7, big = INT64_C(1) << 62;
const std::vector<int64_t> sizes{3, -5, 11};
const std::string_view mode = "nearest";
const bool flag = true;
"""

integers = st.one_of(st.integers(-9, 9), st.sampled_from([2**31, 2**62, 2**63 - 1, -(2**63) + 1, 63, 64, 65]))
leaves = st.one_of(
    integers.map(lambda value: f"({value})" if value < 0 else str(value)),
    st.sampled_from(["n", "big", "x.ndim", "x.numel", "x.itemsize", "x.shape[0]", "x.stride[-4]", "sizes[1]"]),
    st.integers(-6, 6).map(lambda index: f"x.shape[{index}]"),
    st.integers(-4, 4).map(lambda index: f"sizes[{index}]"),
)
operators = st.sampled_from(["+", "-", "*", "//", "%", "/", "**"])


def _larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, operators, inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(st.sampled_from(["min", "max", "ceil_div"]), inner, inner).map(lambda t: f"{t[0]}({t[1]}, {t[2]})"),
        st.tuples(inner, inner, inner).map(lambda t: f"max({', '.join(t)})"),
        inner.map(lambda text: f"-{text}"),
        inner.map(lambda text: f"sizes[{text}]"),
    )


numbers = st.recursive(leaves, _larger, max_leaves=8)
order = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
comparisons = st.one_of(
    st.tuples(numbers, order, numbers).map(" ".join),
    st.tuples(numbers, order, numbers, order, numbers).map(" ".join),
    st.tuples(numbers, order).map(lambda t: f"{t[0]} {t[1]} eps"),
    st.sampled_from(
        ["weight is None", "x is not None", "n is None", 'x.dtype == "bf16"', "mode != 'near'", "flag", "flag != True"]
    ),
)
conditions = st.recursive(
    comparisons,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda t: f"({' '.join(t)})"),
        inner.map(lambda text: f"(not ({text}))"),
    ),
    max_leaves=4,
)


def _expected(text: str) -> str:
    try:
        return str(int(evaluate(parse_expression(text), SCOPE)))  # pyright: ignore[reportArgumentType]
    except ExpressionError:
        return "undefined"


def test_evaluation_and_printed_cpp_agree(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    texts: dict[str, None] = {}

    @settings(
        max_examples=600,
        database=None,
        deadline=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.one_of(numbers, conditions))
    def collect(text: str) -> None:
        texts[text] = None

    collect()
    lines = [
        f'try {{ std::printf("%lld\\n", (long long)({print_cpp(parse_expression(text))})); }}'
        ' catch (const kforge::Undefined&) { std::puts("undefined"); }'
        for text in texts
    ]
    functions = [f"static void part{index}() {{\n{line}\n}}" for index, line in enumerate(lines)]
    calls = "\n".join(f"part{index}();" for index in range(len(lines)))
    source = tmp_path / "agree.cpp"
    source.write_text(
        "\n".join(["#include <cstdio>", CPP_HELPERS, CPP_SCOPE, *functions, f"int main() {{\n{calls}\n}}\n"])
    )
    program = tmp_path / "agree"
    subprocess.run([compiler, "-std=c++17", "-O0", "-w", str(source), "-o", str(program)], check=True)
    printed = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()
    assert len(texts) > 400
    differences = [
        (text, expected, found)
        for text, found in zip(texts, printed, strict=True)
        if (expected := _expected(text)) != found
    ]
    assert differences == []
    assert 0.05 < sum(found == "undefined" for found in printed) / len(printed) < 0.8
