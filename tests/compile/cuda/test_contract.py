from __future__ import annotations

import pytest

from tests.compile.cuda.conftest import CompileCuda, failed, ok
from tests.compile.cuda.programs import OPENING, candidate

BODY = "\n    out[blockIdx.x * n + threadIdx.x] = x[threadIdx.x] * scale;\n}\n"


@pytest.mark.parametrize(
    ("parameters", "part"),
    [
        ("const x_t* x, float scale, int n, out_t* out", "parameter 3 of `k` has 4 bytes"),
        ("const x_t* x, double scale, long long n, out_t* out", "parameter 2 of `k` has 8 bytes"),
        ("const x_t* x, float scale, long long n", "takes 3 parameters, but `args` passes 4"),
        ("const x_t* x, int scale, long long n, out_t* out", "argument 2 of `k` (`scale`) is a floating-point number"),
        ("const x_t* x, float scale, double n, out_t* out", "argument 3 of `k` (`x_shape_1`) is an integer"),
        ("long long x, float scale, long long n, out_t* out", "argument 1 of `k` (`x`) is a pointer"),
    ],
)
def test_a_kernel_that_takes_something_else_breaks_the_contract(cuda: CompileCuda, parameters: str, part: str) -> None:
    outcome = failed(cuda(candidate(f"__global__ void k({parameters}) {{}}")))
    first = outcome.diagnostics[0]
    assert outcome.reason == "contract_error"
    assert part in first.message
    assert (first.line, first.source_line[:11]) == (6, "// args = [")
    assert first.hint.startswith(
        "write __global__ void k(const float* x, float scale, long long x_shape_1, float* out)"
    )


def test_pointers_may_be_taken_as_other_types_and_integers_as_others_of_their_size(cuda: CompileCuda) -> None:
    code = "__global__ void k(const float4* __restrict__ x, const float scale, unsigned long n, void* out) {}"
    assert ok(cuda(candidate(code))).diagnostics == []


@pytest.mark.parametrize(
    ("declaration", "statement", "name"),
    [
        ("__device__ int counter;", "counter++;", "counter"),
        ("__device__ float kept[4];", "kept[threadIdx.x & 3] = scale;", "kept"),
        ("namespace a { __device__ unsigned phase; }", "atomicAdd(&a::phase, 1u);", "phase"),
        ("__device__ const int table[2] = {1, 2};", "const_cast<int*>(table)[threadIdx.x & 1] = n;", "table"),
        ("__device__ int hidden[2];", 'asm volatile("st.global.u32 [%0], 1;" ::"l"(hidden));', "hidden"),
        (
            "__device__ int hidden[2];",
            'asm volatile("{ .reg .u32 t; st.global.u32 [%0], 1; }" ::"l"(hidden));',
            "hidden",
        ),
        ("__device__ int hidden[2];", 'asm volatile("lab%=: st.global.u32 [%0], 1;" ::"l"(hidden));', "hidden"),
        ("__device__ int hidden[2];", 'asm volatile("{ $L1: st.global.u32 [%0], 1; }" ::"l"(hidden));', "hidden"),
        ("__device__ int hidden[2];", 'asm volatile("/*\\n.func */ st.global.u32 [%0], 1;" ::"l"(hidden));', "hidden"),
        ("__device__ int hidden[2];", 'asm volatile("/* */ st.global.u32 [%0], 1;" ::"l"(hidden));', "hidden"),
        ("__device__ int hidden[2];", 'asm volatile("st.global.u32\\n [%0], 1;" ::"l"(hidden));', "hidden"),
        (
            "__device__ int hidden[2];",
            'long long t; asm volatile("mov.u64 %0, %1; st.global.u32 [%0], 1;" : "=l"(t) : "l"(hidden));',
            "hidden",
        ),
        (
            "__device__ int hidden[32];",
            'asm volatile("tensormap.replace.tile.global_address.global.b1024.b64 [%0], %1;" ::"l"(hidden), "l"(x));',
            "hidden",
        ),
        ("__device__ int lent[2];", "*reinterpret_cast<int**>(out) = lent;", "lent"),
        ("__managed__ int shared_with_host;", "if (shared_with_host) return;", "shared_with_host"),
        ("", "static int within; within++; if (within > 3) return;", "within"),
    ],
)
def test_a_device_variable_that_could_remember_is_refused(
    cuda: CompileCuda, declaration: str, statement: str, name: str
) -> None:
    outcome = failed(cuda(candidate(f"{declaration}\n{OPENING} {statement}{BODY}")))
    assert outcome.reason == "contract_error"
    assert f"`{name}`" in outcome.diagnostics[0].message
    assert name in outcome.diagnostics[0].source_line
    assert "[workspace]" in outcome.diagnostics[0].hint


