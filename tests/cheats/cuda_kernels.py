"""Honest kernels in CUDA C++, as an author would write them, and the frames that cheats are put into."""

from __future__ import annotations


def launch(kernel: str, grid: str, args: str, *, block: str = "256", more: str = "") -> str:
    """One step of a metadata block."""
    return f'[[step]]\nkernel = "{kernel}"\ngrid = [{grid}]\nblock = ["{block}"]\nargs = [{args}]\n{more}'


def file(metadata: str, code: str) -> str:
    """A candidate file."""
    block = "".join(f"// {line}\n" for line in metadata.strip("\n").split("\n"))
    return f"// /// kforge\n{block}// ///\n{code}"


SUM = """
__device__ __forceinline__ float block_sum(float v) {
    __shared__ float part[32];
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < (blockDim.x + 31) / 32; ++i) total += part[i];
    return total;
}
"""
MOST = """
__device__ __forceinline__ float larger(float a, float b) { return a != a ? a : b != b ? b : a > b ? a : b; }
__device__ __forceinline__ float block_max(float v) {
    __shared__ float part[32];
    for (int o = 16; o; o >>= 1) v = larger(v, __shfl_xor_sync(~0u, v, o));
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    v = part[0];
    for (int i = 1; i < (blockDim.x + 31) / 32; ++i) v = larger(v, part[i]);
    return v;
}
"""
EACH = "for (long long i = threadIdx.x; i < n; i += blockDim.x)"


def rms_norm(body: str, before: str = "", *, more: str = "", extra: str = "", top: str = "", block: str = "256") -> str:
    """A block for each row; `x, w, eps, n, y, rows` are the kernel's parameters, `a` and `b` its row of `x` and `y`.
    `extra` names arguments, as `(expression, declaration)` joined by a colon."""
    name, _, declared = extra.partition(":")
    args = '"x", "weight", "eps", "x.shape[1]", "out", "x.shape[0]"' + (f', "{name}"' if name else "")
    code = f"""{SUM}{before}
__global__ void k(const x_t* x, const weight_t* w, float eps, long long n, out_t* y,
                  long long rows{", " + declared if declared else ""}) {{
    const x_t* a = x + blockIdx.x * n; out_t* b = y + blockIdx.x * n;
{body}
}}
"""
    return file(top + launch("k", '"x.shape[0]"', args, block=block) + more, code)


RMS_ROW = f"""
    float s = 0;
    {EACH} {{ float v = x_load(a[i]); s += v * v; }}
    const float r = 1.0f / sqrtf(block_sum(s) / n + eps);
    {EACH} b[i] = out_store(weight_load(w[i]) * (x_load(a[i]) * r));
"""


def softmax(body: str, before: str = "", *, top: str = "") -> str:
    """A block for each row; `x, n, y, rows` are the kernel's parameters, `a` and `b` its row."""
    args = '"x", "x.shape[1]", "out", "x.shape[0]"'
    code = f"""{SUM}{MOST}{before}
__global__ void k(const x_t* x, long long n, out_t* y, long long rows) {{
    const x_t* a = x + blockIdx.x * n; out_t* b = y + blockIdx.x * n;
{body}
}}
"""
    return file(top + launch("k", '"x.shape[0]"', args), code)


SOFTMAX_ROW = f"""
    float m = x_load(a[0]);
    {EACH} m = larger(m, x_load(a[i]));
    m = block_max(m);
    float s = 0;
    {EACH} s += expf(x_load(a[i]) - m);
    s = block_sum(s);
    {EACH} b[i] = out_store(expf(x_load(a[i]) - m) / s);
"""


def layer_norm(body: str, before: str = "") -> str:
    """A block for each row; `x, w, c, eps, n, y` are the kernel's parameters, `a` and `b` its row."""
    args = '"x", "weight", "bias", "eps", "x.shape[1]", "out"'
    code = f"""{SUM}{before}
__global__ void k(const x_t* x, const weight_t* w, const bias_t* c, float eps, long long n, out_t* y) {{
    const x_t* a = x + blockIdx.x * n; out_t* b = y + blockIdx.x * n;
{body}
}}
"""
    return file(launch("k", '"x.shape[0]"', args), code)


