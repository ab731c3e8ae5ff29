from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.candidate.signature import minimal_candidate
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.compiler import Compiled, CompileFailed, CompileOutcome, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import JobCancelled
from tests.candidate.cards import absent, candidate_text, constant, dense, make_card, make_variant, rms_norm, tensor
from tests.candidate.test_signature import CARDS
from tests.compile.conftest import Compile
from tests.compile.native import call

CARD = make_card(rms_norm(2, 8))
_MEMORY_BOMB = (
    "template <int N, int M> struct F { static constexpr long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v; };\n"
    "template <int M> struct F<0, M> { static constexpr long v = M; };\n"
    "template <int N> struct G { static constexpr long v = F<N, 0>::v; };\n"
)
METADATA = 'entry = "k"\nargs = ["hidden_states", "weight", "out.numel", "out"]'
OPENING = 'extern "C" void k(const float* x, const float* w, int64_t n, float* o) {'


def source(code: str, metadata: str = METADATA) -> str:
    return candidate_text(metadata, code)


def ok(outcome: CompileOutcome) -> Compiled:
    assert isinstance(outcome, Compiled), outcome.message
    return outcome


def failed(outcome: CompileOutcome) -> CompileFailed:
    assert isinstance(outcome, CompileFailed)
    assert len(outcome.message) <= 1500
    return outcome


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.variants[0].arguments[0].name)
def test_the_minimal_candidate_compiles_without_a_warning(compiled: Compile, card: object) -> None:
    outcome = ok(compiled(minimal_candidate(card), card))  # pyright: ignore[reportArgumentType]
    assert [one for one in outcome.diagnostics if "by clang++ this runs on one thread" not in one.message] == []
    assert all(Path(binary.path).read_bytes()[:4] == b"\x7fELF" for binary in outcome.binaries)


def test_each_type_and_configuration_gets_its_binary(compiled: Compile) -> None:
    card = make_card(rms_norm(2, 8), rms_norm(3, 8, dtype="bf16", variant_id="v1"), rms_norm(4, 8, variant_id="v2"))
    metadata = (
        'entry = "k"\nargs = ["hidden_states", "out"]\nwhere = "A == 1 or out.shape[0] < 4"\n[tunables]\nA = [1, 2]'
    )
    code = 'extern "C" void k(const hidden_states_t*, out_t* out) { out[0] = out_t(A); }'
    outcome = ok(compiled(source(code, metadata), card))
    assert [(binary.config["A"], binary.variants) for binary in outcome.binaries] == [
        (1, ["v0", "v2"]),
        (1, ["v1"]),
        (2, ["v0"]),
        (2, ["v1"]),
    ]
    assert len({binary.digest for binary in outcome.binaries}) == 4
    assert {binary.entry for binary in outcome.binaries} == {"k"}


def test_a_binary_computes_through_the_contract(compiled: Compile) -> None:
    variant = make_variant(
        "v0",
        [dense(6), dense(6, dtype="int64")],
        [tensor("x", 0), tensor("index", 1), absent("mask"), constant("scale", 0.5), constant("flag", True)],
        [dense(6)],
    )
    metadata = """entry = "k"
args = ["x", "index", "mask", "scale", "flag", "FACTOR", "x.numel", "scratch", "out"]
[tunables]
FACTOR = [3]
NAME = ["twice"]
[workspace]
scratch = { dtype = "fp32", shape = ["x.numel"] }"""
    code = """static float twice(float v) { return 2 * v; }
extern "C" void k(const x_t* x, const int64_t* index, const mask_t* mask, float scale, bool flag, int64_t factor,
                  int64_t n, scratch_t* scratch, out_t* out) {
    static_assert(FACTOR == 3);
    #pragma omp parallel for
    for (int64_t i = 0; i < n; ++i) scratch[i] = NAME(x[index[i]]) * scale;
    for (int64_t i = 0; i < n; ++i) out[i] = mask == nullptr && flag ? scratch[i] * factor : -1;
}"""
    card = make_card(variant)
    text = source(code, metadata)
    outcome = ok(compiled(text, card))
    plan = parse_plan(text, card, "cpu")
    assert isinstance(plan, Plan)
    x = np.arange(6, dtype=np.float32)
    index = np.array([5, 4, 3, 2, 1, 0])
    out = np.zeros(6, np.float32)
    call(outcome.binaries[0], plan, variant, [x, index], [out])
    assert out.tolist() == [15.0, 12.0, 9.0, 6.0, 3.0, 0.0]


