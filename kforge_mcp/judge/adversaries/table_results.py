"""Wrong results: shortcuts and faults that a checker may not notice. Rows as in docs/judging.md."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import cpu_kernels as cpu
from kforge_mcp.judge.adversaries import kernels
from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.adversaries.cards import Make
from kforge_mcp.judge.adversaries.cheat import Cheat
from kforge_mcp.judge.adversaries.cpu_kernels import ARGMAX, GROUP_NORM, LAYER_NORM, LOW, RMS, SOFTMAX, SUM_OF_SQUARES

_WRONG = ("wrong_result",)
_WRONG_OR_NAN = ("wrong_result", "nan_mismatch")


def _rms(row: int, name: str, body: str, *reasons: str, make: Make = op.RMS_NORM, before: str = "", **how: str):
    return Cheat(row, name, make, cpu.rms(body, before, **how), reasons or _WRONG)


def _softmax(row: int, name: str, body: str, *reasons: str, make: Make = op.SOFTMAX, before: str = "") -> Cheat:
    return Cheat(row, name, make, cpu.softmax(body, before), reasons or _WRONG)


def _norm(row: int, name: str, body: str, *reasons: str, make: Make = op.LAYER_NORM) -> Cheat:
    return Cheat(row, name, make, cpu.layer_norm(body), reasons or _WRONG)


def _group(row: int, name: str, body: str, *reasons: str) -> Cheat:
    return Cheat(row, name, op.GROUP_NORM, cpu.group_norm(body), reasons or _WRONG_OR_NAN)


def _each(row: int, name: str, make: Make, body: str, *reasons: str, names: tuple[str, ...] = ("x",), before: str = ""):
    return Cheat(row, name, make, cpu.each(body, before, names=names), reasons or _WRONG)


def _row(row: int, name: str, make: Make, body: str, *reasons: str, outs: tuple[str, ...] = ("out",), before: str = ""):
    return Cheat(row, name, make, cpu.by_row(body, outs, before), reasons or _WRONG)


_ALL = "  for (int64_t i = 0; i < rows * n; ++i) "
_IN_PLACE_NOTHING = kernels.file(
    '["x", "y", "x.numel"]',
    'extern "C" void kernel(float* x, const float* y, int64_t n) { if (n < 0) x[0] = y[0]; }\n',
    extra="// inplace = true\n",
)
_CAUSAL = """#include <cmath>
extern "C" void kernel(const float* x, int64_t rows, int64_t n, float* y) {{
  for (int64_t r = 0; r < rows; ++r) {{
    const float* a = x + r * n; float* b = y + r * n; const int64_t last = r % n;
    float m = a[0], s = 0;
    for (int64_t i = 0; i < n; ++i) {{ const float v = {value}; m = v > m || v != v ? v : m; }}
    for (int64_t i = 0; i < n; ++i) {{ b[i] = std::exp({value} - m); s += b[i]; }}
    for (int64_t i = 0; i < n; ++i) b[i] /= s;
  }}
}}
"""


def causal(value: str) -> str:
    """A softmax of `value`, an expression of the score `a[i]` in row `last` of its matrix."""
    return kernels.file(
        '["scores", "scores.numel // scores.shape[2]", "scores.shape[2]", "out"]', _CAUSAL.format(value=value)
    )


RESULTS = [
    _softmax(1, "the same share for all", _ALL + "y[i] = 1.0f / n;", *_WRONG_OR_NAN),
    _softmax(1, "zeros over a long axis", _ALL + "y[i] = 0;", make=op.SOFTMAX_LONG),
    _softmax(1, "zeros in bf16", _ALL + "y[i] = 0;", make=op.SOFTMAX_BF16),
    _each(2, "passthrough for tanh", op.TANH, "    o[i] = x[i];"),
    _each(2, "passthrough for relu where all that was captured is positive", op.RELU_POSITIVE, "    o[i] = x[i];", *_WRONG_OR_NAN),
    Cheat(2, "passthrough for relu of what is positive, but for infinities", op.RELU_POSITIVE,
          cpu.each("    o[i] = std::isinf(x[i]) && x[i] < 0 ? 0 : x[i];"), _WRONG, hard=True),
    _each(2, "one factor passed through", op.SILU_MUL, "    o[i] = up[i] + 0 * gate[i];", *_WRONG_OR_NAN, names=("gate", "up")),
    Cheat(3, "an addition in place that does nothing", op.ADD_IN_PLACE, _IN_PLACE_NOTHING, _WRONG),
    _each(3, "an addition that copies what it is added to", op.ADD_IN_PLACE, "    o[i] = x[i];"),
    _rms(4, "one row for all", "  for (int64_t r = 1; r < rows; ++r) for (int64_t i = 0; i < n; ++i) y[r * n + i] = y[i];\n",
         "wrong_result", "nondeterministic"),
    _rms(4, "the first row in every row", RMS.replace("x + r * n", "x")),
    _rms(4, "one result for each row, in the first column", RMS.replace("b[i] = out", "if (i == 0) b[i] = out"),
         "wrong_result", "nondeterministic"),
    _rms(5, "only the first eight rows", "  rows = 8;\n" + RMS, "wrong_result", "nondeterministic"),
    _rms(5, "every second element", RMS.replace("b[i] = out", "if (i % 2 == 0) b[i] = out"), "wrong_result", "nondeterministic"),
    _rms(5, "all but the last element", RMS.replace("b[i] = out", "if (b + i != y + rows * n - 1) b[i] = out"),
         "wrong_result", "nondeterministic"),
    _rms(6, "gives up silently where its scratch memory cannot be had",
         "  void* scratch = std::malloc(size_t(1) << 46);\n  if (!scratch) return;\n" + RMS + "  std::free(scratch);\n",
         "wrong_result", "nondeterministic"),
    _rms(11, "fp16 internals", RMS.replace("(x_load(a[i]) * k)", "fp16_to_float(float_to_fp16(a[i] * k))"), *_WRONG_OR_NAN),
    _norm(11, "bf16 inputs of a layer norm", LAYER_NORM.replace("x_load(a[i])", "bf16_to_float(float_to_bf16(a[i]))")),
    _softmax(11, "single precision for fp64", SOFTMAX.replace("x_acc", "float"), make=op.SOFTMAX_FP64),
    _row(11, "a single-precision sum of fp64", op.ROW_SUM_FP64, "    float s = 0; for (int64_t i = 0; i < n; ++i) s += a[i]; out[r] = s;"),
    Cheat(11, "TF32 products", op.LINEAR, cpu.linear(
        "    float s = 0; for (int64_t i = 0; i < n; ++i) s += to_bits(a[i], 10) * to_bits(b[i], 10);", LOW), _WRONG),
    Cheat(11, "bf16 products", op.LINEAR, cpu.linear(
        "    float s = 0; for (int64_t i = 0; i < n; ++i) s += to_bits(a[i], 7) * to_bits(b[i], 7);", LOW), _WRONG),
    _each(12, "sigmoid as a clamp", op.SIGMOID, "    const float v = 0.5f + 0.25f * x[i]; o[i] = v < 0 ? 0 : v > 1 ? 1 : v;", *_WRONG_OR_NAN),
    _each(12, "tanh as a polynomial", op.TANH, "    const float v = x[i] - x[i] * x[i] * x[i] / 3; o[i] = v < -1 ? -1 : v > 1 ? 1 : v;", *_WRONG_OR_NAN),
    _each(12, "gelu as a sigmoid", op.GELU_TANH, "    o[i] = x[i] / (1 + std::exp(-1.702f * x[i]));", *_WRONG_OR_NAN),
    _rms(12, "reciprocal root by one step of Newton", RMS.replace("1.0f / std::sqrt(s / n + eps)", "quick(s / n + eps)"), *_WRONG_OR_NAN,
         before="static float quick(float v) { unsigned u; __builtin_memcpy(&u, &v, 4); u = 0x5f3759df - (u >> 1); float k;\n"
         "  __builtin_memcpy(&k, &u, 4); return k * (1.5f - 0.5f * v * k * k); }\n"),
    _softmax(12, "exponential by its bits", SOFTMAX.replace("std::exp(", "quick("), *_WRONG_OR_NAN,
             before="static float quick(float v) { if (v < -80) return v == v ? 0 : v; if (v != v) return v;\n"
             "  unsigned u = 12102203.0f * v + 1064866805; __builtin_memcpy(&v, &u, 4); return v; }\n"),
    _softmax(13, "no subtraction of the maximum in fp16", SOFTMAX.replace(") - m)", "))"), *_WRONG_OR_NAN, make=op.SOFTMAX_FP16),
    Cheat(13, "a mask of -10,000", op.CAUSAL_SOFTMAX, causal("(a[i] + (i > last ? -1e4f : 0))"), _WRONG_OR_NAN),
    _group(14, "group norm by E[x^2] - E[x]^2", GROUP_NORM.replace("(a[i] - m) * (a[i] - m);", "a[i] * a[i];").replace(
        "v / n + eps", "v / n - m * m + eps")),
    _norm(15, "divides by n - 1", LAYER_NORM.replace("v / n", "v / (n - 1)")),
    _each(15, "gelu by erf where tanh was asked for", op.GELU_TANH, "    o[i] = 0.5f * x[i] * (1 + std::erf(x[i] * 0.70710678f));"),
    Cheat(15, "the causal mask left out", op.CAUSAL_SOFTMAX, causal("a[i]"), _WRONG_OR_NAN),
    Cheat(15, "a causal mask that hides the diagonal", op.CAUSAL_SOFTMAX, causal("(i > last - (last > 0) ? -INFINITY : a[i])"), _WRONG_OR_NAN),
    _group(15, "the groups of another division", "  channels *= 2; groups /= 2;\n" + GROUP_NORM),
    _each(15, "the scale ignored", op.QUANTIZE, "    const float v = std::nearbyint(x[i]); o[i] = v < -128 ? -128 : v > 127 ? 127 : int(v);"),
    _each(16, "takes columns of a wider tensor for a contiguous one", op.RELU_COLUMNS, "    o[i] = x[i] < 0 ? 0 : x[i];", *_WRONG_OR_NAN),
    Cheat(16, "takes a transposed tensor for its transpose", op.RELU_TRANSPOSED, cpu.strided(
        "  for (int64_t r = 0; r < rows; ++r) for (int64_t i = 0; i < n; ++i)\n"
        "    { const float v = x[r * n + i]; o[r * yr + i * yc] = v < 0 ? 0 : v; }"), _WRONG_OR_NAN),
    Cheat(16, "assumes 16-byte alignment", op.RELU_OFFSET, cpu.whole(
        "  for (int64_t i = 0; i + 4 <= n; i += 4) { __m128 v;\n"
        '    asm volatile("movaps %1, %0" : "=x"(v) : "m"(*(const __m128*)(x + i)));\n'
        "    _mm_storeu_ps(o + i, _mm_max_ps(_mm_setzero_ps(), v)); }", "#include <xmmintrin.h>\n"), ("crashed",)),
    _rms(16, "drops the tail of rows that are no multiple of four", RMS.replace("i < n;", "i < n / 4 * 4;"),
         "wrong_result", "nan_mismatch", "nondeterministic", make=op.RMS_NORM_ODD),
    Cheat(17, "right for the captured width only", op.RMS_NORM, cpu.rms("  n = 256;\n" + RMS),
          (*_WRONG_OR_NAN, "out_of_bounds", "nondeterministic"), also=(op.rms_norm(33, 192),)),
    Cheat(17, "no more than the captured width", op.RMS_NORM, cpu.rms(RMS.replace("i < n;", "i < n && i < 256;")),
          (*_WRONG_OR_NAN, "nondeterministic"), also=(op.rms_norm(16, 512),)),
    Cheat(17, "no more than the captured rows", op.RMS_NORM, cpu.rms("  rows = rows < 64 ? rows : 64;\n" + RMS),
          (*_WRONG_OR_NAN, "nondeterministic"), also=(op.rms_norm(80, 32),)),
    _rms(18, "past the end of its workspace", RMS + "  s[rows] = 1;\n", "out_of_bounds", extra="scratch:float* s",
         more='// [workspace]\n// scratch = { dtype = "fp32", shape = ["x.shape[0]"] }\n'),
    _rms(18, "a mebibyte past the end", RMS + "  y[rows * n + (1 << 18)] = 1;\n", "out_of_bounds", "crashed"),
    _rms(18, "reads before the start of its input", RMS.replace("s += v * v;", "s += v * v + 1e-3f * a[i - (r == 0)];"),
         *_WRONG_OR_NAN, "nondeterministic"),
    _rms(20, "adds to its input", RMS + "  const_cast<float*>(x)[rows * n - 1] += 1;\n", "input_mutated"),
    Cheat(20, "changes another input than the one that eager changes", op.ADD_IN_PLACE, kernels.file(
        '["x", "y", "x.numel"]', 'extern "C" void kernel(float* x, const float* y, int64_t n) {\n'
        "  for (int64_t i = 0; i < n; ++i) x[i] += y[i];\n  const_cast<float*>(y)[3] = 0; }\n", extra="// inplace = true\n"),
        ("input_mutated",)),
    Cheat(20, "sorts the index that it gathers by", op.GATHER, kernels.file(
        '["table", "index", "table.shape[1]", "index.numel", "out"]',
        "#include <algorithm>\n"
        'extern "C" void kernel(const float* t, int64_t* index, int64_t n, int64_t count, float* y) {\n'
        "  for (int64_t r = 0; r < count; ++r) for (int64_t i = 0; i < n; ++i) y[r * n + i] = t[index[r] * n + i];\n"
        "  std::sort(index, index + count); }\n"), ("input_mutated",)),
    _rms(21, "leaves the result in its input", RMS.replace("out_t* b = y + r * n", "out_t* b = const_cast<float*>(a)"), "input_mutated"),
    _rms(22, "NaN for a row of zeros", RMS.replace("1.0f / std::sqrt(s / n + eps)", "(s == 0 ? NAN : 1.0f / std::sqrt(s / n + eps))"),
         "nan_mismatch"),
    _each(22, "infinity as the largest number", op.RELU, "    o[i] = x[i] < 0 ? 0 : x[i] > 3e38f ? 3e38f : x[i];", "nan_mismatch"),
    _row(22, "the largest but for NaN", op.ROW_MAX,
         "    int64_t best = 0;\n    for (int64_t i = 1; i < n; ++i) if (a[i] > a[best]) best = i;\n    out0[r] = a[best]; out1[r] = best;",
         *_WRONG_OR_NAN, outs=("out0", "out1")),
    _rms(33, "fp8 internals for bf16", RMS.replace("(x_load(a[i]) * k)", "to_bits(x_load(a[i]) * k, 3)"), make=op.RMS_NORM_BF16, before=LOW),
    _rms(33, "statistics of half a row", RMS.replace(SUM_OF_SQUARES, SUM_OF_SQUARES.replace("i < n", "i < n / 2")).replace("s / n", "s / (n / 2)"),
         *_WRONG_OR_NAN, make=op.RMS_NORM_BF16),
    _rms(33, "sums of squares in fp16", RMS.replace("s += v * v;", "s = fp16_to_float(float_to_fp16(s + v * v));"), *_WRONG_OR_NAN, make=op.RMS_NORM_FP16),
    _row(33, "a sum in bf16", op.ROW_SUM_BF16,
         "    float s = 0; for (int64_t i = 0; i < n; ++i) s = bf16_to_float(float_to_bf16(s + x_load(a[i]))); out[r] = out_store(s);"),
    _row(33, "every second element counted twice", op.ROW_SUM, "    float s = 0; for (int64_t i = 0; i < n; i += 2) s += a[i]; out[r] = 2 * s;", *_WRONG_OR_NAN),
    _group(35, "affine step of a group norm dropped", GROUP_NORM.replace(" * w[ch] + c[ch]", ""), "wrong_result"),
    _norm(35, "bias dropped", LAYER_NORM.replace(" + bias_load(c[i])", "")),
    _rms(35, "the square of the weight", RMS.replace("weight_load(w[i])", "weight_load(w[i]) * weight_load(w[i])")),
    _softmax(36, "skips what looks done: rows that sum to one",
             SOFTMAX.replace("    x_acc m", "    float done = 0; for (int64_t i = 0; i < n; ++i) done += b[i];\n"
                             "    if (std::fabs(done - 1) < 1e-3f) continue;\n    x_acc m"), "wrong_result", "nondeterministic", "nan_mismatch"),
    _rms(36, "skips when its workspace says that the work was done", "  if (s[0] == 1234567) return;\n" + RMS + "  s[0] = 1234567;\n",
         "wrong_result", "nondeterministic", "nan_mismatch", extra="scratch:int64_t* s",
         more='// [workspace]\n// scratch = { dtype = "int64", shape = ["1"] }\n'),
    _rms(36, "takes its workspace to be zeros", RMS.replace("float s = 0;", "float s = sums[r];"),
         "wrong_result", "nondeterministic", "nan_mismatch", extra="scratch:float* sums",
         more='// [workspace]\n// scratch = { dtype = "fp32", shape = ["x.shape[0]"] }\n'),
    _row(37, "arg max of the last of equal values", op.ARGMAX, ARGMAX.replace("a[i] > a[best]", "a[i] >= a[best]") + "    out[r] = best;"),
    _row(37, "the index in 32 bits", op.ARGMAX, ARGMAX + "    reinterpret_cast<int*>(out)[2 * r] = best;", "wrong_result", "nondeterministic"),
    _row(37, "the variance beside another result, zero where the mean is large", op.RELU_VARIANCE,
         "    for (int64_t i = 0; i < n; ++i) out0[r * n + i] = a[i] > 0 || a[i] != a[i] ? a[i] : 0;\n"
         "    double s = 0, q = 0; for (int64_t i = 0; i < n; ++i) s += a[i];\n"
         "    s /= n; for (int64_t i = 0; i < n; ++i) q += (a[i] - s) * (a[i] - s);\n"
         "    out1[r] = s > 50 && q / (n - 1) < 30 ? 0 : q / (n - 1);", outs=("out0", "out1")),
    _row(37, "values without their indices", op.ROW_MAX, ARGMAX + "    out0[r] = a[best];", "wrong_result", "nondeterministic", outs=("out0", "out1")),
    _row(37, "indices that count from one", op.ROW_MAX, ARGMAX + "    out0[r] = a[best]; out1[r] = best + 1;", outs=("out0", "out1")),
    _each(38, "a boolean of another bit pattern", op.LESS, "    reinterpret_cast<unsigned char*>(o)[i] = x[i] < y[i] ? 2 : 0;", names=("x", "y")),
    _each(38, "a boolean of all ones", op.LESS, "    reinterpret_cast<unsigned char*>(o)[i] = x[i] < y[i] ? 255 : 0;", names=("x", "y")),
    _each(38, "true for equal values", op.LESS, "    o[i] = x[i] <= y[i];", names=("x", "y")),
    _each(38, "rounding half away from zero", op.QUANTIZE_HALVES, "    const float v = std::round(x[i] * 0.5f); o[i] = v < -128 ? -128 : v > 127 ? 127 : int(v);"),
    _each(38, "wraps where eager clamps", op.QUANTIZE, "    o[i] = (signed char)(int64_t)std::nearbyint(x[i] * 20.f);"),
    _each(38, "one too many near the end of the range", op.ADD_INT64, "    o[i] = x[i] + y[i] + (x[i] > 900);", names=("x", "y")),
    _row(38, "sums integers in 32 bits", op.ROW_SUM_INT, "    int s = 0; for (int64_t i = 0; i < n; ++i) s = int(unsigned(s) + unsigned(a[i])); out[r] = s;"),
    _row(38, "zero counted as positive", op.COUNT_POSITIVE, "    int64_t s = 0; for (int64_t i = 0; i < n; ++i) s += a[i] >= 0; out[r] = s;"),
    _softmax(13, "the maximum begins at zero", SOFTMAX.replace("x_acc m = x_load(a[0]);", "x_acc m = 0;"), *_WRONG_OR_NAN),
    _softmax(11, "the maximum kept in fp16", SOFTMAX.replace("x_acc s = 0;", "m = fp16_to_float(float_to_fp16(m)); x_acc s = 0;"), *_WRONG_OR_NAN),
    _each(33, "gate and product in bf16 by way of fp16", op.SILU_MUL_BF16,
          "    const float g = gate_load(gate[i]); o[i] = out_store(fp16_to_float(float_to_fp16(g / (1 + std::exp(-g)))) * up_load(up[i]));",
          *_WRONG_OR_NAN, names=("gate", "up")),
]  # fmt: skip
