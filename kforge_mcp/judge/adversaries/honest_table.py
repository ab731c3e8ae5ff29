"""Honest candidates of many styles, over every kind of output: each must pass."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import cpu_kernels as cpu
from kforge_mcp.judge.adversaries import kernels
from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.adversaries.cards import Make
from kforge_mcp.judge.adversaries.cheat import Honest
from kforge_mcp.judge.adversaries.cpu_kernels import ARGMAX, GROUP_NORM, LAYER_NORM, LOW, RMS, SOFTMAX, SUM_OF_SQUARES
from kforge_mcp.judge.adversaries.table_results import causal


def _rms(name: str, body: str, make: Make = op.RMS_NORM, before: str = "", *, also: tuple[Make, ...] = (), **how: str):
    return Honest(name, make, cpu.rms(body, before, **how), also)


def _softmax(name: str, body: str, make: Make = op.SOFTMAX, before: str = "") -> Honest:
    return Honest(name, make, cpu.softmax(body, before))


def _norm(name: str, body: str, make: Make = op.LAYER_NORM) -> Honest:
    return Honest(name, make, cpu.layer_norm(body))


def _each(name: str, make: Make, body: str, names: tuple[str, ...] = ("x",), before: str = "") -> Honest:
    return Honest(name, make, cpu.each(body, before, names=names))


def _row(name: str, make: Make, body: str, outs: tuple[str, ...] = ("out",), before: str = "") -> Honest:
    return Honest(name, make, cpu.by_row(body, outs, before))


def _squares(sum_of_squares: str) -> str:
    return RMS.replace(SUM_OF_SQUARES, sum_of_squares)


_PARALLEL = "#pragma omp parallel for\n"
_PAIRWISE = """static float pairwise(const float* a, int64_t n) {
  if (n <= 8) { float s = 0; for (int64_t i = 0; i < n; ++i) s += a[i] * TERM; return s; }
  return pairwise(a, n / 2) + pairwise(a + n / 2, n - n / 2); }
"""
_KAHAN = (
    "    float lost = 0;\n    for (int64_t i = 0; i < n; ++i) { const float v = {} - lost, t = s + v;\n"
    "      lost = std::isinf(t) ? 0 : (t - s) - v; s = t; }\n"
)
_NEUMAIER = (
    "    float lost = 0;\n    for (int64_t i = 0; i < n; ++i) { const float v = a[i], t = s + v;\n"
    "      lost += std::fabs(s) >= std::fabs(v) ? (s - t) + v : (v - t) + s; s = t; }\n"
    "    s = std::isfinite(s) ? s + lost : s;\n"
)
_ONLINE = """
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float m = -INFINITY, s = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float v = a[i];
      if (v > m) { s *= std::exp(m - v); m = v; }
      s += std::exp(v - m);
    }
    for (int64_t i = 0; i < n; ++i) b[i] = std::exp(a[i] - m) / s;
  }
"""
_SPLIT_SOFTMAX = """
  constexpr int64_t parts = 4;
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float m[parts], s[parts];
    #pragma omp parallel for
    for (int64_t p = 0; p < parts; ++p) {
      const int64_t from = n * p / parts, to = n * (p + 1) / parts;
      m[p] = a[from]; s[p] = 0;
      for (int64_t i = from; i < to; ++i) m[p] = a[i] > m[p] || a[i] != a[i] ? a[i] : m[p];
      for (int64_t i = from; i < to; ++i) s[p] += std::exp(a[i] - m[p]);
    }
    float most = m[0], sum = 0;
    for (int64_t p = 1; p < parts; ++p) most = m[p] > most || m[p] != m[p] ? m[p] : most;
    for (int64_t p = 0; p < parts; ++p) sum += s[p] * std::exp(m[p] - most);
    for (int64_t i = 0; i < n; ++i) b[i] = std::exp(a[i] - most) / sum;
  }
