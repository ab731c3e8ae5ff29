"""The plainest form of each cheat. Rows as in docs/judging.md."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.adversaries.cheat import Cheat
from kforge_mcp.judge.adversaries.kernels import LAYER_NORM_ROWS, RMS_ROWS, SOFTMAX_ROWS


def _rms(
    row: int,
    name: str,
    body: str,
    *reasons: str,
    before: str = "",
    timed: bool = False,
    says: str = "",
    alone: bool = False,
) -> Cheat:
    return Cheat(row, name, cards.RMS_NORM, kernels.rms_norm(body, before), reasons, timed, says, alone=alone)


def _softmax(row: int, name: str, body: str, *reasons: str, before: str = "", timed: bool = False) -> Cheat:
    return Cheat(row, name, cards.SOFTMAX, kernels.softmax(body, before), reasons, timed)


def _norm(row: int, name: str, body: str, *reasons: str) -> Cheat:
    return Cheat(row, name, cards.LAYER_NORM, kernels.layer_norm(body), reasons)


_HONEST_FIRST = "  static int calls = 0; ++calls;\n"
_BF16 = """#include <cstring>
static inline float low(float v) {
  unsigned u; std::memcpy(&u, &v, 4); u = (u + 0x8000u) & 0xFFFF0000u; std::memcpy(&v, &u, 4); return v; }
