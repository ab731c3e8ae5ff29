from __future__ import annotations

from pathlib import Path

import pytest

from kforge_mcp.candidate.signature import minimal_candidate
from kforge_mcp.compile.cuda.cubin import read_cubin
from tests.candidate.cards import constant, dense, make_card, make_variant, tensor
from tests.candidate.test_signature import CARDS
from tests.compile.cuda import programs
from tests.compile.cuda.conftest import CompileCuda, failed, ok


@pytest.mark.parametrize(
    ("source", "dtype"),
    [
        (programs.PLAIN, "fp32"),
        (programs.GROUPS, "bf16"),
        (programs.CUB, "fp16"),
        (programs.MATRIX, "fp16"),
        (programs.ASYNC_COPY, "fp32"),
        (programs.TENSOR_MAP, "fp32"),
    ],
    ids=["plain", "cooperative groups", "cub", "wmma", "cp.async and a constant table", "tensor map and cluster"],
)
def test_kernels_of_many_kinds_compile_without_a_warning(cuda: CompileCuda, source: str, dtype: str) -> None:
    outcome = ok(cuda(source, programs.card(dtype)))
    (binary,) = outcome.binaries
    assert outcome.diagnostics == []
    assert binary.arch == "sm_90a"
    assert Path(binary.path).read_bytes()[:4] == b"\x7fELF"
    (kernel,) = binary.kernels
    assert kernel.registers >= 8
    assert kernel.spill_store_bytes == kernel.spill_load_bytes == 0


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.variants[0].arguments[0].name)
def test_the_minimal_candidate_compiles(cuda: CompileCuda, card: object) -> None:
    outcome = ok(cuda(minimal_candidate(card, "cuda"), card))  # pyright: ignore[reportArgumentType]
    assert outcome.diagnostics == []


def test_each_configuration_and_architecture_gets_its_binary(cuda: CompileCuda) -> None:
    code = (
        "template <int N> " + programs.OPENING + "\n    __shared__ float s[N];\n    s[threadIdx.x] = x[threadIdx.x];\n"
    )
    code += "    __syncthreads();\n    out[threadIdx.x] = s[N - 1 - threadIdx.x] * scale;\n}\n"
    source = programs.candidate(code, kernel="k<N>", extra="[tunables]\nN = [256, 512]\n")
    outcome = ok(cuda(source, architectures=("sm_80", "sm_100", "compute_80")))
    assert [(one.config["N"], one.arch) for one in outcome.binaries] == [
        (256, "sm_80"), (256, "sm_100"), (256, "compute_80"), (512, "sm_80"), (512, "sm_100"), (512, "compute_80"),
    ]  # fmt: skip
    shared = [one.kernels[0].static_shared_bytes for one in outcome.binaries if one.arch != "compute_80"]
    assert shared[0] == 1024
    assert shared[2] == 2048
    ptx = next(one for one in outcome.binaries if one.arch == "compute_80")
    assert ".target sm_80" in Path(ptx.path).read_text()
    assert ptx.kernels[0].symbol in Path(ptx.path).read_text()


def test_resources_are_those_of_the_assembler(cuda: CompileCuda) -> None:
    code = """__global__ void k(const x_t* x, float scale, long long n, out_t* out) {
    float v[96];
    #pragma unroll
    for (int i = 0; i < 96; ++i) v[i] = x[i * n + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 96; ++i) out[(95 - i) * n + threadIdx.x] = v[i] * scale + v[95 - i];
}
"""
    kernel = ok(cuda(programs.candidate(code, top='options = ["-maxrregcount=32"]\n'))).binaries[0].kernels[0]
    assert kernel.registers == 32
    assert kernel.spill_store_bytes > 0
    assert kernel.spill_load_bytes > 0
    assert kernel.stack_bytes >= kernel.spill_store_bytes // 2
    assert [size for _, size in kernel.parameters] == [8, 4, 8, 8]
    assert [offset for offset, _ in kernel.parameters] == [0, 8, 16, 24]


def test_parameters_of_every_size_are_read_from_the_cubin(cuda: CompileCuda) -> None:
    binary = ok(cuda(programs.TENSOR_MAP)).binaries[0]
    facts = read_cubin(Path(binary.path).read_bytes())
    assert [one.size for one in facts.parameters[binary.kernels[0].symbol]] == [128, 8]


def test_an_architecture_without_an_instruction_is_left_out_and_said(cuda: CompileCuda) -> None:
    outcome = ok(cuda(programs.TENSOR_MAP, architectures=("sm_80", "sm_90a")))
    assert [one.arch for one in outcome.binaries] == ["sm_90a"]
    assert outcome.diagnostics[0].severity == "warning"
    assert "left out no tunables, sm_80" in outcome.diagnostics[0].message
    alone = failed(cuda(programs.TENSOR_MAP, architectures=("sm_80",)))
    assert alone.reason == "syntax_error"


def test_names_of_the_card_have_their_types_and_conversions(cuda: CompileCuda) -> None:
    code = (
        programs.OPENING
        + """
    static_assert(sizeof(x_t) == 2 && sizeof(out_t) == 2 && sizeof(scale_t) == 4);
    x_acc v = x_load(x[threadIdx.x]);
    int64_t i = threadIdx.x;
    std::uint32_t j = WIDTH;
    static_assert(FLAG && HALF == 0.5f && BIG == 1LL << 40);
    out[i + j] = out_store(OPERATION(v) * scale);
}
"""
    )
    code = "__device__ float twice(float v) { return 2 * v; }\n" + code
    extra = '[tunables]\nWIDTH = [4]\nFLAG = [true]\nHALF = [0.5]\nBIG = [1099511627776]\nOPERATION = ["twice"]\n'
    assert ok(cuda(programs.candidate(code, extra=extra), programs.card("bf16"))).diagnostics == []


def test_fast_math_is_an_option_and_changes_the_code(cuda: CompileCuda) -> None:
    code = programs.OPENING + "\n    out[threadIdx.x] = expf(x[threadIdx.x]) / scale;\n}\n"
    plain = ok(cuda(programs.candidate(code)))
    fast = ok(cuda(programs.candidate(code, top='options = ["--use_fast_math"]\n')))
    assert plain.binaries[0].digest != fast.binaries[0].digest


def test_variants_that_launch_nothing_have_a_binary_of_their_own(cuda: CompileCuda) -> None:
    first = make_variant("v0", [dense(0, 256)], [tensor("x", 0), constant("scale", 0.5)], [dense(0, 256)])
    second = make_variant("v1", [dense(4, 256)], [tensor("x", 0), constant("scale", 0.5)], [dense(4, 256)])
    binaries = ok(cuda(programs.PLAIN, make_card(first, second))).binaries
    assert [(one.variants, [kernel.kernel for kernel in one.kernels]) for one in binaries] == [
        (["v0"], []),
        (["v1"], ["k"]),
    ]
    broken = programs.PLAIN.replace("long long n", "int n")
    assert failed(cuda(broken, make_card(first, second))).reason == "contract_error"
