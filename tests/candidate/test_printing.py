"""Both readings of a tree agree: what `evaluate` computes is what the printed C++ computes, compiled and run."""

from __future__ import annotations

import random
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kforge_mcp.candidate.expressions import (
    CPP_HELPERS,
    ExpressionError,
    TensorValue,
    Value,
    evaluate,
    parse_expression,
    print_cpp,
)

COUNT = 10_000
UNITS = 8
X = TensorValue("bf16", (2, 3, 0, 7), (21, 7, 7, 1), 2)
SCOPE: dict[str, Value] = {
    "x": X,
    "weight": None,
    "tensors": (X, TensorValue("fp32", (5,), (1,), 4)),
    "eps": 0.125,
    "odd": float("nan"),
    "n": -7,
    "big": 2**62,
    "sizes": (3, -5, 11),
    "mode": "nearest",
    "flag": True,
}
CPP_SCOPE = """
const kforge::Tensor x{{2, 3, 0, 7}, {21, 7, 7, 1}, "bf16", 2, 4, 0, true};
const kforge::Tensor weight{{}, {}, "", 0, 0, 0, false};
const std::vector<kforge::Tensor> tensors{x, {{5}, {1}, "fp32", 4, 1, 5, true}};
const double eps = 0.125, odd = __builtin_nan("");
const int64_t n = -7, big = INT64_C(1) << 62;
const std::vector<int64_t> sizes{3, -5, 11};
const std::string_view mode = "nearest";
const bool flag = true;
"""
EDGES = (2**31, 2**62, 2**63 - 1, -(2**63) + 1, 63, 64, 65, 4294967296)
LEAVES = (
    "n", "big", "x.ndim", "x.numel", "x.itemsize", "x.shape[0]", "x.stride[-4]", "sizes[1]", "tensors[1].numel",
    "tensors[0].shape[3]", "weight.numel", "weight.shape[0]", "(-9223372036854775807 - 1)", "-9223372036854775807",
)  # fmt: skip
FACTS = (
    "weight is None", "x is not None", "n is None", 'x.dtype == "bf16"', "mode != 'near'", "flag", "flag != True",
    'tensors[1].dtype == "fp32"', "weight is not None and weight.numel > 0", "odd < eps", "odd == odd",
    "weight is None or weight.ndim == 1",
)  # fmt: skip
ORDER = ("<", "<=", ">", ">=", "==", "!=")


class Author:
    """Writes random expressions of every allowed form, with operands around zero and at the limits of 64 bits."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def number(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.15:
            return self._leaf()
        inner = depth - 1
        if pick < 0.72:
            operator = self.random.choice(("+", "-", "*", "//", "%", "/", "**"))
            return f"({self.number(inner)} {operator} {self.number(inner)})"
        if pick < 0.8:
            return f"ceil_div({self.number(inner)}, {self.number(inner)})"
        if pick < 0.9:
            count = self.random.choice((2, 3))
            name = self.random.choice(("min", "max"))
            return f"{name}({', '.join(self.number(inner) for _ in range(count))})"
        if pick < 0.96:
            return f"-{self.number(inner)}"
        return f"sizes[{self.number(inner)}]"

    def condition(self, depth: int) -> str:
        pick = self.random.random()
        if depth == 0 or pick < 0.4:
            return self._comparison()
        inner = depth - 1
        if pick < 0.85:
            word = self.random.choice(("and", "or"))
            return f"({self.condition(inner)} {word} {self.condition(inner)})"
        return f"(not ({self.condition(inner)}))"

    def _leaf(self) -> str:
        pick = self.random.random()
        if pick < 0.45:
            value = self.random.randint(-9, 9)
        elif pick < 0.6:
            value = self.random.choice(EDGES)
        elif pick < 0.8:
            return self.random.choice(LEAVES)
        else:
            index = self.random.randint(-6, 6)
            return self.random.choice((f"x.shape[{index}]", f"x.stride[{index}]", f"sizes[{index}]"))
        return f"({value})" if value < 0 else str(value)

    def _comparison(self) -> str:
        pick = self.random.random()
        if pick < 0.3:
            return self.random.choice(FACTS)
        parts = [self.number(2), self.random.choice(ORDER), self.number(2) if pick < 0.9 else "eps"]
        if pick < 0.5:
            parts += [self.random.choice(ORDER), self.number(1)]
        return " ".join(parts)


def _expected(text: str) -> str:
    try:
        return str(int(evaluate(parse_expression(text), SCOPE)))  # pyright: ignore[reportArgumentType]
    except ExpressionError:
        return "undefined"


def _program(texts: list[str]) -> str:
    functions = [
        f"static int64_t f{index}() {{ return {print_cpp(parse_expression(text))}; }}"
        for index, text in enumerate(texts)
    ]
    table = ", ".join(f"f{index}" for index in range(len(texts)))
    main = f"""int64_t (*const all[])() = {{{table}}};
int main() {{
    for (auto one : all) {{
        try {{ std::printf("%lld\\n", (long long)one()); }}
        catch (const kforge::Undefined&) {{ std::puts("undefined"); }}
    }}
}}
"""
    return "\n".join(["#include <cstdio>", CPP_HELPERS, CPP_SCOPE, *functions, main])


def _run(compiler: str, folder: Path, number: int, texts: list[str]) -> list[str]:
    source, program = folder / f"agree{number}.cpp", folder / f"agree{number}"
    source.write_text(_program(texts))
    command = [compiler, "-std=c++17", "-O0", "-w", "-ftrapv", str(source), "-o", str(program)]
    subprocess.run(command, check=True)
    return subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout.split()


def test_evaluation_and_printed_cpp_agree_on_ten_thousand_expressions(tmp_path: Path) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    author = Author(20250117)
    texts: dict[str, None] = {}
    while len(texts) < COUNT:
        text = author.number(3) if author.random.random() < 0.75 else author.condition(2)
        if len(text) <= 400:
            texts[text] = None
    units = [list(texts)[start::UNITS] for start in range(UNITS)]
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(lambda item: _run(compiler, tmp_path, *item), enumerate(units)))
    checked = [pair for some, found in zip(units, printed, strict=True) for pair in zip(some, found, strict=True)]
    assert len(checked) == COUNT
    differences = [(text, expected, found) for text, found in checked if (expected := _expected(text)) != found]
    assert differences == []
    undefined = sum(found == "undefined" for _, found in checked)
    assert 0.05 < undefined / COUNT < 0.8
    large = [int(found) for _, found in checked if found != "undefined" and abs(int(found)) >= 2**62]
    assert min(large) == -(2**63)
    assert max(large) == 2**63 - 1


@pytest.mark.parametrize(
    "text",
    [
        "big + (big - 1) + 1",
        "big * 2",
        "-big - big - 1",
        "-(-big - big)",
        "(-big - big) // -1",
        "ceil_div(-big - big, -1)",
        "2 ** 63",
        "(-2) ** 64",
    ],
)
def test_whatever_leaves_64_bits_has_no_value(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse_expression(text), SCOPE)
    assert "64 bits" in caught.value.message
