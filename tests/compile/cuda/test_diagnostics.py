from __future__ import annotations

import pytest

from kforge_mcp.compile.cuda.diagnostics import read_nvrtc_log
from tests.compile.cuda.conftest import CompileCuda, failed, ok
from tests.compile.cuda.programs import OPENING, PLAIN, candidate

FIRST = 8
"""The line of the code after `candidate`'s block."""


@pytest.mark.parametrize(
    ("code", "line", "column", "message", "hint"),
    [
        (OPENING + "\n    out[0] = missing;\n}", 1, 14, 'identifier "missing" is undefined', ""),
        (OPENING + "\n    out[0] = TILE;\n}", 1, 14, '"TILE" is undefined', "make it a tunable"),
        (OPENING + "\n    x[0] = 1;\n}", 1, 5, "modifiable lvalue", "inputs are pointers to const"),
        (OPENING + "\n    float* p = x;\n}", 1, 16, "cannot be used to initialize", "inputs are pointers to const"),
        (OPENING + "\n    out[0] = 1\n}", 2, 1, 'expected a ";"', "not finished"),
        ("float twice(float v) { return 2 * v; }\n" + OPENING + "}", 0, 7, "execution space", "mark it __device__"),
        (OPENING + "\n    float v[n];\n}", 1, 13, "constant value", "use a tunable"),
        (OPENING + "\n    weight_t v = 0;\n}", 1, 5, '"weight_t" is undefined', "kforge declares `<name>_t`"),
        (OPENING + "\n    k<<<1, 1>>>(x, scale, n, out);\n}", 1, 0, "", "[[step]]"),
        (OPENING + "\n    try { out[0] = 1; } catch (...) {}\n}", 1, 0, "xception", "no exceptions"),
        ("using x_t = double;\n" + OPENING + "}", 0, 7, "redeclaration", "kforge declares"),
        (OPENING + "\n    __shared__ float s[80000];\n    s[n] = 1; *out = s[2];\n}", -1, 0, "shared", "shared_bytes"),
        (OPENING + "\n    auto g = cg::this_grid();\n}", 1, 14, "", "#include <cooperative_groups.h>"),
        ("__device__ float f(float a, float b);\n" + OPENING + "\n    f(1);\n}", 2, 8, "too few arguments", ""),
    ],
)  # fmt: skip
def test_errors_have_their_place_and_a_hint(
    cuda: CompileCuda, code: str, line: int, column: int, message: str, hint: str
) -> None:
    outcome = failed(cuda(candidate(code)))
    first = outcome.diagnostics[0]
    assert outcome.reason == "syntax_error"
    assert first.severity == "error"
    assert message in first.message
    assert hint in first.hint
    if line >= 0:
        assert first.line == FIRST + line
        assert first.source_line.strip() == code.split("\n")[line].strip()
    if column:
        assert first.column == column


def test_sixteen_bit_types_say_how_to_convert(cuda: CompileCuda) -> None:
    from tests.compile.cuda.programs import card

    code = OPENING + "\n    float v = x[0] + 1.5 * x;\n    out[0] = v;\n}"
    outcome = failed(cuda(candidate(code), card("bf16")))
    assert outcome.diagnostics[0].line == FIRST + 1


def test_a_missing_kernel_instance_is_told_with_its_place(cuda: CompileCuda) -> None:
    code = "template <int N> " + OPENING + " out[0] = N; }"
    outcome = failed(cuda(candidate(code, kernel="k<float>")))
    assert outcome.reason == "contract_error"
    assert "`k<float>` does not name one kernel" in outcome.message


def test_an_open_brace_is_told_at_the_end(cuda: CompileCuda) -> None:
    outcome = failed(cuda(candidate(OPENING + "\n    if (n) {\n    out[0] = 1;\n}\n")))
    assert outcome.reason == "syntax_error"
    assert any("still open" in one.hint for one in outcome.diagnostics[:2])


def test_an_error_inside_a_header_is_placed_at_the_line_that_caused_it(cuda: CompileCuda) -> None:
    code = "#include <algorithm>\nstruct S {};\n" + OPENING + "\n    S a, b;\n    S c = std::max(a, b);\n}\n"
    first = failed(cuda(candidate(code))).diagnostics[0]
    assert first.line == FIRST + 4
    assert "(in algorithm)" in first.message


def test_warnings_come_with_success_and_after_errors(cuda: CompileCuda) -> None:
    unused = OPENING + "\n    int unused = 3;\n    out[0] = scale;\n"
    (warning,) = ok(cuda(candidate(unused + "}"))).diagnostics
    assert (warning.severity, warning.line) == ("warning", FIRST + 1)
    severities = [one.severity for one in failed(cuda(candidate(unused + "    missing();\n}"))).diagnostics]
    assert severities == sorted(severities)
    assert "error" in severities


def test_many_errors_stay_within_the_limit(cuda: CompileCuda) -> None:
    code = OPENING + "\n" + "".join(f"    out[{i}] = missing_name_{i};\n" for i in range(200)) + "}"
    outcome = failed(cuda(candidate(code)))
    assert len(outcome.message) <= 1500
    assert outcome.message.startswith(f"line {FIRST + 1}, column 14: ")


def test_output_that_is_no_diagnostic_yields_nothing() -> None:
    findings = read_nvrtc_log("odd\nptxas info : fine\n(3): \n\x00\n", PLAIN, (), ok=False)
    assert (findings.reason, findings.diagnostics) == (None, [])
