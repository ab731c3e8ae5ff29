"""Honest kernels in C++, as an author would write them, and the frame that cheats are put into."""

from __future__ import annotations

RMS_ARGS = '["x", "weight", "eps", "x.shape[0]", "x.shape[1]", "out"]'


def file(args: str, code: str, *, extra: str = "", entry: str = "kernel") -> str:
    """A candidate file."""
    return f'// /// kforge\n// entry = "{entry}"\n// args = {args}\n{extra}// ///\n{code}'


def rms_norm(body: str, before: str = "") -> str:
    """A candidate for RMS norm with this body; `x, w, eps, rows, n, y` are its parameters."""
    return file(
        RMS_ARGS,
        f"""#include <cmath>
#include <cstdlib>
{before}
extern "C" void kernel(const float* x, const float* w, float eps, int64_t rows, int64_t n, float* y) {{
{body}
}}
""",
    )


RMS_ROWS = """
#pragma omp parallel for
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float s = 0;
    #pragma omp simd reduction(+:s)
    for (int64_t i = 0; i < n; ++i) s += a[i] * a[i];
    const float k = 1.0f / std::sqrt(s / n + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = w[i] * (a[i] * k);
  }
"""


def softmax(body: str, before: str = "") -> str:
    """A candidate for softmax over rows; `x, rows, n, y` are its parameters."""
    return file(
        '["x", "x.shape[0]", "x.shape[1]", "out"]',
        f"""#include <cmath>
#include <cstdint>
{before}
extern "C" void kernel(const float* x, int64_t rows, int64_t n, float* y) {{
{body}
}}
""",
    )


SOFTMAX_ROWS = """
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float m = a[0];
    for (int64_t i = 1; i < n; ++i) m = a[i] > m || a[i] != a[i] ? a[i] : m;
    float s = 0;
    for (int64_t i = 0; i < n; ++i) { b[i] = std::exp(a[i] - m); s += b[i]; }
    for (int64_t i = 0; i < n; ++i) b[i] /= s;
  }
"""


def layer_norm(body: str) -> str:
    """A candidate for layer norm; `x, w, c, eps, rows, n, y` are its parameters."""
    return file(
        '["x", "weight", "bias", "eps", "x.shape[0]", "x.shape[1]", "out"]',
        f"""#include <cmath>
#include <cstdint>
extern "C" void kernel(const float* x, const float* w, const float* c, float eps, int64_t rows, int64_t n, float* y) {{
{body}
}}
""",
    )


LAYER_NORM_ROWS = """
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float s = 0, v = 0;
    for (int64_t i = 0; i < n; ++i) s += a[i];
    const float m = s / n;
    for (int64_t i = 0; i < n; ++i) v += (a[i] - m) * (a[i] - m);
    const float k = 1.0f / std::sqrt(v / n + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = (a[i] - m) * k * w[i] + c[i];
  }
"""


def relu(body: str, before: str = "") -> str:
    """A candidate for an elementwise function; `x, n, y` are its parameters."""
    return file(
        '["x", "x.numel", "out"]',
        f"""#include <cstdint>
{before}
extern "C" void kernel(const float* x, int64_t n, float* y) {{
{body}
}}
""",
    )