LAYER_NORM_ROW = f"""
    float s = 0, v = 0;
    {EACH} s += x_load(a[i]);
    const float m = block_sum(s) / n;
    {EACH} {{ float d = x_load(a[i]) - m; v += d * d; }}
    const float r = 1.0f / sqrtf(block_sum(v) / n + eps);
    {EACH} b[i] = out_store((x_load(a[i]) - m) * r * weight_load(w[i]) + bias_load(c[i]));
"""


def group_norm(body: str, before: str = "") -> str:
    """A block for each group; `channels` are a group's, `plane` the elements of one, `n` the elements of a group,
    `first` the group's first channel."""
    args = (
        '"x", "weight", "bias", "eps", "groups", "x.shape[1] // groups", "x.numel // (x.shape[0] * x.shape[1])", "out"'
    )
    code = f"""{SUM}{before}
__global__ void k(const x_t* x, const weight_t* w, const bias_t* c, float eps, long long groups, long long channels,
                  long long plane, out_t* y) {{
    const long long n = channels * plane, first = blockIdx.x % groups * channels;
    const x_t* a = x + blockIdx.x * n; out_t* b = y + blockIdx.x * n;
{body}
}}
"""
    return file(launch("k", '"x.shape[0] * groups"', args), code)


GROUP_NORM_GROUP = f"""
    float s = 0, v = 0;
    {EACH} s += x_load(a[i]);
    const float m = block_sum(s) / n;
    {EACH} {{ float d = x_load(a[i]) - m; v += d * d; }}
    const float r = 1.0f / sqrtf(block_sum(v) / n + eps);
    {EACH} {{
        const long long q = first + i / plane;
        b[i] = out_store((x_load(a[i]) - m) * r * weight_load(w[q]) + bias_load(c[q]));
    }}
"""


def pointwise(body: str, before: str = "", *, names: tuple[str, ...] = ("x",), top: str = "", out: str = "out") -> str:
    """A thread for each element of contiguous tensors of one size; `i` is its place, `n` their size, `o` the result."""
    args = ", ".join(f'"{name}"' for name in (*names, f"{names[0]}.numel", *([out] if out else [])))
    taken = ", ".join(f"{name}_t* {name}" if not out else f"const {name}_t* {name}" for name in names)
    result = f", {out}_t* o" if out else ""
    code = f"""{before}
__global__ void k({taken}, long long n{result}) {{
    const long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
{body}
}}
"""
    return file(top + launch("k", f'"ceil_div({names[0]}.numel, 256)"', args), code)


def row_reduction(body: str, outs: tuple[str, ...], before: str = "") -> str:
    """A thread for each row; `x, rows, n` are the kernel's parameters, `r` its row, `a` where that begins."""
    args = ", ".join(f'"{name}"' for name in ("x", "x.shape[0]", "x.shape[1]", *outs))
    taken = ", ".join(f"{name}_t* {name}" for name in outs)
    code = f"""{before}
__global__ void k(const x_t* x, long long rows, long long n, {taken}) {{
    const long long r = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const x_t* a = x + r * n;
{body}
}}
"""
    return file(launch("k", '"ceil_div(x.shape[0], 32)"', args, block="32"), code)


_ROW_OF_LINEAR = file(
    launch("k", '"x.shape[0]"', '"x", "weight", "x.shape[1]", "weight.shape[0]", "out"', block="64"),
    """
{before}
__global__ void k(const x_t* x, const weight_t* w, long long inner, long long n, out_t* y) {{
    const x_t* a = x + blockIdx.x * inner;
    {each} {{
        float s = 0;
        for (long long j = 0; j < inner; ++j) s += {product};
        y[blockIdx.x * n + i] = out_store(s);
    }}
}}
""",
)
FLOAT_PRODUCT = "x_load(a[j]) * weight_load(w[i * inner + j])"


def linear(product: str, before: str = "") -> str:
    """A block for each row of `x`; `product` is of `a[j]` and `w[i * inner + j]`."""
    return _ROW_OF_LINEAR.format(before=before, each=EACH, product=product)