def test_tables_that_are_only_read_are_allowed(cuda: CompileCuda) -> None:
    code = """__device__ const float table[4] = {1, 2, 3, 4};
__constant__ float constants[4] = {1, 2, 3, 4};
__device__ float zeros[4];
struct Traits { static constexpr int shifts[4] = {1, 2, 3, 4}; };
"""
    code += OPENING + " int i = n & 3; scale += table[i] + constants[i] + zeros[i] + Traits::shifts[i];" + BODY
    assert ok(cuda(candidate(code))).diagnostics == []


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ('asm volatile("brkpt;");', "`brkpt`"),
        ('asm volatile("/* a */ brkpt;");', "`brkpt`"),
        ('asm volatile("$L1: $L2: brkpt;");', "`brkpt`"),
        ('asm volatile("// end inline asm\\nbrkpt;");', "`brkpt`"),
        ("__brkpt();", "`brkpt`"),
        ('asm volatile("pmevent 1;");', "`pmevent`"),
        ('asm volatile("mov.u32 %0, %%pm0;" : "=r"(value)); n += value;', "`%pm0`"),
        ('asm volatile("mov.u32 %0, %%envreg3;" : "=r"(value)); n += value;', "`%envreg3`"),
        ('long long id; asm volatile("mov.u64 %0, %%gridid;" : "=l"(id)); n += id;', "`%gridid`"),
        ('long long ns; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)); n += ns;', "`%globaltimer`"),
        ('asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(value)); n += value;', "`%globaltimer_lo`"),
        ('asm volatile("mov.u32 %0, %%envreg1;" : "=r"(value)); n += value;', "`%envreg1`"),
        ('asm volatile("mov.u32 %0, %%env" "reg2;" : "=r"(value)); n += value;', "`%envreg2`"),
    ],
)
def test_assembly_that_is_not_for_a_candidate_is_refused(cuda: CompileCuda, statement: str, part: str) -> None:
    outcome = failed(cuda(candidate(f"{OPENING} int value = 0; {statement}{BODY}")))
    assert outcome.reason == "contract_error"
    assert part in outcome.diagnostics[0].message


def test_assembly_of_the_kernel_itself_is_allowed_and_macros_do_not_hide_it(cuda: CompileCuda) -> None:
    good = 'unsigned lane; asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane)); n += lane; '
    good += 'asm volatile("nanosleep.u32 20;");'
    assert ok(cuda(candidate(f"{OPENING} {good}{BODY}"))).diagnostics == []
    hidden = '#define A "brk"\n#define B "pt;"\n'
    assert failed(cuda(candidate(f"{hidden}{OPENING} asm volatile(A B);{BODY}"))).reason == "contract_error"


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("int* p = static_cast<int*>(malloc(8)); *p = n; free(p);", "heap that outlives the call"),
        ("out[0] = helper(scale);", "helper"),
    ],
)
def test_functions_from_outside_are_refused(cuda: CompileCuda, code: str, part: str) -> None:
    outcome = failed(cuda(candidate(f"extern __device__ float helper(float);\n{OPENING} {code}{BODY}")))
    assert part in outcome.message


@pytest.mark.parametrize(
    ("header", "part"),
    [
        ("iostream", "not a header for device code"),
        ("torch/extension.h", "no host code"),
        ("/etc/passwd", "not a header"),
        ("../../../etc/hostname", "not a header"),
        ("type_trait", "did you mean <type_traits>"),
    ],
)
def test_host_headers_are_refused_where_they_stand(cuda: CompileCuda, header: str, part: str) -> None:
    outcome = failed(cuda(candidate(f"// a comment\n#include <{header}>\n{OPENING}{BODY}")))
    assert outcome.reason == "contract_error"
    assert part in outcome.message
    assert outcome.diagnostics[0].line == 9


@pytest.mark.parametrize(
    "code",
    [
        '#define H "/etc/passwd"\n#include H',
        '\n%:include "/etc/passwd"',
        '\n#incl\\\nude "/etc/passwd"',
        '\n??=include "/etc/passwd"',
        '\n# /* \n */ include "/etc/passwd"',
        '\n#if __has_include("/etc/passwd")\n#endif',
        "\n#include_next <passwd>",
        'constexpr char c[] = R"(/*)";\n#include "/etc/passwd"',
        'constexpr char c[] = {\'"\', "/*"[0], \'"\'};\n#include "/etc/passwd"',
        'constexpr char c[] = R"( )\\\n" /* )";\n#include "/etc/passwd"',
    ],
)
def test_no_spelling_of_an_include_reads_a_file_of_this_machine(cuda: CompileCuda, code: str) -> None:
    outcome = failed(cuda(candidate(f"{code}\n{OPENING}{BODY}")))
    assert outcome.reason == "contract_error"
    assert outcome.diagnostics[0].line in (9, 10)


def test_headers_in_comments_and_quotes_and_shims_are_no_trouble(cuda: CompileCuda) -> None:
    code = """/* #include <iostream> */
// #include <vector> \\
#include <vector>
constexpr int thousand = 1'000 + 1'000;
constexpr char raw[] = R"x(
#include <vector>
/* )x";
#include <cuda_runtime.h>
#include "cuda_fp16.h"
#include <algorithm>
#include <array>
#include <cassert>
#include <cfloat>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
"""
    use = """
    static_assert(std::numeric_limits<int>::max() == 2147483647 && sizeof(int64_t) == 8);
    static_assert(std::is_same_v<std::make_index_sequence<5>, std::index_sequence<0, 1, 2, 3, 4>>);
    static_assert(std::is_same_v<std::make_integer_sequence<int, 0>, std::integer_sequence<int>>);
    static_assert(std::is_same_v<std::remove_cvref_t<const float&>, float>);
    std::array<float, 2> pair{std::max(scale, 1.f), std::sqrt(scale)};
    assert(n > 0);
    scale += raw[0] + thousand;
    scale = std::exp(pair[0]) + pair[1] + FLT_EPSILON + std::numeric_limits<float>::infinity() + float(M_PI);
"""
    assert ok(cuda(candidate(code + OPENING + use + BODY))).diagnostics == []
