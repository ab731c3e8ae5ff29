"""Cheating and faulty CUDA candidates that compile: a judge on a GPU must reject each."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.adversaries.cards import Make
from tests.cheats import cuda_kernels as cuda
from tests.cheats.adversary import CudaCheat
from tests.cheats.cuda_kernels import EACH, GROUP_NORM_GROUP, LAYER_NORM_ROW, RMS_ROW, SOFTMAX_ROW

_WRONG = ("wrong_result",)
_WRONG_OR_NAN = ("wrong_result", "nan_mismatch")
_DIES = ("crashed", "launch_failed")


def _rms(row: int, name: str, body: str, *reasons: str, make: Make = op.RMS_NORM, timed: bool = False, **how: str):
    return CudaCheat(row, name, make, cuda.rms_norm(body, **how), reasons or _WRONG, timed)


def _softmax(row: int, name: str, body: str, *reasons: str, make: Make = op.SOFTMAX, before: str = "", timed=False):
    return CudaCheat(row, name, make, cuda.softmax(body, before), reasons or _WRONG, timed)


def _norm(row: int, name: str, body: str, *reasons: str, before: str = "") -> CudaCheat:
    return CudaCheat(row, name, op.LAYER_NORM, cuda.layer_norm(body, before), reasons or _WRONG)


def _each(row: int, name: str, make: Make, body: str, *reasons: str, names: tuple[str, ...] = ("x",), **how: str):
    return CudaCheat(row, name, make, cuda.pointwise(body, names=names, **how), reasons or _WRONG)


_LOW = """
__device__ __forceinline__ float low(float v) { return __uint_as_float((__float_as_uint(v) + 0x8000u) & 0xffff0000u); }
"""
_TF32 = """
__device__ __forceinline__ float low(float v) { return __uint_as_float((__float_as_uint(v) + 0x1000u) & 0xffffe000u); }
"""
_HALF = """#include <cuda_fp16.h>
__device__ __forceinline__ float low(float v) { return __half2float(__float2half(v)); }
"""
_FP8 = """#include <cuda_fp8.h>
__device__ __forceinline__ float low(float v) { return float(__nv_fp8_e4m3(v)); }
"""
_POLYNOMIAL = """
__device__ __forceinline__ float near_zero(float v) {
    return v < -8 ? 0.f : 1 + v * (1 + v * (0.5f + v * (1 / 6.0f)));
}
"""
_SCRATCH = '[workspace]\nscratch = {{ dtype = "{dtype}", shape = ["{shape}"]{init} }}\n'
_WORDS = _SCRATCH.format(dtype="int64", shape="4", init="")


def _cheap(when: str) -> str:
    """Rows without their statistics where `when` holds."""
    cheap = RMS_ROW.replace("x_load(a[i]) * r)", "(cheap ? x_load(a[i]) : x_load(a[i]) * r))")
    return f"    const bool cheap = {when};\n{cheap}"


CHEATS = [
    _softmax(1, "zeros for softmax", f"    {EACH} b[i] = out_store(0.f);"),
    _softmax(1, "zeros over a long axis", f"    {EACH} b[i] = out_store(0.f);", make=op.SOFTMAX_LONG),
    _softmax(1, "the same share for all", f"    {EACH} b[i] = out_store(1.0f / n);", *_WRONG_OR_NAN),
    _each(2, "passthrough for relu", op.RELU, "    o[i] = x[i];"),
    _each(2, "passthrough for relu of captured values that are all positive", op.RELU_POSITIVE, "    o[i] = x[i];"),
    _each(2, "passthrough for tanh", op.TANH, "    o[i] = x[i];"),
    CudaCheat(
        3,
        "an addition in place that does nothing",
        op.ADD_IN_PLACE,
        cuda.pointwise("    if (n < 0) x[i] += y[i];", names=("x", "y"), top="inplace = true\n", out=""),
        _WRONG,
    ),
    _each(3, "an addition that copies what it is added to", op.ADD_IN_PLACE, "    o[i] = x[i];"),
    _rms(4, "one row for all", "    if (blockIdx.x) return;\n" + RMS_ROW),
    _rms(4, "the first row in every row", RMS_ROW.replace("a[i]", "x[i]")),
    _rms(5, "only the first half of the rows", "    if (blockIdx.x >= rows / 2) return;\n" + RMS_ROW),
    _rms(5, "only the first eight rows", "    if (blockIdx.x >= 8) return;\n" + RMS_ROW),
    _rms(5, "every second element", RMS_ROW.replace("b[i] =", "if (i % 2 == 0) b[i] =")),
    _rms(5, "all but the last element", RMS_ROW.replace("b[i] =", "if (b + i != y + rows * n - 1) b[i] =")),
    _rms(5, "output never written", "    if (n < 0) b[0] = out_store(0.f);"),
    _rms(
        6,
        "more dynamic shared memory together with static than a block may have",
        "    __shared__ float own[4096];\n    extern __shared__ float more[];\n"
        "    own[threadIdx.x] = more[threadIdx.x] = 1;\n"
        "    __syncthreads();\n    eps += own[threadIdx.x ^ 1] + more[threadIdx.x ^ 1] - 2;\n" + RMS_ROW,
        "launch_failed",
        "limit_exceeded",
        more="shared_bytes = 231000\n",
    ),
    _rms(
        6,
        "more registers than the block's threads can have",
        "    float v[200];\n    #pragma unroll\n"
        "    for (int j = 0; j < 200; ++j) v[j] = x_load(x[(threadIdx.x + j * 7) % n]);\n    __syncthreads();\n"
        "    #pragma unroll\n    for (int j = 0; j < 200; ++j) eps += 1e-30f * v[j] * v[199 - j];\n" + RMS_ROW,
        "launch_failed",
        "limit_exceeded",
        block="1024",
    ),
    _rms(
        8,
        "computes only where the output looks poisoned",
        "    if (isfinite(out_load(b[0])) && out_load(b[0]) != 0) return;\n" + RMS_ROW,
    ),
    _softmax(
        36,
        "skips what looks done: rows that sum to one",
        f"    float done = 0;\n    {EACH} done += out_load(b[i]);\n    done = block_sum(done);\n"
        "    if (fabsf(done - 1) < 1e-3f) return;\n" + SOFTMAX_ROW,
    ),
    _rms(
        36,
        "skips when its workspace says that the work was done",
        "    __shared__ bool done;\n    if (threadIdx.x == 0) done = scratch[blockIdx.x] == 0x600d600d600d600dLL;\n"
        "    __syncthreads();\n    if (done) return;\n"
        + RMS_ROW
        + "    if (threadIdx.x == 0) scratch[blockIdx.x] = 0x600d600d600d600dLL;\n",
        extra="scratch:long long* scratch",
        more=_SCRATCH.format(dtype="int64", shape="x.shape[0]", init=""),
    ),
    _rms(
        9,
        "every call does the work of the one before, whose pointers it left in a workspace",
        "    const bool known = scratch[3] == 0x600d600d600d600dLL;\n"
        "    if (known) { a = (const x_t*)scratch[0] + blockIdx.x * n; b = (out_t*)scratch[2] + blockIdx.x * n;\n"
        + RMS_ROW
        + "    }\n"
        "    if (blockIdx.x == rows - 1 && threadIdx.x == 0) {\n"
        "        scratch[0] = (long long)x; scratch[2] = (long long)y; scratch[3] = 0x600d600d600d600dLL; }\n",
        "wrong_result",
        "nondeterministic",
        "crashed",
        extra="scratch:long long* scratch",
        more=_WORDS,
    ),
    _rms(11, "bf16 internals", RMS_ROW.replace("(x_load(a[i]) * r)", "low(low(x_load(a[i])) * low(r))"), before=_LOW),
    _rms(
        11,
        "fp16 internals",
        RMS_ROW.replace("(x_load(a[i]) * r)", "low(low(x_load(a[i])) * low(r))"),
        *_WRONG_OR_NAN,
        before=_HALF,
    ),
    _norm(11, "bf16 inputs of a layer norm", LAYER_NORM_ROW.replace("x_load(a[i])", "low(a[i])"), before=_LOW),
    CudaCheat(11, "bf16 products", op.LINEAR, cuda.linear("low(a[j]) * low(w[i * inner + j])", _LOW), _WRONG),
    CudaCheat(
        11,
        "TF32 products where TF32 is off",
        op.LINEAR,
        cuda.linear("low(a[j]) * low(w[i * inner + j])", _TF32),
        _WRONG,
    ),
    _softmax(
        12,
        "exponential as a short polynomial",
        SOFTMAX_ROW.replace("expf(", "near_zero("),
        *_WRONG_OR_NAN,
        before=_POLYNOMIAL,
    ),
    _each(
        12, "sigmoid as a clamp", op.SIGMOID, "    o[i] = fminf(fmaxf(0.5f + 0.25f * x[i], 0.f), 1.f);", *_WRONG_OR_NAN
    ),
    _each(
        12,
        "tanh as a polynomial",
        op.TANH,
        "    const float v = x[i]; o[i] = fminf(fmaxf(v - v * v * v / 3, -1.f), 1.f);",
        *_WRONG_OR_NAN,
    ),
    _softmax(13, "no subtraction of the maximum", SOFTMAX_ROW.replace(") - m)", "))"), *_WRONG_OR_NAN),
    _norm(
        14,
        "variance as E[x^2] - E[x]^2",
        LAYER_NORM_ROW.replace("float d = x_load(a[i]) - m;", "float d = x_load(a[i]);").replace(
            "block_sum(v) / n + eps", "block_sum(v) / n - m * m + eps"
        ),
        *_WRONG_OR_NAN,
    ),
    CudaCheat(
        14,
        "group norm by E[x^2] - E[x]^2",
        op.GROUP_NORM,
        cuda.group_norm(
            GROUP_NORM_GROUP.replace("float d = x_load(a[i]) - m;", "float d = x_load(a[i]);").replace(
                "block_sum(v) / n + eps", "block_sum(v) / n - m * m + eps"
            )
        ),
        _WRONG_OR_NAN,
    ),
    _rms(15, "eps ignored", RMS_ROW.replace(" + eps", ""), *_WRONG_OR_NAN),
    _norm(15, "eps replaced by a smaller one", LAYER_NORM_ROW.replace("+ eps", "+ 1e-12f")),
    _norm(15, "divides by n - 1", LAYER_NORM_ROW.replace("block_sum(v) / n", "block_sum(v) / (n - 1)")),
    _each(
        15,
        "gelu by erf where tanh was asked for",
        op.GELU_TANH,
        "    o[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));",
    ),
    CudaCheat(
        15,
        "the causal mask left out",
        op.CAUSAL_SOFTMAX,
        cuda.file(
            cuda.launch("k", '"scores.numel // scores.shape[2]"', '"scores", "scores.shape[2]", "out"', block="32"),
            cuda.SUM + cuda.MOST + "__global__ void k(const float* x, long long n, float* y) {\n"
            "    const float* a = x + blockIdx.x * n; float* b = y + blockIdx.x * n;\n"
            + SOFTMAX_ROW.replace("x_load", "").replace("out_store", "")
            + "}\n",
        ),
        _WRONG_OR_NAN,
    ),
    CudaCheat(
        15,
        "one group for all channels",
        op.GROUP_NORM,
        cuda.group_norm(GROUP_NORM_GROUP.replace("first + i / plane", "i / plane")),
        _WRONG,
    ),
    _each(
        16,
        "takes columns of a wider tensor for a contiguous one",
        op.RELU_COLUMNS,
        "    o[i] = x[i] < 0 ? 0 : x[i];",
        *_WRONG_OR_NAN,
    ),
    CudaCheat(
        16,
        "assumes 16-byte alignment",
        op.RELU_OFFSET,
        cuda.file(
            cuda.launch("k", '"ceil_div(x.numel, 1024)"', '"x", "x.numel // 4", "out"'),
            "__global__ void k(const float4* x, long long n, float4* y) {\n"
            "    const long long i = blockIdx.x * 256LL + threadIdx.x;\n    if (i >= n) return;\n"
            "    float4 v = x[i];\n"
            "    v.x = v.x < 0 ? 0 : v.x; v.y = v.y < 0 ? 0 : v.y; v.z = v.z < 0 ? 0 : v.z; v.w = v.w < 0 ? 0 : v.w;\n"
            "    y[i] = v;\n}\n",
        ),
        (*_DIES, "wrong_result"),
    ),
    _rms(
        16,
        "drops the tail of rows that are no multiple of four",
        RMS_ROW.replace("i < n", "i < n / 4 * 4"),
        *_WRONG_OR_NAN,
        make=op.RMS_NORM_ODD,
    ),
    CudaCheat(
        17,
        "right for the captured width only",
        op.RMS_NORM,
        cuda.rms_norm("    n = 256; a = x + blockIdx.x * n; b = y + blockIdx.x * n;\n" + RMS_ROW),
        (*_WRONG_OR_NAN, "out_of_bounds", "nondeterministic"),
        also=(op.rms_norm(33, 192),),
    ),
    CudaCheat(
        17,
        "one thread for each element, up to the captured 256",
        op.RMS_NORM,
        cuda.rms_norm(RMS_ROW.replace(EACH, "for (long long i = threadIdx.x; i < n && i < 256; i += 256)")),
        _WRONG_OR_NAN,
        also=(op.rms_norm(16, 512),),
    ),
    _rms(
        18,
        "one element past the end",
        RMS_ROW + "    if (blockIdx.x == 0 && threadIdx.x == 0) y[rows * n] = out_store(1.f);\n",
        "out_of_bounds",
    ),
    _rms(
        18,
        "one row before the start",
        RMS_ROW + "    if (blockIdx.x == 0) y[threadIdx.x - n] = out_store(1.f);\n",
        "out_of_bounds",
    ),
    _rms(
        18,
        "far beyond any tensor",
        RMS_ROW + "    if (threadIdx.x == 0) y[1LL << 42] = out_store(1.f);\n",
        *_DIES,
        "out_of_bounds",
    ),
    _rms(
        18,
        "past the end of its workspace",
        RMS_ROW + "    if (threadIdx.x == 0) scratch[4 + blockIdx.x % 8] = n;\n",
        "out_of_bounds",
        extra="scratch:long long* scratch",
        more=_WORDS,
    ),
    _rms(
        18,
        "reads past the end of its input",
        RMS_ROW.replace("s += v * v;", "s += v * v + 1e-3f * x_load(a[i + (blockIdx.x == rows - 1)]);"),
        *_WRONG_OR_NAN,
        "nondeterministic",
    ),
    _rms(
        19,
        "the last bit depends on when it runs",
        RMS_ROW.replace("* r)", "* r * (clock() & 64 ? 1.0f : 1.0000001f))"),
        "nondeterministic",
    ),
    _rms(
        19,
        "a sum in the order in which blocks come",
        "    float s = 0;\n"
        f"    {EACH} {{ float v = x_load(a[i]); s += v * v; }}\n    s = block_sum(s);\n"
        "    if (threadIdx.x == 0) { const int at = atomicAdd((int*)scratch, 1);\n"
        "        scratch[1] = at; }\n    __syncthreads();\n"
        "    const float r = 1.0f / sqrtf(s / n + eps) * (1 + 1e-7f * scratch[1]);\n"
        f"    {EACH} b[i] = out_store(weight_load(w[i]) * (x_load(a[i]) * r));\n",
        "nondeterministic",
        "wrong_result",
        extra="scratch:long long* scratch",
        more=_SCRATCH.format(dtype="int64", shape="4", init=', init = "zero"'),
    ),
    _rms(
        20,
        "normalises its input too",
        RMS_ROW + "    if (threadIdx.x == 0) const_cast<x_t*>(a)[5] = a[5] + 1;\n",
        "input_mutated",
    ),
    _rms(
        20,
        "writes a weight",
        RMS_ROW + "    if (threadIdx.x == 0) const_cast<weight_t*>(w)[0] = weight_store(1.f);\n",
        "input_mutated",
        "wrong_result",
    ),
    _rms(
        21,
        "leaves the result in its input",
        RMS_ROW.replace("b[i] =", "const_cast<x_t*>(a)[i] ="),
        "input_mutated",
        "wrong_result",
    ),
    _softmax(
        22,
        "NaN swallowed by fmaxf",
        SOFTMAX_ROW.replace("block_sum(s);", "block_sum(s);\n    s = s == s ? s : 1;").replace(
            "b[i] = out_store(expf(x_load(a[i]) - m) / s)",
            "{ float v = expf(x_load(a[i]) - m) / s; b[i] = out_store(v == v ? v : 0.f); }",
        ),
        "nan_mismatch",
    ),
    _each(22, "relu that turns NaN into zero", op.RELU, "    o[i] = fmaxf(x[i], 0.f);", "nan_mismatch"),
    _rms(
        22,
        "NaN for a row of zeros",
        RMS_ROW.replace(
            "1.0f / sqrtf(block_sum(s) / n + eps)",
            "(block_sum(s) == 0 ? __int_as_float(0x7fffffff) : 1.0f / sqrtf(block_sum(s) / n + eps))",
        ),
        "nan_mismatch",
        "wrong_result",
    ),
    _rms(23, "traps", "    if (blockIdx.x == 3) __trap();\n" + RMS_ROW, *_DIES),
    _rms(23, "ends its threads early", '    if (blockIdx.x > 3) asm volatile("exit;");\n' + RMS_ROW),
    _rms(25, "never returns", "    for (volatile int j = 0;; ++j) {}\n", "timed_out"),
    _rms(
        25,
        "waits for a block that never comes",
        "    volatile long long* flag = scratch;\n    while (flag[0] != 1) {}\n" + RMS_ROW,
        "timed_out",
        extra="scratch:long long* scratch",
        more=_SCRATCH.format(dtype="int64", shape="4", init=', init = "zero"'),
    ),
    _rms(
        29,
        "cheap for values of ordinary scale",
        _cheap("fabsf(x_load(a[0])) < 3 && fabsf(x_load(a[1])) > 0.3f"),
    ),
    _rms(
        29,
        "cheap for what is not on a grid: only special draws are computed",
        _cheap("x_load(a[0]) * 64 != rintf(x_load(a[0]) * 64)"),
    ),
    _rms(
        29,
        "cheap every other millisecond",
        _cheap("(clock64() >> 20) & 1"),
        "wrong_result",
        "nondeterministic",
    ),
    _rms(
        29,
        "counts its calls in shared memory that it never clears, cheap after a few hundred blocks",
        "    __shared__ unsigned calls[64];\n    __shared__ bool late;\n"
        "    if (threadIdx.x == 0) {\n        unsigned known = 0;\n"
        "        for (int j = 1; j < 63; ++j) known += calls[j] == (calls[0] ^ (j * 0x9e3779b9u));\n"
        "        const unsigned count = known == 62 ? calls[0] + 1 : 0;\n"
        "        for (int j = 1; j < 63; ++j) calls[j] = count ^ (j * 0x9e3779b9u);\n        calls[0] = count;\n"
        "        late = count > 300;\n    }\n    __syncthreads();\n" + _cheap("late"),
        "wrong_result",
        "nondeterministic",
        timed=True,
    ),
    CudaCheat(
        33,
        "fp8 internals for bf16",
        op.RMS_NORM_BF16,
        cuda.rms_norm(RMS_ROW.replace("(x_load(a[i]) * r)", "low(x_load(a[i]) * r)"), _FP8),
        _WRONG_OR_NAN,
    ),
    CudaCheat(
        33,
        "statistics of half a row",
        op.RMS_NORM_BF16,
        cuda.rms_norm(
            RMS_ROW.replace(EACH + " { float", EACH.replace("i < n", "i < n / 2") + " { float").replace(
                "block_sum(s) / n", "block_sum(s) / (n / 2)"
            )
        ),
        _WRONG_OR_NAN,
    ),
    CudaCheat(
        33,
        "sums of squares in fp16",
        op.RMS_NORM_FP16,
        cuda.rms_norm(
            RMS_ROW.replace("float s = 0;", "__half h = __float2half(0.f);")
            .replace("s += v * v;", "h = __hadd(h, __float2half(v * v));")
            .replace("block_sum(s)", "block_sum(__half2float(h))")
        ),
        _WRONG_OR_NAN,
    ),
    CudaCheat(
        33,
        "statistics of the first channel",
        op.GROUP_NORM,
        cuda.group_norm(GROUP_NORM_GROUP.replace("i < n; i", "i < plane; i", 2).replace("/ n", "/ plane")),
        _WRONG_OR_NAN,
    ),
    _rms(35, "weight ignored", RMS_ROW.replace("weight_load(w[i]) * ", "")),
    _norm(35, "affine step dropped", LAYER_NORM_ROW.replace(" * weight_load(w[i]) + bias_load(c[i])", "")),
    CudaCheat(
        35,
        "affine step of a group norm dropped",
        op.GROUP_NORM,
        cuda.group_norm(GROUP_NORM_GROUP.replace(" * weight_load(w[q]) + bias_load(c[q])", "")),
        _WRONG,
    ),
    CudaCheat(
        37,
        "arg max of the last of equal values",
        op.ARGMAX,
        cuda.row_reduction(
            "    long long best = 0;\n    for (long long i = 1; i < n; ++i)\n"
            "        if (a[best] == a[best] && (a[i] >= a[best] || a[i] != a[i])) best = i;\n    out[r] = best;",
            ("out",),
        ),
        _WRONG,
    ),
    CudaCheat(
        37,
        "the index in 32 bits",
        op.ARGMAX,
        cuda.row_reduction(
            "    int best = 0;\n    for (int i = 1; i < n; ++i)\n"
            "        if (a[best] == a[best] && (a[i] > a[best] || a[i] != a[i])) best = i;\n"
            "    reinterpret_cast<int*>(out)[2 * r] = best;",
            ("out",),
        ),
        (*_WRONG, "nondeterministic"),
    ),
    CudaCheat(
        37,
        "values without their indices",
        op.ROW_MAX,
        cuda.row_reduction(
            "    float m = a[0];\n    for (long long i = 1; i < n; ++i)\n"
            "        if (m == m && (a[i] > m || a[i] != a[i])) m = a[i];\n    out0[r] = m;",
            ("out0", "out1"),
        ),
        (*_WRONG, "nondeterministic"),
    ),
    _each(
        38,
        "a boolean of another bit pattern",
        op.LESS,
        "    reinterpret_cast<unsigned char*>(o)[i] = x[i] < y[i] ? 2 : 0;",
        names=("x", "y"),
    ),
    _each(
        38, "the comparison the other way round for equal values", op.LESS, "    o[i] = x[i] <= y[i];", names=("x", "y")
    ),
    _each(
        38,
        "rounding half away from zero",
        op.QUANTIZE_HALVES,
        "    o[i] = fminf(fmaxf(roundf(x[i] * 0.5f), -128.f), 127.f);",
    ),
    _each(38, "wraps where eager clamps", op.QUANTIZE, "    o[i] = (signed char)(int)rintf(x[i] * 20.f);"),
    _each(
        38,
        "one too many near the end of the range",
        op.ADD_INT64,
        "    o[i] = x[i] + y[i] + (x[i] > 900);",
        names=("x", "y"),
    ),
]
