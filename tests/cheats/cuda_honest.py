"""Honest CUDA candidates of many styles: a judge on a GPU must pass each."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import operators as op
from tests.cheats import cuda_kernels as cuda
from tests.cheats.adversary import CudaHonest
from tests.cheats.cuda_kernels import EACH, GROUP_NORM_GROUP, LAYER_NORM_ROW, RMS_ROW, SOFTMAX_ROW

_PLAIN = "for (long long i = 0; i < n; ++i)"
_ONE_THREAD_RMS = f"""
    if (threadIdx.x) return;
    float s = 0;
    {_PLAIN} {{ float v = x_load(a[i]); s += v * v; }}
    const float r = 1.0f / sqrtf(s / n + eps);
    {_PLAIN} b[i] = out_store(weight_load(w[i]) * (x_load(a[i]) * r));
"""
_KAHAN_RMS = RMS_ROW.replace(
    "s += v * v; }", "v = v * v - lost; const float t = s + v; lost = (t - s) - v; s = t; }"
).replace("float s = 0;", "float s = 0, lost = 0;")
_ONLINE_SOFTMAX = """
__device__ __forceinline__ void join(float& m, float& s, float m2, float s2) {
    const float most = larger(m, m2);
    // Nothing was seen where the maximum is still the lowest; an infinity makes the sum NaN, as it does for eager.
    const float none = __int_as_float(0xff800000);
    s = (m == none ? 0.f : s * expf(m - most)) + (m2 == none ? 0.f : s2 * expf(m2 - most));
    m = most;
}
"""
_ONLINE_ROW = f"""
    float m = __int_as_float(0xff800000), s = 0;
    {EACH} join(m, s, x_load(a[i]), 1.f);
    for (int o = 16; o; o >>= 1) {{
        const float m2 = __shfl_xor_sync(~0u, m, o), s2 = __shfl_xor_sync(~0u, s, o);
        join(m, s, m2, s2);
    }}
    __shared__ float ms[32], ss[32];
    if (threadIdx.x % 32 == 0) {{ ms[threadIdx.x / 32] = m; ss[threadIdx.x / 32] = s; }}
    __syncthreads();
    m = ms[0], s = ss[0];
    for (int j = 1; j < blockDim.x / 32; ++j) join(m, s, ms[j], ss[j]);
    {EACH} b[i] = out_store(expf(x_load(a[i]) - m) / s);
"""
_VECTOR_RELU = cuda.file(
    cuda.launch("k", '"ceil_div(x.numel, 1024)"', '"x", "x.numel // 4", "out"'),
    """__device__ __forceinline__ float relu(float v) { return v < 0 ? 0 : v; }
__global__ void k(const float4* x, long long n, float4* y) {
    const long long i = blockIdx.x * 256LL + threadIdx.x;
    if (i >= n) return;
    const float4 v = x[i];
    y[i] = make_float4(relu(v.x), relu(v.y), relu(v.z), relu(v.w));
}
""",
)
_STRIDED_RELU = cuda.file(
    cuda.launch(
        "k",
        '"x.shape[0]"',
        '"x", "x.shape[1]", "x.stride[0]", "x.stride[1]", "out.stride[0]", "out.stride[1]", "out"',
        block="128",
    ),
    """typedef long long L;
__global__ void k(const float* x, L n, L xr, L xc, L yr, L yc, float* y) {
    for (long long i = threadIdx.x; i < n; i += blockDim.x) {
        const float v = x[blockIdx.x * xr + i * xc];
        y[blockIdx.x * yr + i * yc] = v < 0 ? 0 : v;
    }
}
""",
)
_SPLIT_SUM = cuda.file(
    """[[step]]
kernel = "parts"
grid = ["PARTS", "x.shape[0]"]
block = ["128"]
args = ["x", "x.shape[1]", "sums"]
[[step]]
kernel = "total"
grid = ["ceil_div(x.shape[0], 64)"]
block = ["64"]
args = ["sums", "x.shape[0]", "out"]
[workspace]
sums = { dtype = "fp32", shape = ["x.shape[0]", "PARTS"] }
[tunables]
PARTS = [4]
""",
    cuda.SUM
    + """
