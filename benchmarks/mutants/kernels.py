"""Honest kernels to be mutated, each with the operator that it computes.

They are written for the mutation: spaces around binary operators, conditional values in parentheses, one statement a
line or a line of several, no OpenMP (mutants are judged with one thread).
"""

from __future__ import annotations

from dataclasses import dataclass

from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.adversaries.cards import Make, Tensor
from kforge_mcp.records.tensor import InputRecipe

cards.SOURCES |= {
    "m_softmax": "\ndef m_softmax(x):\n    return torch.softmax(x, -1)\n",
    "m_log_softmax": "\ndef m_log_softmax(x):\n    return torch.log_softmax(x, -1)\n",
    "m_group_norm": "\ndef m_group_norm(x, weight, bias):\n"
    "    return torch.nn.functional.group_norm(x, 4, weight, bias)\n",
    "m_gelu": "\ndef m_gelu(x):\n    return torch.nn.functional.gelu(x)\n",
    "m_gated": "\ndef m_gated(x, y):\n    return torch.nn.functional.silu(x) * y\n",
    "m_greater": "\ndef m_greater(x, y):\n    return x > y\n",
    "m_matmul": "\ndef m_matmul(x, y):\n    return x @ y\n",
    "m_rotary": "\ndef m_rotary(x, cos, sin):\n    a, b = x.chunk(2, -1)\n"
    "    return x * cos + torch.cat((-b, a), -1) * sin\n",
    "m_max_pool": "\ndef m_max_pool(x):\n    return torch.nn.functional.max_pool2d(x, 3, 2, 1)\n",
    "m_embedding": "\ndef m_embedding(index, weight):\n    return torch.nn.functional.embedding(index, weight)\n",
    "m_cumsum": "\ndef m_cumsum(x):\n    return x.cumsum(-1)\n",
    "m_std": "\ndef m_std(x):\n    return x.std(0)\n",
    "m_where": "\ndef m_where(x, mask):\n    return torch.where(mask, x, -1.0).clamp(-2.0, 2.0)\n",
    "m_attention": "\ndef m_attention(q, k, v):\n"
    "    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)\n",
}


@dataclass(frozen=True)
class Honest:
    """A kernel: `code` defines `void kernel(...)` with the parameters that `args` bind."""

    name: str
    make: Make
    args: str
    code: str


def _recipe(low: int, high: int) -> InputRecipe:
    return InputRecipe(kind="integers", low=low, high=high)


_ROWS = (13, 37)
_ROW_ARGS = '["x", "x.shape[0]", "x.shape[1]", "out"]'

