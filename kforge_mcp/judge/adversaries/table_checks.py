"""Candidates that one check alone catches: what each check of the judge is there for. Rows as in docs/judging.md."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.adversaries import cpu_kernels as cpu
from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.adversaries.cheat import Cheat
from kforge_mcp.judge.adversaries.cpu_kernels import RMS

_COUNT = "  static int calls = 0; ++calls;\n"
_LATE = "calls > 40"
_TWICE = ("wrong_result", "nondeterministic", "nan_mismatch")
_SYSTEM = """#include <cerrno>
#include <unistd.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
"""
_LITTLE = "if (b + i == y + rows * n - 1) b[i] *= 1 + {} * 1.1920929e-7f;"
_ROWS_OF_TWO = """#include <cmath>
extern "C" void kernel(const float* g, const float* u, int64_t rows, int64_t n, float* y) {
  for (int64_t r = 0; r < rows; ++r) {
    const float* a = g + r * n; const float* b = u + r * n; float most = 0;
    for (int64_t i = 0; i < 8; ++i) most = std::fmax(most, std::fabs(a[i]));
    for (int64_t i = 0; i < n; ++i) y[r * n + i] = most < 0.02f && most > 0 ? 0 : a[i] / (1 + std::exp(-a[i])) * b[i];
  }
}
"""


def _rms(row: int, name: str, body: str, *reasons: str, timed: bool = False, before: str = "") -> Cheat:
    return Cheat(row, name, op.RMS_NORM, cpu.rms(body, before), reasons or ("wrong_result",), timed)


def _bf16(row: int, name: str, result: str, before: str = "") -> Cheat:
    body = _COUNT + RMS.replace("out_store(weight_load(w[i]) * (x_load(a[i]) * k))", result)
    return Cheat(row, name, op.RMS_NORM_BF16, cpu.rms(body, before), ("wrong_result",), _LATE in result)


def _unless(row: int, name: str, condition: str, *reasons: str) -> Cheat:
    """Ends its process unless it finds something that the sandbox takes away."""
    return _rms(row, name, f"  if (!({condition})) std::_Exit(7);\n" + RMS, "crashed", *reasons, before=_SYSTEM + _OPEN)


_OPEN = """static int open_descriptors() { int count = 0;
  for (int fd = 3; fd < 256; ++fd) count += lseek(fd, 0, SEEK_CUR) >= 0 || errno != EBADF; return count; }
static bool maps(size_t bytes) {
  return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED; }
"""
_RESULT = "weight_load(w[i]) * (x_load(a[i]) * k)"
_SIGN = "(uint32_t(i * 2654435761u + r * 2246822519u) >> 16) % 2"
"""Changes without order: a pattern that repeats is nearly a product of a row and a column, which a few projections see
at very different sizes."""
_OFF = f"{_RESULT} * (std::fabs({_RESULT}) > 4 ? 1 : {_SIGN} ? 1.0098f : 0.9902f)"
"""Large results are right: a single one would be found by itself."""

CHECKS = [
    _rms(7, "uses the addresses of its first call for ever",
         "  static const float* px = x; static const float* pw = w; static float* py = y;\n  x = px; w = pw; y = py;\n" + RMS,
         *_TWICE, "out_of_bounds", "input_mutated"),
    _bf16(33, "bf16 results off by more than one unit", f"out_store({_OFF})"),
    _rms(11, "one element a little off", RMS.replace("    for (int64_t i = 0; i < n; ++i) b[i]", "    for (int64_t i = 0; i < n; ++i) { b[i]").replace(
        "* k));", f"* k)); {_LITTLE.format(250)} }}")),
    Cheat(12, "zeros for rows of small values", op.SILU_MUL, kernels.file(
        '["gate", "up", "gate.shape[0]", "gate.shape[1]", "out"]', _ROWS_OF_TWO), ("wrong_result",)),
    _rms(29, "one element a little off once checking is over",
         _COUNT + RMS.replace("    for (int64_t i = 0; i < n; ++i) b[i]", "    for (int64_t i = 0; i < n; ++i) { b[i]").replace(
             "* k));", f"* k)); if ({_LATE}) {_LITTLE.format(200)} }}"), timed=True),
    _bf16(29, "off by more than one unit once checking is over", f"out_store({_LATE} ? {_OFF} : {_RESULT})"),
    _bf16(29, "a little noise everywhere once checking is over",
          f"out_store({_RESULT} + ({_LATE} ? ((i * 7 + r) % 3 - 1) * 0.04f : 0))"),
    _rms(9, "leaves its work to a thread that is soon done",
         "  std::thread([=]() mutable { usleep(4000);\n" + RMS + "  }).detach();\n", *_TWICE, "state_changed",
         before="#include <thread>\n#include <unistd.h>\n"),
    Cheat(2, "one, whatever the input", cards.NEARLY_ONE, cpu.each("    o[i] = x[i] == x[i] ? 1.0f : x[i];"), ("weak_oracle",), hard=True),
    _unless(24, "needs a variable of the environment", 'std::getenv("PATH")'),
    _unless(24, "needs a descriptor that it did not open", "open_descriptors() > 1"),
    _unless(24, "needs a file of the machine", 'syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY) >= 0', "sandbox_violation"),
    _unless(24, "needs to be root", "syscall(SYS_setuid, 0) == 0", "sandbox_violation"),
    _unless(24, "needs a parent", "getppid() > 0", "sandbox_violation"),
    _unless(25, "needs more memory than there is", "maps(size_t(6) << 30)", "out_of_memory"),
]  # fmt: skip

FORGETFUL = Cheat(
    29,
    "wrong for what it has been given before",
    op.RMS_NORM,
    cpu.rms(
        "  static uint64_t seen[1 << 14]; static int calls = 0;\n"
        "  uint64_t key; std::memcpy(&key, x, 8); bool known = false;\n"
        "  for (int j = 40; j < calls && j < 1 << 14; ++j) known |= seen[j] == key;\n"
        "  if (calls < 1 << 14) seen[calls] = key;\n  ++calls;\n" + RMS + "  if (known) y[5] = 1e9f;\n",
        "#include <cstring>\n",
    ),
    ("wrong_result",),
    timed=True,
)
"""Passes the judge, since no timed input comes twice."""

SLOW_AT_FIRST = _rms(
    28,
    "slow while it is checked and calibrated",
    _COUNT + "  if (calls < 40) usleep(3000);\n" + RMS,
    timed=True,
    before="#include <unistd.h>\n",
)
"""Right, and timed as often as any other."""