__global__ void parts(const x_t* x, long long n, float* sums) {
    const x_t* a = x + blockIdx.y * n;
    float s = 0;
    for (long long i = blockIdx.x * 128 + threadIdx.x; i < n; i += PARTS * 128) s += x_load(a[i]);
    s = block_sum(s);
    if (threadIdx.x == 0) sums[blockIdx.y * PARTS + blockIdx.x] = s;
}
__global__ void total(const float* sums, long long rows, out_t* y) {
    const long long r = blockIdx.x * 64LL + threadIdx.x;
    if (r >= rows) return;
    float s = 0;
    for (int p = 0; p < PARTS; ++p) s += sums[r * PARTS + p];
    y[r] = out_store(s);
}
""",
)
_SORTED_LAST = "(a[i] > a[best] || a[i] != a[i])"
_ARGMAX = f"""    long long best = 0;
    for (long long i = 1; i < n; ++i) if (a[best] == a[best] && {_SORTED_LAST}) best = i;
"""

HONEST = [
    CudaHonest("RMS norm, a block for each row", op.RMS_NORM, cuda.rms_norm(RMS_ROW)),
    CudaHonest(
        "RMS norm, several widths", op.RMS_NORM, cuda.rms_norm(RMS_ROW), (op.rms_norm(33, 192), op.RMS_NORM_ODD)
    ),
    CudaHonest("RMS norm, one thread for each row, a plain sum", op.RMS_NORM, cuda.rms_norm(_ONE_THREAD_RMS)),
    CudaHonest("RMS norm, Kahan's sum", op.RMS_NORM, cuda.rms_norm(_KAHAN_RMS)),
    CudaHonest("RMS norm in double", op.RMS_NORM, cuda.rms_norm(_ONE_THREAD_RMS.replace("float s", "double s"))),
    CudaHonest("RMS norm in bf16", op.RMS_NORM_BF16, cuda.rms_norm(RMS_ROW)),
    CudaHonest("RMS norm in fp16", op.RMS_NORM_FP16, cuda.rms_norm(RMS_ROW)),
    CudaHonest(
        "RMS norm of the captured width, which `where` says",
        op.RMS_NORM,
        cuda.rms_norm(RMS_ROW.replace("i < n;", "i < 256;"), top='where = "x.shape[1] == 256"\n'),
        (op.rms_norm(16, 512),),
    ),
    CudaHonest(
        "RMS norm that asks the L2 cache to keep its input",
        op.RMS_NORM,
        cuda.rms_norm(
            RMS_ROW.replace("float v = x_load(a[i]);", "float v = kept(a + i, policy);").replace(
                "    float s = 0;",
                "    unsigned long long policy;\n"
                '    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));\n'
                "    float s = 0;",
            ),
            "__device__ __forceinline__ float kept(const float* p, unsigned long long policy) {\n"
            '    float v; asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(p), "l"(policy));\n'
            "    return v;\n}\n",
        ),
    ),
    CudaHonest("softmax, two passes", op.SOFTMAX, cuda.softmax(SOFTMAX_ROW)),
    CudaHonest("softmax over a long axis", op.SOFTMAX_LONG, cuda.softmax(SOFTMAX_ROW)),
    CudaHonest("softmax online", op.SOFTMAX, cuda.softmax(_ONLINE_ROW, _ONLINE_SOFTMAX)),
    CudaHonest("softmax in bf16", op.SOFTMAX_BF16, cuda.softmax(SOFTMAX_ROW)),
    CudaHonest("softmax in fp16", op.SOFTMAX_FP16, cuda.softmax(SOFTMAX_ROW)),
    CudaHonest("layer norm, two passes", op.LAYER_NORM, cuda.layer_norm(LAYER_NORM_ROW)),
    CudaHonest("layer norm in bf16", op.LAYER_NORM_BF16, cuda.layer_norm(LAYER_NORM_ROW)),
    CudaHonest("group norm", op.GROUP_NORM, cuda.group_norm(GROUP_NORM_GROUP)),
    CudaHonest("relu", op.RELU, cuda.pointwise("    o[i] = x[i] < 0 ? 0 : x[i];")),
    CudaHonest("relu in packs of 16 bytes", op.RELU, _VECTOR_RELU),
    CudaHonest("relu by strides, transposed", op.RELU_TRANSPOSED, _STRIDED_RELU),
    CudaHonest("relu by strides, columns", op.RELU_COLUMNS, _STRIDED_RELU),
    CudaHonest("relu of an offset tensor", op.RELU_OFFSET, cuda.pointwise("    o[i] = x[i] < 0 ? 0 : x[i];")),
    CudaHonest("sigmoid", op.SIGMOID, cuda.pointwise("    o[i] = 1 / (1 + expf(-x[i]));")),
    CudaHonest("tanh", op.TANH, cuda.pointwise("    o[i] = tanhf(x[i]);")),
    CudaHonest(
        "gelu by tanh",
        op.GELU_TANH,
        cuda.pointwise(
            "    const float v = x[i];\n    o[i] = 0.5f * v * (1 + tanhf(0.7978845608f * (v + 0.044715f * v * v * v)));"
        ),
    ),
    CudaHonest(
        "gate and product in bf16",
        op.SILU_MUL_BF16,
        cuda.pointwise(
            "    const float g = gate_load(gate[i]);\n"
            "    o[i] = out_store(out_load(out_store(g / (1 + expf(-g)))) * up_load(up[i]));",
            names=("gate", "up"),
        ),
    ),
    CudaHonest("addition", op.ADD, cuda.pointwise("    o[i] = x[i] + y[i];", names=("x", "y"))),
    CudaHonest("addition of integers", op.ADD_INT64, cuda.pointwise("    o[i] = x[i] + y[i];", names=("x", "y"))),
    CudaHonest("addition into an out", op.ADD_IN_PLACE, cuda.pointwise("    o[i] = x[i] + y[i];", names=("x", "y"))),
    CudaHonest(
        "addition in place",
        op.ADD_IN_PLACE,
        cuda.pointwise("    x[i] += y[i];", names=("x", "y"), top="inplace = true\n", out=""),
    ),
    CudaHonest("comparison", op.LESS, cuda.pointwise("    o[i] = x[i] < y[i];", names=("x", "y"))),
    CudaHonest(
        "quantised",
        op.QUANTIZE,
        cuda.pointwise(
            "    o[i] = x[i] != x[i] ? 0 : (signed char)(int)fminf(fmaxf(rintf(x[i] * 20.f), -128.f), 127.f);"
        ),
    ),
    CudaHonest("arg max", op.ARGMAX, cuda.row_reduction(_ARGMAX + "    out[r] = best;", ("out",))),
    CudaHonest(
        "the largest and where it is",
        op.ROW_MAX,
        cuda.row_reduction(_ARGMAX + "    out0[r] = a[best];\n    out1[r] = best;", ("out0", "out1")),
    ),
    CudaHonest(
        "how many are positive",
        op.COUNT_POSITIVE,
        cuda.row_reduction("    long long c = 0;\n    " + _PLAIN + " c += a[i] > 0;\n    out[r] = c;", ("out",)),
    ),
    CudaHonest("sum in parts, then their sum", op.ROW_SUM, _SPLIT_SUM),
    CudaHonest("sum in parts of bf16", op.ROW_SUM_BF16, _SPLIT_SUM),
    CudaHonest("linear, plain", op.LINEAR, cuda.linear(cuda.FLOAT_PRODUCT)),
    CudaHonest("linear in bf16 with sums in fp32", op.LINEAR_BF16, cuda.linear(cuda.FLOAT_PRODUCT)),
    CudaHonest(
        "linear by the vendor's library",
        op.LINEAR,
        cuda.file('[[step]]\ncall = "aten::linear"\nargs = ["x", "weight"]\nout = "out"\n', ""),
    ),
    CudaHonest(
        "gather",
        op.GATHER,
        cuda.file(
            cuda.launch("k", '"index.numel"', '"table", "index", "table.shape[1]", "out"', block="32"),
            "__global__ void k(const float* t, const long long* index, long long n, float* y) {\n"
            f"    {EACH} y[blockIdx.x * n + i] = t[index[blockIdx.x] * n + i];\n}}\n",
        ),
    ),
]