def test_half_types_convert_as_numpy_does_for_every_bit_pattern(compiled: Compile) -> None:
    variant = make_variant(
        "v0",
        [dense(65536, dtype="fp16"), dense(65536, dtype="bf16"), dense(100_000)],
        [tensor("h", 0), tensor("b", 1), tensor("x", 2)],
        [dense(65536), dense(65536), dense(100_000, dtype="fp16"), dense(100_000, dtype="bf16")],
    )
    metadata = (
        'entry = "k"\noptions = ["-ffast-math"]\nargs = ["h", "b", "x", "x.numel", "out0", "out1", "out2", "out3"]'
    )
    code = """extern "C" void k(const h_t* h, const b_t* b, const x_t* x, int64_t n, out0_t* h32, out1_t* b32,
                  out2_t* x16, out3_t* xb) {
    for (int i = 0; i < 65536; ++i) { h32[i] = h_load(h[i]); b32[i] = b_load(b[i]); }
    for (int64_t i = 0; i < n; ++i) { x16[i] = out2_store(x[i]); xb[i] = out3_store(x[i]); }
}"""
    card = make_card(variant)
    text = source(code, metadata)
    outcome = ok(compiled(text, card))
    plan = parse_plan(text, card, "cpu")
    assert isinstance(plan, Plan)
    bits = np.arange(65536, dtype=np.uint16)
    random = np.random.default_rng(0)
    x = random.integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    x[:60_000] = (random.standard_normal(60_000) * 10.0 ** random.uniform(-9, 6, 60_000)).astype(np.float32)
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.996, 65520.0, 2.0**-25]
    outs = [
        np.zeros(65536, np.float32),
        np.zeros(65536, np.float32),
        np.zeros(100_000, np.uint16),
        np.zeros(100_000, np.uint16),
    ]
    call(outcome.binaries[0], plan, variant, [bits, bits, x], outs)
    halves = bits.view(np.float16).astype(np.float32)
    np.testing.assert_array_equal(outs[0], halves)
    np.testing.assert_array_equal(outs[1], (bits.astype(np.uint32) << 16).view(np.float32))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float16)
    np.testing.assert_array_equal(outs[2].view(np.float16), expected)
    wide = x.view(np.uint32).astype(np.uint64)
    rounded = ((wide + 0x7FFF + ((wide >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype(np.uint16)
    np.testing.assert_array_equal(outs[3][~np.isnan(x)], rounded[~np.isnan(x)])
    assert np.isnan((outs[3][np.isnan(x)].astype(np.uint32) << 16).view(np.float32)).all()


@pytest.mark.parametrize(
    ("code", "reason", "line", "part"),
    [
        (OPENING + "\n    undeclared();\n}", "syntax_error", 6, "'undeclared'"),
        (OPENING + "\n    o[0] = 1\n}", "syntax_error", 6, "expected"),
        (OPENING + "\n    x[0] = 1;\n}", "syntax_error", 6, "read-only"),
        (OPENING + '\n    int q = "text";\n}', "syntax_error", 6, "invalid conversion|cannot initialize"),
        (OPENING, "syntax_error", 5, "still open where the file ends"),
        ("namespace a {\n" + OPENING + "}", "syntax_error", 6, "still open where the file ends"),
        ("#if 1\n" + OPENING + "}", "syntax_error", 5, "unterminated (#if|conditional)"),
        ("/* open\n" + OPENING + "}", "syntax_error", 5, "unterminated .*comment"),
        ("#error stop here", "syntax_error", 5, "stop here"),
        ("#include <torch/torch.h>\n", "syntax_error", 5, "no access to torch"),
        ("using weight_t = double;\n" + OPENING + "}", "syntax_error", 5, "kforge declares"),
        ("__global__ void g() {}\n" + OPENING + "}", "syntax_error", 5, r"this target is C\+\+, not CUDA"),
        (OPENING + "\n    o[0] = omp_get_max_threads();\n}", "syntax_error", 6, "#include <omp.h>"),
        (
            "#include <algorithm>\n#include <vector>\nstruct S {};\n" + OPENING
            + "\n    std::vector<S> v;\n    std::sort(v.begin(), v.end());\n}",
            "syntax_error", 10, "operator<|binary expression",
        ),
        (OPENING.replace("const float* x", "float* x") + "}", "contract_error", 5, r"const float\* hidden_states"),
        (OPENING.replace("int64_t", "int") + "}", "contract_error", 5, "int64_t out_numel"),
        (OPENING.replace("float* o", "const float* o") + "}", "contract_error", 5, r"float\* out\)"),
        (OPENING.replace("void", "int") + " return 0; }", "contract_error", 5, r'extern "C" void k\('),
        (OPENING.replace('extern "C"', "static") + "}", "contract_error", 5, "later 'static'|static declaration"),
        ('extern "C" void other() {}', "contract_error", 0, "does not define the function of `entry`"),
        ("void k(float* x) { x[0] = 1; }", "contract_error", 5, "does not define the function of `entry`"),
        ('extern "C" void ext(int);\n' + OPENING + "\n    ext(1);\n}", "contract_error", 5, "`ext` is used but"),
    ],
)  # fmt: skip
def test_a_broken_candidate_is_told_why_and_where(
    compiled: Compile, code: str, reason: str, line: int, part: str
) -> None:
    outcome = failed(compiled(source(code), CARD))
    assert outcome.reason == reason
    assert re.search(part, outcome.message)
    first = outcome.diagnostics[0]
    assert (first.severity, first.line) == ("error", line)
    if line:
        assert first.source_line == source(code).splitlines()[line - 1]
    assert "compiler:" in outcome.log


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ('#include "/etc/passwd"', "is a path"),
        ("#include <../../../etc/passwd>", "is a path"),
        ('#define H "/etc/passwd"\n#include H', "literally"),
        ('\n%:include "/etc/passwd"', "is a path"),
        ('\n#incl\\\nude "/etc/passwd"', "is a path"),
        ('#if __has_include("/etc/passwd")\n#endif', "whether a file is there"),
    ],
)
def test_no_spelling_of_an_include_reads_a_file_by_path(compiled: Compile, code: str, part: str) -> None:
    outcome = failed(compiled(source(f"{code}\n{OPENING}}}"), CARD))
    assert outcome.reason == "contract_error"
    assert part in outcome.message
    assert outcome.diagnostics[0].line in (5, 6)


def test_a_header_that_may_be_missing_is_asked_for_by_its_name(compiled: Compile) -> None:
    code = "#if __has_include(<cmath>)\n#include <cmath>\n#endif\n"
    ok(compiled(source(code + OPENING + "\n    o[0] = std::sqrt(x[0]);\n}"), CARD))


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("template <int N> struct F { static constexpr int v = F<N + 1>::v; };\n" + OPENING + " o[0] = F<0>::v; }",
         "nested too deeply"),
        ("constexpr int f(int n) { int s = 0; for (int i = 0; i < n; ++i) s += i % 3; return s; }\n"
         + OPENING + " constexpr int v = f(2000000000); o[0] = v; }", "constant expression"),
        ("char big[1ull << 36] = {1};\n" + OPENING + " o[0] = big[n]; }", "wrote more than 16 MiB|crashed"),
        (_MEMORY_BOMB + OPENING + " o[0] = G<30>::v; }", "more than 512 MiB of memory|nested|crashed|processor time"),
        (OPENING + " o[0] = " + "(" * 50000 + "1" + ")" * 50000 + "; }", "processor time|crashed|memory|nested"),
    ],
    ids=["templates", "constexpr", "size", "memory", "time"],
)  # fmt: skip
def test_a_compilation_bomb_ends_at_a_limit(compiled: Compile, code: str, part: str) -> None:
    outcome = failed(compiled(source(code), CARD, Limits(cpu_s=2, memory_bytes=512 << 20, file_bytes=16 << 20)))
    assert outcome.reason == "limit_exceeded"
    assert re.search(part, outcome.message)