"""
_VECTOR = "#include <cstring>\ntypedef float V __attribute__((vector_size(32)));\n"
_VECTOR_SQUARES = """    V sums = {}; int64_t j = 0;
    for (; j + 8 <= n; j += 8) { V v; std::memcpy(&v, a + j, 32); sums += v * v; }
    for (int l = 0; l < 8; ++l) s += sums[l];
    for (; j < n; ++j) s += a[j] * a[j];
"""
_WELFORD = """
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    float m = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) { const float d = a[i] - m; m += d / (i + 1); q += d * (a[i] - m); }
    const float k = 1.0f / std::sqrt(q / n + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = (a[i] - m) * k * w[i] + c[i];
  }
"""
_SHIFTED = """
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n; float* b = y + r * n;
    double s = 0, q = 0;
    for (int64_t i = 0; i < n; ++i) { const double d = double(a[i]) - a[0]; s += d; q += d * d; }
    const double m = a[0] + s / n, k = 1 / std::sqrt((q / n - s / n * (s / n) < 0 ? 0 : q / n - s / n * (s / n)) + eps);
    for (int64_t i = 0; i < n; ++i) b[i] = float((a[i] - m) * k) * w[i] + c[i];
  }
"""
_LINEAR = "    float s = 0; for (int64_t i = 0; i < n; ++i) s += {} * {};"
_PLAIN = _LINEAR.format("x_load(a[i])", "weight_load(b[i])")
_RELU_BY_STRIDES = cpu.strided(
    "  for (int64_t r = 0; r < rows; ++r) for (int64_t i = 0; i < n; ++i)\n"
    "    { const float v = x[r * xr + i * xc]; o[r * yr + i * yc] = v < 0 ? 0 : v; }"
)
_IN_PLACE = kernels.file(
    '["x", "y", "x.numel"]',
    'extern "C" void kernel(float* x, const float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) x[i] += y[i]; }\n',
    extra="// inplace = true\n",
)
_GATHER = """extern "C" void kernel(const float* t, const int64_t* index, int64_t n, int64_t count, float* y) {
  for (int64_t r = 0; r < count; ++r) for (int64_t i = 0; i < n; ++i) y[r * n + i] = t[index[r] * n + i]; }