KERNELS = [
    Honest(
        "RMS norm, fp32",
        Make("rms_norm", (Tensor("x", _ROWS), Tensor("weight", (37,), "parameter")), (_ROWS,), {"eps": 1e-5}),
        '["x", "weight", "eps", "x.shape[0]", "x.shape[1]", "out"]',
        """void kernel(const float* x, const float* w, float eps, int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    float s = 0.0f;
    for (int64_t i = 0; i < n; ++i) s += x[r * n + i] * x[r * n + i];
    const float k = 1.0f / std::sqrt(s / n + eps);
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = w[i] * (x[r * n + i] * k);
  }
}
""",
    ),
    Honest(
        "RMS norm, bf16, four sums",
        Make(
            "rms_norm",
            (Tensor("x", _ROWS, dtype="bf16"), Tensor("weight", (37,), "parameter", "bf16")),
            (_ROWS,),
            {"eps": 1e-6},
            "bf16",
        ),
        '["x", "weight", "eps", "x.shape[0]", "x.shape[1]", "out"]',
        """void kernel(const uint16_t* x, const uint16_t* w, float eps, int64_t rows, int64_t n, uint16_t* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* a = x + r * n;
    uint16_t* b = y + r * n;
    float s0 = 0.0f; float s1 = 0.0f; float s2 = 0.0f; float s3 = 0.0f;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const float v0 = bf16_to_float(a[i]); const float v1 = bf16_to_float(a[i + 1]);
      const float v2 = bf16_to_float(a[i + 2]); const float v3 = bf16_to_float(a[i + 3]);
      s0 += v0 * v0; s1 += v1 * v1; s2 += v2 * v2; s3 += v3 * v3;
    }
    for (; i < n; ++i) { const float v = bf16_to_float(a[i]); s0 += v * v; }
    const float k = 1.0f / std::sqrt((s0 + s1 + s2 + s3) / n + eps);
    for (i = 0; i < n; ++i) {
      const float v = bf16_to_float(float_to_bf16(bf16_to_float(a[i]) * k));
      b[i] = float_to_bf16(bf16_to_float(w[i]) * v);
    }
  }
}
""",
    ),
    Honest(
        "softmax, fp32",
        Make("m_softmax", (Tensor("x", _ROWS),), (_ROWS,)),
        _ROW_ARGS,
        """void kernel(const float* x, int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n;
    float* b = y + r * n;
    float m = a[0];
    for (int64_t i = 1; i < n; ++i) m = (a[i] > m ? a[i] : m);
    float s = 0.0f;
    for (int64_t i = 0; i < n; ++i) { b[i] = std::exp(a[i] - m); s += b[i]; }
    for (int64_t i = 0; i < n; ++i) b[i] = b[i] / s;
  }
}
""",
    ),
    Honest(
        "online softmax, fp16",
        Make("m_softmax", (Tensor("x", _ROWS, dtype="fp16"),), (_ROWS,), out_dtype="fp16"),
        _ROW_ARGS,
        """void kernel(const uint16_t* x, int64_t rows, int64_t n, uint16_t* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* a = x + r * n;
    float m = -65504.0f;
    float s = 0.0f;
    for (int64_t i = 0; i < n; ++i) {
      const float v = fp16_to_float(a[i]);
      if (v > m) { s = s * std::exp(m - v); m = v; }
      s += std::exp(v - m);
    }
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = float_to_fp16(std::exp(fp16_to_float(a[i]) - m) / s);
  }
}
""",
    ),
    Honest(
        "log softmax, fp64",
        Make("m_log_softmax", (Tensor("x", _ROWS, dtype="fp64"),), (_ROWS,), out_dtype="fp64"),
        _ROW_ARGS,
        """void kernel(const double* x, int64_t rows, int64_t n, double* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const double* a = x + r * n;
    double m = a[0];
    for (int64_t i = 1; i < n; ++i) m = (a[i] > m ? a[i] : m);
    double s = 0.0;
    for (int64_t i = 0; i < n; ++i) s += std::exp(a[i] - m);
    const double k = std::log(s);
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = (a[i] - m) - k;
  }
}
""",
    ),
    Honest(
        "layer norm, fp32, two passes",
        Make(
            "layer_norm",
            (Tensor("x", _ROWS), Tensor("weight", (37,), "parameter"), Tensor("bias", (37,), "parameter")),
            (_ROWS,),
            {"eps": 1e-5},
        ),
        '["x", "weight", "bias", "eps", "x.shape[0]", "x.shape[1]", "out"]',
        """void kernel(const float* x, const float* w, const float* c, float eps, int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n;
    float s = 0.0f;
    for (int64_t i = 0; i < n; ++i) s += a[i];
    const float m = s / n;
    float v = 0.0f;
    for (int64_t i = 0; i < n; ++i) { const float d = a[i] - m; v += d * d; }
    const float k = 1.0f / std::sqrt(v / n + eps);
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = (a[i] - m) * k * w[i] + c[i];
  }
}
""",
    ),
    Honest(
        "layer norm, fp64, Welford",
        Make(
            "layer_norm",
            (
                Tensor("x", _ROWS, dtype="fp64"),
                Tensor("weight", (37,), "parameter", "fp64"),
                Tensor("bias", (37,), "parameter", "fp64"),
            ),
            (_ROWS,),
            {"eps": 1e-5},
            "fp64",
        ),
        '["x", "weight", "bias", "eps", "x.shape[0]", "x.shape[1]", "out"]',
        """void kernel(const double* x, const double* w, const double* c, double eps, int64_t rows, int64_t n, double* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const double* a = x + r * n;
    double m = 0.0;
    double v = 0.0;
    for (int64_t i = 0; i < n; ++i) {
      const double d = a[i] - m;
      m += d / (i + 1);
      v += d * (a[i] - m);
    }
    const double k = 1.0 / std::sqrt(v / n + eps);
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = (a[i] - m) * k * w[i] + c[i];
  }
}
""",
    ),
    Honest(
        "group norm, fp32",
        Make(
            "m_group_norm",
            (Tensor("x", (6, 12, 5, 3)), Tensor("weight", (12,), "parameter"), Tensor("bias", (12,), "parameter")),
            ((6, 12, 5, 3),),
        ),
        '["x", "weight", "bias", "x.shape[0]", "x.shape[1]", "x.shape[2] * x.shape[3]", "out"]',
        """void kernel(const float* x, const float* w, const float* c, int64_t batch, int64_t channels, int64_t area, float* y) {
  const int64_t per = channels / 4;
  const int64_t n = per * area;
  for (int64_t g = 0; g < batch * 4; ++g) {
    const float* a = x + g * n;
    double s = 0.0;
    for (int64_t i = 0; i < n; ++i) s += a[i];
    const double m = s / n;
    double v = 0.0;
    for (int64_t i = 0; i < n; ++i) { const double d = a[i] - m; v += d * d; }
    const double k = 1.0 / std::sqrt(v / n + 1e-5);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t h = (g % 4) * per + i / area;
      y[g * n + i] = (a[i] - m) * k * w[h] + c[h];
    }
  }
}
""",
    ),
    Honest(
        "gelu, fp32",
        Make("m_gelu", (Tensor("x", _ROWS),), (_ROWS,)),
        '["x", "x.numel", "out"]',
        """void kernel(const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = x[i];
    y[i] = 0.5f * v * (1.0f + std::erf(v * 0.70710678f));
  }
}
""",
    ),
    Honest(
        "gated silu, bf16",
        Make("m_gated", (Tensor("x", _ROWS, dtype="bf16"), Tensor("y", _ROWS, dtype="bf16")), (_ROWS,), out_dtype="bf16"),
        '["x", "y", "x.numel", "out"]',
        """void kernel(const uint16_t* x, const uint16_t* y, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) {
    const float v = bf16_to_float(x[i]);
    const float g = bf16_to_float(float_to_bf16(v / (1.0f + std::exp(0.0f - v))));
    out[i] = float_to_bf16(g * bf16_to_float(y[i]));
  }
}
""",
    ),
    Honest(
        "arg max, int64",
        Make("argmax", (Tensor("x", _ROWS),), ((13,),), out_dtype="int64"),
        _ROW_ARGS,
        """void kernel(const float* x, int64_t rows, int64_t n, int64_t* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = x + r * n;
    int64_t best = 0;
    for (int64_t i = 1; i < n; ++i) {
      if (a[best] == a[best] && (a[i] > a[best] || a[i] != a[i])) best = i;
    }
    y[r] = best;
  }
}
""",
    ),
    Honest(
        "greater, bool",
        Make("m_greater", (Tensor("x", _ROWS), Tensor("y", _ROWS)), (_ROWS,), out_dtype="bool"),
        '["x", "y", "x.numel", "out"]',
        """void kernel(const float* x, const float* y, int64_t n, bool* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] > y[i];
}
""",
    ),
    Honest(
        "matrix product, fp32",
        Make("m_matmul", (Tensor("x", (11, 19)), Tensor("y", (19, 7))), ((11, 7),)),
        '["x", "y", "x.shape[0]", "x.shape[1]", "y.shape[1]", "out"]',
        """void kernel(const float* x, const float* y, int64_t rows, int64_t depth, int64_t columns, float* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = 0.0f;
    for (int64_t k = 0; k < depth; ++k) {
      const float v = x[r * depth + k];
      for (int64_t c = 0; c < columns; ++c) out[r * columns + c] += v * y[k * columns + c];
    }
  }
}
""",
    ),
    Honest(
        "rotary embedding, fp32",
        Make("m_rotary", (Tensor("x", (3, 7, 10)), Tensor("cos", (7, 10)), Tensor("sin", (7, 10))), ((3, 7, 10),)),
        '["x", "cos", "sin", "x.shape[0]", "x.shape[1]", "x.shape[2]", "out"]',
        """void kernel(const float* x, const float* cos, const float* sin, int64_t heads, int64_t n, int64_t d, float* y) {
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < n; ++t) {
      const float* a = x + (h * n + t) * d;
      for (int64_t i = 0; i < d; ++i) {
        const float other = (i < d / 2 ? 0.0f - a[i + d / 2] : a[i - d / 2]);
        y[(h * n + t) * d + i] = a[i] * cos[t * d + i] + other * sin[t * d + i];
      }
    }
  }
}
""",
    ),
    Honest(
        "max pooling with padding, fp32",
        Make("m_max_pool", (Tensor("x", (6, 9, 7)),), ((6, 5, 4),)),
        '["x", "x.shape[0]", "x.shape[1]", "x.shape[2]", "out.shape[1]", "out.shape[2]", "out"]',
        """void kernel(const float* x, int64_t planes, int64_t h, int64_t w, int64_t oh, int64_t ow, float* y) {
  for (int64_t p = 0; p < planes; ++p) {
    for (int64_t i = 0; i < oh; ++i) {
      for (int64_t j = 0; j < ow; ++j) {
        float m = -INFINITY;
        for (int64_t a = 2 * i - 1; a < 2 * i + 2; ++a) {
          for (int64_t b = 2 * j - 1; b < 2 * j + 2; ++b) {
            if (a < 0 || a >= h || b < 0 || b >= w) continue;
            const float v = x[(p * h + a) * w + b];
            if (v > m || v != v) m = v;
          }
        }
        y[(p * oh + i) * ow + j] = m;
      }
    }
  }
}
""",
    ),
    Honest(
        "embedding, fp16",
        Make(
            "m_embedding",
            (Tensor("index", (5, 9), dtype="int64", recipe=_recipe(0, 20)), Tensor("weight", (21, 8), "parameter", "fp16")),
            ((5, 9, 8),),
            out_dtype="fp16",
        ),
        '["index", "weight", "index.numel", "weight.shape[1]", "out"]',
        """void kernel(const int64_t* index, const uint16_t* w, int64_t n, int64_t d, uint16_t* y) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < d; ++j) y[i * d + j] = w[index[i] * d + j];
  }
}
""",
    ),
    Honest(
        "running sum, int64",
        Make("m_cumsum", (Tensor("x", _ROWS, dtype="int64", recipe=_recipe(-50, 90)),), (_ROWS,), out_dtype="int64"),
        _ROW_ARGS,
        """void kernel(const int64_t* x, int64_t rows, int64_t n, int64_t* y) {
  for (int64_t r = 0; r < rows; ++r) {
    int64_t s = 0;
    for (int64_t i = 0; i < n; ++i) { s += x[r * n + i]; y[r * n + i] = s; }
  }
}
""",
    ),
    Honest(
        "standard deviation of columns, fp64",
        Make("m_std", (Tensor("x", _ROWS, dtype="fp64"),), ((37,),), out_dtype="fp64"),
        _ROW_ARGS,
        """void kernel(const double* x, int64_t rows, int64_t n, double* y) {
  for (int64_t i = 0; i < n; ++i) {
    double s = 0.0;
    for (int64_t r = 0; r < rows; ++r) s += x[r * n + i];
    const double m = s / rows;
    double v = 0.0;
    for (int64_t r = 0; r < rows; ++r) { const double d = x[r * n + i] - m; v += d * d; }
    y[i] = std::sqrt(v / (rows - 1));
  }
}
""",
    ),
    Honest(
        "masked clamp, fp32",
        Make(
            "m_where",
            (Tensor("x", _ROWS), Tensor("mask", _ROWS, dtype="bool", recipe=InputRecipe(kind="bool", true_share=0.6))),
            (_ROWS,),
        ),
        '["x", "mask", "x.numel", "out"]',
        """void kernel(const float* x, const bool* mask, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    float v = (mask[i] ? x[i] : -1.0f);
    if (v < -2.0f) v = -2.0f;
    if (v > 2.0f) v = 2.0f;
    y[i] = v;
  }
}
""",
    ),
    Honest(
        "causal attention, fp32",
        Make("m_attention", (Tensor("q", (6, 9, 8)), Tensor("k", (6, 9, 8)), Tensor("v", (6, 9, 8))), ((6, 9, 8),)),
        '["q", "k", "v", "q.shape[0]", "q.shape[1]", "q.shape[2]", "out"]',
        """void kernel(const float* q, const float* k, const float* v, int64_t heads, int64_t n, int64_t d, float* y) {
  const float scale = 1.0f / std::sqrt((float)d);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t t = 0; t < n; ++t) {
      const float* a = q + (h * n + t) * d;
      float p[64];
      float m = -INFINITY;
      for (int64_t u = 0; u < n; ++u) {
        const float* b = k + (h * n + u) * d;
        float s = 0.0f;
        for (int64_t i = 0; i < d; ++i) s += a[i] * b[i];
        p[u] = s * scale + (u > t ? -INFINITY : 0.0f);
        m = (p[u] > m ? p[u] : m);
      }
      float total = 0.0f;
      for (int64_t u = 0; u < n; ++u) { p[u] = (p[u] == -INFINITY ? 0.0f : std::exp(p[u] - m)); total += p[u]; }
      if (total == 0.0f) total = 1.0f;
      for (int64_t i = 0; i < d; ++i) {
        float s = 0.0f;
        for (int64_t u = 0; u < n; ++u) s += p[u] * v[(h * n + u) * d + i];
        y[(h * n + t) * d + i] = s / total;
      }
    }
  }
}
""",
    ),
]  # fmt: skip