def test_warnings_come_after_errors_and_alone_do_not_fail(compiled: Compile) -> None:
    outcome = ok(compiled(source(OPENING + "\n    int unused;\n}"), CARD))
    (warning,) = outcome.diagnostics
    assert (warning.severity, warning.line) == ("warning", 6)
    both = failed(compiled(source(OPENING + "\n    int unused;\n    nothing();\n}"), CARD))
    assert both.diagnostics[0].severity == "error"
    assert both.message.startswith("line 7")


def test_a_long_list_of_errors_is_cut_to_the_limit_with_the_first_cause_first(compiled: Compile) -> None:
    body = "\n".join(f"    undeclared_number_{index} = {index};" for index in range(40))
    outcome = failed(compiled(source(OPENING + "\n" + body + "\n}"), CARD))
    assert "undeclared_number_0" in outcome.message.splitlines()[0]
    assert outcome.message.endswith("more)")


def test_a_configuration_that_does_not_compile_is_left_out(compiled: Compile) -> None:
    code = 'static_assert(A < 3, "too many");\n' + OPENING + "}"
    outcome = ok(compiled(source(code, METADATA + "\n[tunables]\nA = [1, 2, 3]"), CARD))
    assert [binary.config for binary in outcome.binaries] == [{"A": 1}, {"A": 2}]
    assert "left out A=3" in outcome.diagnostics[0].message
    assert "too many" in outcome.diagnostics[0].message
    none = failed(compiled(source(code, METADATA + "\n[tunables]\nA = [3, 4]"), CARD))
    assert none.reason == "syntax_error"


def test_a_cancelled_job_stops_compiling(ctx: JobContext) -> None:
    plan = parse_plan(source(OPENING + " o[0] = 77; }"), CARD, "cpu")
    assert isinstance(plan, Plan)
    with JobContext.standalone(ctx.workspace) as other:
        other.cancel()
        with pytest.raises(JobCancelled):
            compile_candidate(other, plan, CARD, [{}])


def test_no_file_is_left_in_the_folder_of_the_caller(
    compiled: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ok(compiled(source(OPENING + " o[0] = 78; }"), CARD))
    assert os.listdir(tmp_path) == []