"""
_SUM = "    {} s = 0; for (int64_t i = 0; i < n; ++i) s += x_load(a[i]); out[r] = out_store(s);"
_FOUR_SUMS = (
    "    float s[4] = {}; int64_t i = 0; for (; i + 4 <= n; i += 4) for (int j = 0; j < 4; ++j) s[j] += a[i + j];\n"
    "    for (; i < n; ++i) s[0] += a[i];\n    out[r] = (s[0] + s[1]) + (s[2] + s[3]);"
)

HONEST = [
    _rms("RMS norm, a plain sum", RMS),
    _rms("RMS norm, Kahan's sum", _squares(_KAHAN.replace("{}", "a[i] * a[i]", 1))),
    _rms("RMS norm, a pairwise sum", _squares("    s = pairwise(a, n);\n"), before=_PAIRWISE.replace("TERM", "a[i]")),
    _rms("RMS norm, rows in parallel", _PARALLEL + RMS),
    _rms("RMS norm, rows dealt out as threads ask for them", "#pragma omp parallel for schedule(dynamic, 3)\n" + RMS),
    _rms("RMS norm, vectorised by a directive",
         _squares("    #pragma omp simd reduction(+:s)\n    for (int64_t i = 0; i < n; ++i) s += a[i] * a[i];\n")),
    _rms("RMS norm, vector extensions", _squares(_VECTOR_SQUARES), before=_VECTOR),
    _rms("RMS norm, sums backwards",
         _squares("    for (int64_t i = n; i-- > 0;) s += a[i] * a[i];\n")),
    _rms("RMS norm in double", RMS.replace("float", "double")),
    _rms("RMS norm, squares as fused products", RMS.replace("s += v * v", "s = std::fma(v, v, s)")),
    _rms("RMS norm of odd rows", RMS, op.RMS_NORM_ODD),
    _rms("RMS norm of several widths", RMS, also=(op.rms_norm(33, 192), op.rms_norm(80, 32))),
    _rms("RMS norm of the captured width, which `where` says", RMS.replace("i < n;", "i < 256;"), also=(op.rms_norm(16, 512),),
         more='// where = "x.shape[1] == 256"\n'),
    _rms("RMS norm by way of a workspace",
         RMS.replace("float s = 0;", "float& s = sums[r]; s = 0;"), extra="sums:float* sums",
         more='// [workspace]\n// sums = { dtype = "fp32", shape = ["x.shape[0]"] }\n'),
    _rms("RMS norm by way of a workspace of zeros", RMS.replace("float s = 0;", "float& s = sums[r];"), extra="sums:float* sums",
         more='// [workspace]\n// sums = { dtype = "fp32", shape = ["x.shape[0]"], init = "zero" }\n'),
    _rms("RMS norm in strips of a tunable length",
         _squares("    for (int64_t j = 0; j < n; j += STRIP) { float part = 0;\n"
                  "      for (int64_t i = j; i < n && i < j + STRIP; ++i) part += a[i] * a[i];\n      s += part; }\n"),
         more="// [tunables]\n// STRIP = [64]\n"),
    _rms("RMS norm in bf16", RMS, op.RMS_NORM_BF16),
    _rms("RMS norm in bf16 in double", RMS.replace("float", "double"), op.RMS_NORM_BF16),
    _rms("RMS norm in bf16 that rounds where eager does", RMS.replace("(x_load(a[i]) * k)", "to_bits(x_load(a[i]) * k, 7)"),
         op.RMS_NORM_BF16, LOW),
    _rms("RMS norm in fp16", RMS, op.RMS_NORM_FP16),
    _softmax("softmax, two passes", SOFTMAX),
    _softmax("softmax online", _ONLINE),
    _softmax("softmax in double", SOFTMAX.replace("x_acc", "double")),
    _softmax("softmax by powers of two", SOFTMAX.replace("std::exp(x_load(a[i]) - m)", "std::exp2((a[i] - m) * 1.44269504f)")),
    _softmax("softmax by reciprocal", SOFTMAX.replace("/ s);", "* inverse);").replace(
        "    for (int64_t i = 0; i < n; ++i) b", "    const float inverse = 1 / s;\n    for (int64_t i = 0; i < n; ++i) b")),
    _softmax("softmax of rows in four parts, each with a thread", _SPLIT_SOFTMAX, op.SOFTMAX_LONG),
    _softmax("softmax over a long axis", SOFTMAX, op.SOFTMAX_LONG),
    _softmax("softmax in fp64", SOFTMAX, op.SOFTMAX_FP64),
    _softmax("softmax in bf16", SOFTMAX, op.SOFTMAX_BF16),
    _softmax("softmax in fp16", SOFTMAX, op.SOFTMAX_FP16),
    Honest("causal softmax, a mask of infinities", op.CAUSAL_SOFTMAX, causal("(i > last ? -INFINITY : a[i])")),
    Honest("causal softmax that never looks at what is hidden", op.CAUSAL_SOFTMAX, causal("a[i]").replace(
        "i < n; ++i) { const", "i <= last; ++i) { const").replace("i < n; ++i) { b", "i <= last; ++i) { b").replace(
        "    for (int64_t i = 0; i < n; ++i) b[i] /= s;",
        "    for (int64_t i = 0; i <= last; ++i) b[i] /= s;\n    for (int64_t i = last + 1; i < n; ++i) b[i] = s == s ? 0 : s;")),
    _norm("layer norm, two passes", LAYER_NORM),
    _norm("layer norm by Welford", _WELFORD),
    _norm("layer norm in one pass, in double, shifted", _SHIFTED),
    _norm("layer norm, rows in parallel", _PARALLEL + LAYER_NORM),
    _norm("layer norm in bf16", LAYER_NORM, op.LAYER_NORM_BF16),
    Honest("group norm", op.GROUP_NORM, cpu.group_norm(GROUP_NORM)),
    Honest("group norm, groups in parallel", op.GROUP_NORM, cpu.group_norm(
        GROUP_NORM.replace("  for (int64_t q", "  #pragma omp parallel for\n  for (int64_t q"))),
    Honest("group norm in double", op.GROUP_NORM, cpu.group_norm(GROUP_NORM.replace("float s = 0, v", "double s = 0, v"))),
    _each("relu", op.RELU, "    o[i] = x[i] < 0 ? 0 : x[i];"),
    _each("relu of what is positive", op.RELU_POSITIVE, "    o[i] = x[i] < 0 ? 0 : x[i];"),
    _each("relu of an offset tensor", op.RELU_OFFSET, "    o[i] = x[i] < 0 ? 0 : x[i];"),
    Honest("relu by vectors that need no alignment", op.RELU_OFFSET, cpu.whole(
        "  int64_t i = 0;\n  for (; i + 8 <= n; i += 8) { V v; std::memcpy(&v, x + i, 32); const V zero = {};\n"
        "    v = v < zero ? zero : v; std::memcpy(o + i, &v, 32); }\n  for (; i < n; ++i) o[i] = x[i] < 0 ? 0 : x[i];", _VECTOR)),
    Honest("relu by strides, transposed", op.RELU_TRANSPOSED, _RELU_BY_STRIDES),
    Honest("relu by strides, columns", op.RELU_COLUMNS, _RELU_BY_STRIDES),
    _each("gelu by tanh", op.GELU_TANH,
          "    const float v = x[i]; o[i] = 0.5f * v * (1 + std::tanh(0.7978845608f * (v + 0.044715f * v * v * v)));"),
    _each("sigmoid", op.SIGMOID, "    o[i] = 1 / (1 + std::exp(-x[i]));"),
    _each("sigmoid in double", op.SIGMOID, "    o[i] = 1 / (1 + std::exp(-double(x[i])));"),
    _each("tanh", op.TANH, "    o[i] = std::tanh(x[i]);"),
    _each("tanh by expm1", op.TANH,
          "    const float v = std::fabs(x[i]), t = std::expm1(-2 * v); o[i] = std::copysign(-t / (2 + t), x[i]);"),
    _each("gate and product", op.SILU_MUL, "    o[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];", ("gate", "up")),
    _each("gate and product in bf16, rounded once", op.SILU_MUL_BF16,
          "    const float g = gate_load(gate[i]); o[i] = out_store(g / (1 + std::exp(-g)) * up_load(up[i]));", ("gate", "up")),
    _each("gate and product in fp16, rounded where eager does", op.SILU_MUL_FP16,
          "    const float g = gate_load(gate[i]);\n"
          "    o[i] = out_store(out_load(out_store(g / (1 + std::exp(-g)))) * up_load(up[i]));", ("gate", "up")),
    _each("addition", op.ADD, "    o[i] = x[i] + y[i];", ("x", "y")),
    _each("addition of integers", op.ADD_INT64, "    o[i] = x[i] + y[i];", ("x", "y")),
    _each("addition of integers, without a carry", op.ADD_INT64,
          "    o[i] = int64_t((uint64_t(x[i]) ^ uint64_t(y[i])) + 2 * (uint64_t(x[i]) & uint64_t(y[i])));", ("x", "y")),
    Honest("addition in place", op.ADD_IN_PLACE, _IN_PLACE),
    _each("addition where eager adds in place", op.ADD_IN_PLACE, "    o[i] = x[i] + y[i];", ("x", "y")),
    _row("sum, plain", op.ROW_SUM, _SUM.format("float")),
    _row("sum, pairwise", op.ROW_SUM, "    out[r] = pairwise(a, n);", before=_PAIRWISE.replace(" * TERM", "")),
    _row("sum, Kahan and Neumaier", op.ROW_SUM, "    float s = 0;\n" + _NEUMAIER + "    out[r] = s;"),
    _row("sum in four parts", op.ROW_SUM, _FOUR_SUMS),
    _row("sum in double", op.ROW_SUM, _SUM.format("double")),
    _row("sum in fp64", op.ROW_SUM_FP64, _SUM.format("double")),
    _row("sum in long double", op.ROW_SUM_FP64, _SUM.format("long double")),
    _row("sum in bf16", op.ROW_SUM_BF16, _SUM.format("float")),
    _row("sum in fp16", op.ROW_SUM_FP16, _SUM.format("float")),
    _row("sum in bf16, of two halves each rounded", op.ROW_SUM_BF16,
         "    float s[2] = {}; for (int64_t i = 0; i < n; ++i) s[2 * i >= n] += x_load(a[i]);\n"
         "    out[r] = out_store(out_load(out_store(s[0])) + out_load(out_store(s[1])));"),
    _row("sum of integers", op.ROW_SUM_INT, "    int64_t s = 0; for (int64_t i = 0; i < n; ++i) s += a[i]; out[r] = s;"),
    _row("the variance beside another result", op.RELU_VARIANCE,
         "    for (int64_t i = 0; i < n; ++i) out0[r * n + i] = a[i] > 0 || a[i] != a[i] ? a[i] : 0;\n"
         "    double s = 0, q = 0; for (int64_t i = 0; i < n; ++i) s += a[i];\n"
         "    s /= n; for (int64_t i = 0; i < n; ++i) q += (a[i] - s) * (a[i] - s);\n"
         "    out1[r] = q / (n - 1);", ("out0", "out1")),
    _row("the largest and where it is", op.ROW_MAX, ARGMAX + "    out0[r] = a[best]; out1[r] = best;", ("out0", "out1")),
    _row("arg max", op.ARGMAX, ARGMAX + "    out[r] = best;"),
    _row("how many are positive", op.COUNT_POSITIVE, "    int64_t s = 0; for (int64_t i = 0; i < n; ++i) s += a[i] > 0; out[r] = s;"),
    _each("comparison", op.LESS, "    o[i] = x[i] < y[i];", ("x", "y")),
    _each("quantised", op.QUANTIZE,
          "    const float v = std::nearbyint(x[i] * 20.f); o[i] = v != v ? 0 : v < -128 ? -128 : v > 127 ? 127 : int(v);"),
    _row("running sum", op.SCAN, "    float s = 0; for (int64_t i = 0; i < n; ++i) { s += a[i]; out[r * n + i] = s; }"),
    _row("running sum in double", op.SCAN, "    double s = 0; for (int64_t i = 0; i < n; ++i) { s += a[i]; out[r * n + i] = s; }"),
    Honest("linear", op.LINEAR, cpu.linear(_PLAIN)),
    Honest("linear in double", op.LINEAR, cpu.linear(_PLAIN.replace("float s", "double s"))),
    Honest("linear in fp64", op.LINEAR_FP64, cpu.linear(_PLAIN.replace("float s", "double s"))),
    Honest("linear in bf16 with sums in fp32", op.LINEAR_BF16, cpu.linear(_PLAIN)),
    Honest("linear of inner parts", op.LINEAR, cpu.linear(
        "    float s = 0; for (int64_t j = 0; j < n; j += 24) { float t = 0;\n"
        "      for (int64_t i = j; i < j + 24; ++i) t += a[i] * b[i]; s += t; }")),
    Honest("gather", op.GATHER, kernels.file('["table", "index", "table.shape[1]", "index.numel", "out"]', _GATHER)),
]  # fmt: skip