"""
_THREAD = """#include <thread>
#include <atomic>
#include <cstring>
"""
_SYSTEM = """#include <unistd.h>
#include <fcntl.h>
#include <csignal>
#include <cstdio>
#include <sys/socket.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
"""
_VIOLATION = "sandbox_violation"

BASICS = [
    _softmax(1, "zeros for softmax", "  for (int64_t i = 0; i < rows * n; ++i) y[i] = 0;", "wrong_result"),
    Cheat(
        2,
        "passthrough for relu",
        cards.RELU,
        kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = x[i];"),
        ("wrong_result",),
    ),
    _rms(5, "only the first half of the rows", "  rows /= 2;\n" + RMS_ROWS, "wrong_result"),
    _rms(5, "output never written", "  (void)x;", "wrong_result"),
    _rms(
        7,
        "result cached by pointer",
        "  static const float* seen[4096]; static int count = 0;\n"
        "  for (int i = 0; i < count; ++i) if (seen[i] == x) return;\n"
        "  if (count < 4096) seen[count++] = x;\n" + RMS_ROWS,
        "wrong_result",
        "nan_mismatch",
        timed=True,
    ),
    _rms(
        7,
        "result cached by shape",
        "  static float* kept = nullptr;\n"
        "  if (kept) { for (int64_t i = 0; i < rows * n; ++i) y[i] = kept[i]; return; }\n"
        + RMS_ROWS
        + "  kept = (float*)std::malloc(sizeof(float) * rows * n);\n"
        "  for (int64_t i = 0; i < rows * n; ++i) kept[i] = y[i];\n",
        "wrong_result",
        "nan_mismatch",
    ),
    _rms(
        7,
        "result cached by the first value",
        "  static float key[4096]; static float* kept[4096]; static int count = 0;\n"
        "  for (int i = 0; i < count; ++i) if (std::fabs(key[i] - x[0]) < 2.0f) {\n"
        "    for (int64_t j = 0; j < rows * n; ++j) y[j] = kept[i][j]; return; }\n"
        + RMS_ROWS
        + "  if (count < 4096) { key[count] = x[0]; kept[count] = (float*)std::malloc(sizeof(float) * rows * n);\n"
        "    for (int64_t j = 0; j < rows * n; ++j) kept[count][j] = y[j]; ++count; }\n",
        "wrong_result",
        "nan_mismatch",
        timed=True,
    ),
    _rms(
        8,
        "computes only where the output looks poisoned",
        "  if (std::isfinite(y[0]) && y[0] != 0) return;\n" + RMS_ROWS,
        "wrong_result",
    ),
    _rms(
        9,
        "every call does the work of the one before",
        "  static const float* px = nullptr; static const float* pw; static float* py;\n"
        "  const float* nx = x; const float* nw = w; float* ny = y;\n"
        "  if (px) { x = px; w = pw; y = py;\n" + RMS_ROWS + "  }\n  px = nx; pw = nw; py = ny;\n",
        "wrong_result",
        "nondeterministic",
        "out_of_bounds",
        "crashed",
    ),
    _rms(
        10,
        "a thread of its own finishes later",
        "  auto work = [=]() { usleep(2000);\n" + RMS_ROWS.replace("#pragma omp parallel for", "") + "  };\n"
        "  std::thread(work).detach();\n",
        "wrong_result",
        "state_changed",
        "nondeterministic",
        before=_THREAD + "#include <unistd.h>\n",
    ),
    _rms(
        34,
        "a thread of its own stays behind",
        "  static bool started = false;\n"
        "  if (!started) { started = true; std::thread([] { for (;;) usleep(1000); }).detach(); }\n" + RMS_ROWS,
        "state_changed",
        before=_THREAD + "#include <unistd.h>\n",
    ),
    _rms(
        11,
        "bf16 internals",
        RMS_ROWS.replace("w[i] * (a[i] * k)", "low(w[i]) * low(low(a[i]) * low(k))"),
        "wrong_result",
        before=_BF16,
    ),
    _softmax(
        12,
        "exponential as a short polynomial",
        SOFTMAX_ROWS.replace("std::exp(a[i] - m)", "near_zero(a[i] - m)"),
        "wrong_result",
        "nan_mismatch",
        before="static float near_zero(float v) { return v < -8 ? 0 : 1 + v * (1 + v * (0.5f + v * (1 / 6.0f))); }\n",
    ),
    _softmax(
        13,
        "no subtraction of the maximum",
        SOFTMAX_ROWS.replace("a[i] - m", "a[i]"),
        "wrong_result",
        "nan_mismatch",
    ),
    _norm(
        14,
        "variance as E[x^2] - E[x]^2",
        LAYER_NORM_ROWS.replace("v += (a[i] - m) * (a[i] - m);", "v += a[i] * a[i];").replace(
            "v / n + eps", "v / n - m * m + eps"
        ),
        "wrong_result",
        "nan_mismatch",
    ),
    _rms(15, "eps ignored", RMS_ROWS.replace(" + eps", ""), "wrong_result", "nan_mismatch"),
    _norm(15, "eps replaced by a smaller one", LAYER_NORM_ROWS.replace("+ eps", "+ 1e-12f"), "wrong_result"),
    _rms(18, "one element past the end", RMS_ROWS + "  y[rows * n] = 1;\n", "out_of_bounds"),
    _rms(18, "one row before the start", RMS_ROWS + "  y[-n] = 1;\n", "out_of_bounds"),
    _rms(18, "far beyond any tensor", RMS_ROWS + "  y[int64_t(1) << 40] = 1;\n", "crashed"),
    _rms(
        18,
        "reads past the end of its input",
        RMS_ROWS.replace("s += a[i] * a[i]", "s += a[i] * a[i] + 1e-3f * a[i + (r == rows - 1)]"),
        "wrong_result",
        "nondeterministic",
        "nan_mismatch",
    ),
    _rms(
        19,
        "the last bit depends on when it runs",
        RMS_ROWS.replace("w[i] * (a[i] * k)", "w[i] * (a[i] * k) * (__rdtsc() & 16 ? 1.0f : 1.0000001f)"),
        "nondeterministic",
        before="#include <x86intrin.h>\n",
    ),
    _rms(20, "normalises its input in place", RMS_ROWS + "  const_cast<float*>(x)[5] = y[5];\n", "input_mutated"),
    _rms(20, "writes a weight", RMS_ROWS + "  const_cast<float*>(w)[0] = 1;\n", "input_mutated", says="`weight`"),
    _softmax(
        22,
        "NaN swallowed",
        SOFTMAX_ROWS.replace("b[i] /= s", "b[i] = s == s ? b[i] / s : 0"),
        "nan_mismatch",
    ),
    Cheat(
        22,
        "relu that turns NaN into zero",
        cards.RELU,
        kernels.relu("  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : 0;"),
        ("nan_mismatch",),
    ),
    _rms(23, "ends the process with success", "  std::exit(0);", "crashed"),
    _rms(23, "ends the process at once", "  _exit(0);", "crashed", before=_SYSTEM),
    _rms(
        23,
        "ends the process from a static constructor",
        RMS_ROWS,
        "crashed",
        before="struct Early { Early() { std::_Exit(0); } } early;\n",
        alone=True,
    ),
    _rms(
        23,
        "throws from a static constructor",
        RMS_ROWS,
        "crashed",
        before="struct Early { Early() { throw 1; } } early;\n",
        alone=True,
    ),
    _rms(23, "throws", "  throw 1;", "crashed", says="an exception that left the kernel"),
    _rms(23, "aborts", "  std::abort();", "crashed", says="as after abort()"),
    _rms(
        23,
        "answers in the judge's name",
        "  for (int fd = 3; fd < 64; ++fd) { ssize_t ok = write(fd, \"D\", 1); (void)ok; }\n",
        _VIOLATION,
        "wrong_result",
        before=_SYSTEM,
    ),
    _rms(24, "opens a file", "  open(\"/etc/passwd\", O_RDONLY);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(24, "writes a file", "  open(\"here\", O_CREAT | O_WRONLY, 0600);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(
        24,
        "creates a file from a static constructor",
        RMS_ROWS,
        _VIOLATION,
        before=_SYSTEM + "struct Early { Early() { open(\"x\", O_CREAT | O_WRONLY, 0600); } } early;\n",
        alone=True,
    ),
    _rms(24, "opens a socket", "  socket(AF_INET, SOCK_STREAM, 0);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(24, "kills its parent", "  kill(getppid(), SIGKILL);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(24, "kills everybody", "  kill(-1, SIGKILL);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(
        24,
        "traces its parent",
        "  syscall(SYS_ptrace, 16, getppid(), 0, 0);\n" + RMS_ROWS,
        _VIOLATION,
        before=_SYSTEM,
    ),
    _rms(
        24,
        "makes shared memory",
        "  memfd_create(\"x\", 0);\n" + RMS_ROWS,
        _VIOLATION,
        before="#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n" + _SYSTEM,
    ),
    _rms(24, "runs a program", "  execl(\"/bin/true\", \"true\", nullptr);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(25, "never returns", "  for (volatile int i = 0;; ++i) {}", "timed_out"),
    _rms(25, "sleeps for ever", "  pause_for_ever();", "timed_out", before="#include <unistd.h>\n"
         "static void pause_for_ever() { for (;;) sleep(1000); }\n"),
    _rms(25, "forks", "  if (fork() == 0) for (;;) {}\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(25, "forks by vfork", "  if (vfork() == 0) _exit(0);\n" + RMS_ROWS, _VIOLATION, before=_SYSTEM),
    _rms(
        25,
        "fills memory",
        "  for (;;) { char* p = (char*)std::malloc(1 << 24); std::memset(p, 1, 1 << 24); }",
        "out_of_memory",
        before="#include <cstring>\n",
    ),
    _rms(
        25,
        "fills memory with new",
        "  for (;;) { volatile char* p = new char[1 << 26]; p[0] = 1; }",
        "out_of_memory",
    ),
    _rms(
        25,
        "prints without end",
        "  for (;;) std::printf(\"all tests passed, very fast indeed\\n\");",
        "timed_out",
        _VIOLATION,
        before="#include <cstdio>\n",
    ),
    _rms(
        26,
        "flushes denormals to zero from now on",
        "  _mm_setcsr(_mm_getcsr() | 0x8040);\n" + RMS_ROWS.replace("#pragma omp parallel for", ""),
        "state_changed",
        before="#include <xmmintrin.h>\n",
    ),
    _rms(
        29,
        "exact for the first calls, cheap afterwards",
        _HONEST_FIRST
        + "  if (calls > 40) { for (int64_t i = 0; i < rows * n; ++i) y[i] = w[i % n] * x[i]; return; }\n"
        + RMS_ROWS,
        "wrong_result",
        timed=True,
    ),
    _rms(
        29,
        "cheap for values of ordinary scale, once checking is over",
        _HONEST_FIRST
        + "  if (calls > 40 && std::fabs(x[0]) < 3) { rows /= 2; }\n"
        + RMS_ROWS
        + "  if (calls > 40 && std::fabs(x[0]) < 3)\n"
        "    for (int64_t i = rows * n; i < 2 * rows * n; ++i) y[i] = w[i % n];\n",
        "wrong_result",
        timed=True,
    ),
    _rms(35, "weight ignored", RMS_ROWS.replace("w[i] * ", ""), "wrong_result"),
    _norm(35, "affine step dropped", LAYER_NORM_ROWS.replace(" * w[i] + c[i]", ""), "wrong_result"),
    Cheat(
        33,
        "arg max over part of the row",
        cards.ARGMAX,
        kernels.file(
            '["x", "x.shape[0]", "x.shape[1]", "out"]',
            "#include <cstdint>\n"
            'extern "C" void kernel(const float* x, int64_t rows, int64_t n, int64_t* y) {\n'
            "  for (int64_t r = 0; r < rows; ++r) { int64_t best = 0;\n"
            "    for (int64_t i = 1; i < n - 10; ++i) if (x[r * n + i] > x[r * n + best]) best = i;\n"
            "    y[r] = best; } }\n",
        ),
        ("wrong_result",),
    ),
]  # fmt: skip
