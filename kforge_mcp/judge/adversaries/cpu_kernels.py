"""Frames for CPU candidates of any dtype, and honest bodies for them. Types and conversions are those that kforge
injects: `x_t`, `x_load`, `out_store`."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import kernels


def rms(body: str, before: str = "", *, extra: str = "", more: str = "") -> str:
    """`x, w, eps, rows, n, y` are the parameters. `extra` is a further argument, as `expression:declaration`."""
    expression, _, declared = extra.partition(":")
    args = kernels.RMS_ARGS[:-1] + (f', "{expression}"]' if expression else "]")
    return kernels.file(
        args,
        f"""#include <cmath>
#include <cstdlib>
{before}
extern "C" void kernel(const x_t* x, const weight_t* w, eps_t eps, int64_t rows, int64_t n, out_t* y{
            ", " + declared if declared else ""
        }) {{
{body}
}}
""",
        extra=more,
    )


RMS = """
  for (int64_t r = 0; r < rows; ++r) {
    const x_t* a = x + r * n; out_t* b = y + r * n;
    float s = 0;
    for (int64_t i = 0; i < n; ++i) { float v = x_load(a[i]); s += v * v; }
    const float k = 1.0f / std::sqrt(s / n + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = out_store(weight_load(w[i]) * (x_load(a[i]) * k));
  }
"""
SUM_OF_SQUARES = "    for (int64_t i = 0; i < n; ++i) { float v = x_load(a[i]); s += v * v; }\n"


def softmax(body: str, before: str = "") -> str:
    """`x, rows, n, y` are the parameters."""
    return kernels.file(
        '["x", "x.numel // x.shape[x.ndim - 1]", "x.shape[x.ndim - 1]", "out"]',
        f"""#include <cmath>
{before}
extern "C" void kernel(const x_t* x, int64_t rows, int64_t n, out_t* y) {{
{body}
}}
""",
    )


SOFTMAX = """
  for (int64_t r = 0; r < rows; ++r) {
    const x_t* a = x + r * n; out_t* b = y + r * n;
    x_acc m = x_load(a[0]);
    for (int64_t i = 1; i < n; ++i) { x_acc v = x_load(a[i]); m = v > m || v != v ? v : m; }
    x_acc s = 0;
    for (int64_t i = 0; i < n; ++i) s += std::exp(x_load(a[i]) - m);
    for (int64_t i = 0; i < n; ++i) b[i] = out_store(std::exp(x_load(a[i]) - m) / s);
  }
"""


def layer_norm(body: str, before: str = "") -> str:
    """`x, w, c, eps, rows, n, y` are the parameters."""
    return kernels.file(
        '["x", "weight", "bias", "eps", "x.shape[0]", "x.shape[1]", "out"]',
        f"""#include <cmath>
{before}
extern "C" void kernel(const x_t* x, const weight_t* w, const bias_t* c, eps_t eps, int64_t rows, int64_t n,
                       out_t* y) {{
{body}
}}
""",
    )


LAYER_NORM = """
  for (int64_t r = 0; r < rows; ++r) {
    const x_t* a = x + r * n; out_t* b = y + r * n;
    float s = 0, v = 0;
    for (int64_t i = 0; i < n; ++i) s += x_load(a[i]);
    const float m = s / n;
    for (int64_t i = 0; i < n; ++i) { float d = x_load(a[i]) - m; v += d * d; }
    const float k = 1.0f / std::sqrt(v / n + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = out_store((x_load(a[i]) - m) * k * weight_load(w[i]) + bias_load(c[i]));
  }
"""


def group_norm(body: str) -> str:
    """`x, w, c, eps, batch, groups, channels, plane, y` are the parameters; `channels` are those of a group."""
    return kernels.file(
        '["x", "weight", "bias", "eps", "x.shape[0]", "groups", "x.shape[1] // groups", '
        '"x.numel // (x.shape[0] * x.shape[1])", "out"]',
        f"""#include <cmath>
extern "C" void kernel(const float* x, const float* w, const float* c, float eps, int64_t batch, int64_t groups,
                       int64_t channels, int64_t plane, float* y) {{
{body}
}}
""",
    )


GROUP_NORM = """
  const int64_t n = channels * plane;
  for (int64_t q = 0; q < batch * groups; ++q) {
    const float* a = x + q * n; float* b = y + q * n;
    float s = 0, v = 0;
    for (int64_t i = 0; i < n; ++i) s += a[i];
    const float m = s / n;
    for (int64_t i = 0; i < n; ++i) v += (a[i] - m) * (a[i] - m);
    const float k = 1.0f / std::sqrt(v / n + eps);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t ch = q % groups * channels + i / plane;
      b[i] = (a[i] - m) * k * w[ch] + c[ch];
    }
  }
"""


def each(body: str, before: str = "", *, names: tuple[str, ...] = ("x",)) -> str:
    """For every element of contiguous tensors of one size: `i` is its place, `n` their size, `o` the result."""
    args = ", ".join(f'"{name}"' for name in (*names, f"{names[0]}.numel", "out"))
    taken = ", ".join(f"const {name}_t* {name}" for name in names)
    return kernels.file(
        f"[{args}]",
        f"""#include <cmath>
{before}
extern "C" void kernel({taken}, int64_t n, out_t* o) {{
  for (int64_t i = 0; i < n; ++i) {{
{body}
  }}
}}
""",
    )


def whole(body: str, before: str = "") -> str:
    """All of a contiguous tensor at once: `x, n, o` are the parameters."""
    return kernels.file(
        '["x", "x.numel", "out"]',
        f'#include <cmath>\n{before}\nextern "C" void kernel(const x_t* x, int64_t n, out_t* o) {{\n{body}\n}}\n',
    )


def by_row(body: str, outs: tuple[str, ...] = ("out",), before: str = "") -> str:
    """For every row: `r` is its number, `a` where it begins, `n` its length."""
    args = ", ".join(f'"{name}"' for name in ("x", "x.shape[0]", "x.shape[1]", *outs))
    taken = ", ".join(f"{name}_t* {name}" for name in outs)
    return kernels.file(
        f"[{args}]",
        f"""#include <cmath>
{before}
extern "C" void kernel(const x_t* x, int64_t rows, int64_t n, {taken}) {{
  for (int64_t r = 0; r < rows; ++r) {{
    const x_t* a = x + r * n;
{body}
  }}
}}
""",
    )


def linear(body: str, before: str = "") -> str:
    """For every element of the product: `r` and `q` are its row and column, `a` and `b` the rows of `x` and `weight`
    of length `n`; `s` is what the body adds up."""
    return kernels.file(
        '["x", "weight", "x.shape[0]", "weight.shape[0]", "x.shape[1]", "out"]',
        f"""#include <cmath>
{before}
extern "C" void kernel(const x_t* x, const weight_t* w, int64_t rows, int64_t columns, int64_t n, out_t* y) {{
  for (int64_t r = 0; r < rows; ++r) for (int64_t q = 0; q < columns; ++q) {{
    const x_t* a = x + r * n; const weight_t* b = w + q * n;
{body}
    y[r * columns + q] = out_store(s);
  }}
}}
""",
    )


def strided(body: str) -> str:
    """A matrix by its strides: `x, o, rows, n, xr, xc, yr, yc` are the parameters."""
    return kernels.file(
        '["x", "out", "x.shape[0]", "x.shape[1]", "x.stride[0]", "x.stride[1]", "out.stride[0]", "out.stride[1]"]',
        f"""extern "C" void kernel(const float* x, float* o, int64_t rows, int64_t n, int64_t xr, int64_t xc,
                       int64_t yr, int64_t yc) {{
{body}
}}
""",
    )


LOW = """#include <cstring>
[[maybe_unused]] static inline float to_bits(float v, int bits) {
  unsigned u; std::memcpy(&u, &v, 4); const unsigned half = 1u << (22 - bits);
  u = (u + half) & ~(2 * half - 1); std::memcpy(&v, &u, 4); return v; }
"""
"""`to_bits(v, 7)` is `v` as bf16 has it, 10 as TF32, 3 as fp8 e4m3, of its mantissa."""
ARGMAX = """    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) if (a[best] == a[best] && (a[i] > a[best] || a[i] != a[i])) best = i;
"""
