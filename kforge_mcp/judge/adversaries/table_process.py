"""What a candidate may do to its process, to the machine and to time. Rows as in docs/judging.md."""

from __future__ import annotations

from kforge_mcp.judge.adversaries import cpu_kernels as cpu
from kforge_mcp.judge.adversaries import operators as op
from kforge_mcp.judge.adversaries.cheat import Cheat
from kforge_mcp.judge.adversaries.cpu_kernels import LOW, RMS

_SYSTEM = """#include <unistd.h>
#include <fcntl.h>
#include <csignal>
#include <csetjmp>
#include <cstdio>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
"""
_THREADS = "#include <thread>\n#include <future>\n#include <pthread.h>\n#include <unistd.h>\n"
_VIOLATION = "sandbox_violation"
_WRONG = ("wrong_result",)
_WRONG_OR_NAN = ("wrong_result", "nan_mismatch")
_TWICE = ("wrong_result", "nondeterministic", "nan_mismatch")


def _rms(
    row: int,
    name: str,
    body: str,
    *reasons: str,
    before: str = "",
    timed: bool = False,
    alone: bool = False,
    says: str = "",
) -> Cheat:
    return Cheat(row, name, op.RMS_NORM, cpu.rms(body, before), reasons or _WRONG, timed, says, alone=alone)


def _call(row: int, name: str, body: str) -> Cheat:
    return _rms(row, name, body + "\n" + RMS, _VIOLATION, before=_SYSTEM)


_COUNT = "  static int calls = 0; ++calls;\n"
_CHEAP_AFTER = "calls > 40"

PROCESS = [
    _rms(7, "keeps the statistics of the first call",
         RMS.replace("k = 1.0f", "fresh = 1.0f").replace("    for (int64_t i = 0; i < n; ++i) b[i]",
                     "    static float kept[4096]; if (!kept[r]) kept[r] = fresh; const float k = kept[r];\n"
                     "    for (int64_t i = 0; i < n; ++i) b[i]"), *_TWICE),
    _rms(7, "keeps results for each thread",
         "  static thread_local float kept[1 << 14]; static thread_local bool known = false;\n"
         "  if (known) { for (int64_t i = 0; i < rows * n; ++i) y[i] = kept[i]; return; }\n" + RMS
         + "  for (int64_t i = 0; i < rows * n; ++i) kept[i] = y[i];\n  known = true;\n", *_TWICE),
    _rms(9, "works on every second call, for two",
         "  static const float* px = nullptr; static float* py;\n"
         "  if (!px) { px = x; py = y; return; }\n" + RMS + "  x = px; y = py; px = nullptr;\n" + RMS, *_TWICE, "out_of_bounds"),
    _rms(9, "leaves the last rows to a handler at the end of the process",
         "  static float* late; late = y + (rows - 1) * n; std::atexit([] { late[0] = 0; });\n  --rows;\n" + RMS, *_TWICE),
    _rms(10, "hands rows to a task that nobody waits for",
         "  static std::future<void> kept; kept = std::async(std::launch::async, [=]() mutable { usleep(3000);\n"
         "    const int64_t rows_ = rows; for (int64_t i = 0; i < rows_ * n; ++i) y[i] = x[i]; });\n",
         *_TWICE, "state_changed", before=_THREADS),
    _rms(10, "a larger team of threads than the model has",
         "  #pragma omp parallel num_threads(7)\n  { volatile int own = 0; (void)own; }\n" + RMS, "state_changed"),
    _rms(19, "the last bit alternates from call to call",
         _COUNT + RMS.replace("* k)", "* k) * (calls & 1 ? 1.0f : 1.0000001f)"), "nondeterministic"),
    _rms(19, "the last bit depends on the address",
         RMS.replace("* k)", "* k) * ((uintptr_t(y) >> 6) % 31 ? 1.0f : 1.0000001f) * ((uintptr_t(y) >> 6) & 1 ? 1.0f : 1.0000002f)"),
         "nondeterministic"),
    _rms(19, "all threads add to one sum",
         "  float sums[4096] = {}; for (int64_t r = 0; r < rows; ++r) {\n    #pragma omp parallel for\n"
         "    for (int64_t i = 0; i < n; ++i) { volatile float* s = &sums[r]; *s = *s + x[r * n + i] * x[r * n + i]; } }\n"
         + RMS.replace("    float s = 0;\n", "    float s = sums[r]; (void)0;\n").replace("s += v * v", "(void)v"), *_TWICE),
    _rms(21, "moves its input's memory instead of copying",
         "  mremap((void*)(uintptr_t(x) & ~4095ull), 4096, 4096, MREMAP_MAYMOVE | MREMAP_FIXED, (void*)(uintptr_t(y) & ~4095ull));\n",
         "wrong_result", "crashed", "out_of_bounds", "input_mutated", _VIOLATION, before=_SYSTEM),
    _rms(23, "prints a verdict and ends", '  std::printf("{\\"finding\\": null, \\"valid\\": true}\\n"); std::fflush(stdout); std::quick_exit(0);',
         "crashed", before=_SYSTEM),
    _rms(23, "ends from a constructor function", RMS, "crashed", alone=True,
         before="__attribute__((constructor)) static void early() { std::_Exit(0); }\n"),
    _rms(23, "swallows its own crash",
         "  static sigjmp_buf back; signal(SIGSEGV, [](int) { siglongjmp(back, 1); });\n"
         "  if (sigsetjmp(back, 1) == 0) *(volatile int*)8 = 1;\n", *_TWICE, before=_SYSTEM),
    _rms(23, "ends the thread that was called", "  syscall(SYS_exit, 0);\n", "crashed", "timed_out", before=_SYSTEM),
    _rms(23, "an illegal instruction", "  __builtin_trap();\n", "crashed"),
    _rms(23, "a stack without end",
         "  struct Deep { static int down(int v) { volatile char room[4096]; room[v % 4096] = 1; return down(v + 1) + room[0]; } };\n"
         "  y[0] = Deep::down(int(n));\n", "crashed", "out_of_memory"),
    _rms(23, "divides by zero", "  volatile int64_t none = 0; y[0] = float(n / none);\n", "crashed"),
    _rms(23, "reports the end of a call before it works",
         "  for (int fd = 3; fd < 64; ++fd) { ssize_t ok = write(fd, \"D\", 1); (void)ok; }\n  usleep(2000);\n" + RMS,
         _VIOLATION, *_TWICE, before=_SYSTEM),
    _rms(23, "closes the judge's channel", "  for (int fd = 3; fd < 64; ++fd) close(fd);\n" + RMS, _VIOLATION, "crashed", before=_SYSTEM),
    _call(24, "reads its parent's memory",
          "  char b[8]; iovec a{b, 8}, c{(void*)x, 8}; process_vm_readv(getppid(), &a, 1, &c, 1, 0);"),
    _call(24, "makes a symbolic link", '  int ok = symlink("/etc/passwd", "here"); (void)ok;'),
    _call(24, "removes a file", '  unlink("candidate0.so");'),
    _call(24, "reads its own descriptors", '  open("/proc/self/fd", O_RDONLY | O_DIRECTORY);'),
    _call(24, "asks for a ring of system calls", "  char p[120] = {}; syscall(425, 8, p);"),
    _call(24, "asks for performance counters", "  char p[120] = {}; syscall(SYS_perf_event_open, p, 0, -1, -1, 0);"),
    _call(24, "leaves its root", '  int ok = chroot(".."); (void)ok;'),
    _call(24, "mounts", '  syscall(SYS_mount, "none", "/", "tmpfs", 0, 0);'),
    _call(24, "sends a signal to a process group", "  kill(0, SIGTERM);"),
    _call(24, "duplicates descriptors without end", "  for (;;) dup(1);"),
    _call(25, "makes processes by clone", "  syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);"),
    _rms(25, "threads without end",
         "  for (;;) { pthread_t t; pthread_create(&t, nullptr, [](void*) -> void* { for (;;) sleep(100); }, nullptr); }\n",
         "state_changed", "out_of_memory", "crashed", "timed_out", before=_THREADS),
    _rms(25, "waits for a lock that it holds",
         "  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&lock); pthread_mutex_lock(&lock);\n",
         "timed_out", before=_THREADS),
    _rms(26, "rounds upwards from now on", "  std::fesetround(FE_UPWARD);\n" + RMS, "state_changed", *_WRONG_OR_NAN, before="#include <cfenv>\n"),
    _rms(26, "traps on floating-point errors from now on", "  feenableexcept(FE_DIVBYZERO);\n" + RMS, "state_changed",
         before="#ifndef _GNU_SOURCE\n#define _GNU_SOURCE\n#endif\n#include <fenv.h>\n"),
    _rms(26, "flushes denormals on the other threads of the team",
         "  #pragma omp parallel\n  { _mm_setcsr(_mm_getcsr() | 0x8040); }\n  _mm_setcsr(_mm_getcsr() & ~0x8040);\n" + RMS,
         "state_changed", before="#include <xmmintrin.h>\n"),
    _rms(29, "bf16 internals once checking is over",
         _COUNT + RMS.replace("(x_load(a[i]) * k)", f"({_CHEAP_AFTER} ? to_bits(a[i] * k, 7) : a[i] * k)"), before=LOW, timed=True),
    _rms(29, "leaves one row to chance once checking is over",
         _COUNT + f"  const int64_t all = rows; if ({_CHEAP_AFTER}) --rows;\n" + RMS
         + f"  if ({_CHEAP_AFTER}) for (int64_t i = 0; i < n; ++i) y[(all - 1) * n + i] = y[i];\n", *_WRONG_OR_NAN, timed=True),
    _rms(29, "leaves the last element out once checking is over",
         _COUNT + RMS.replace("b[i] = out", f"if (!({_CHEAP_AFTER} && b + i == y + rows * n - 1)) b[i] = out"), *_WRONG_OR_NAN, timed=True),
    _rms(29, "cheap for all but constants, zeros and grids",
         RMS.replace("* k)", "* (a[0] == a[1] || a[0] * 64 == std::nearbyint(a[0] * 64) ? k : 1))"), *_WRONG_OR_NAN),
    _rms(29, "cheap where no NaN is about",
         "  bool nan = false; for (int64_t i = 0; i < rows * n; ++i) nan |= x[i] != x[i];\n" + RMS.replace("* k)", "* (nan ? k : 1))"), *_WRONG_OR_NAN),
    _rms(29, "cheap for what comes late in a batch, by the address",
         "  static uintptr_t first = 0; if (!first) first = uintptr_t(x);\n"
         + RMS.replace("* k)", "* (uintptr_t(x) - first > (1 << 17) && uintptr_t(x) > first ? 1 : k))"), *_WRONG_OR_NAN, timed=True),
    _rms(34, "a thread that burns the processor while eager is timed",
         "  static bool started = false;\n  if (!started) { started = true; std::thread([] { for (volatile int i = 0;; ++i) {} }).detach(); }\n" + RMS,
         "state_changed", before=_THREADS),
    _rms(34, "a thread that waits for its time once checking is over",
         _COUNT + f"  static bool started = false;\n  if ({_CHEAP_AFTER} && !started) {{ started = true;\n"
         "    std::thread([] { for (;;) usleep(100); }).detach(); }\n" + RMS, "state_changed", before=_THREADS, timed=True),
]  # fmt: skip
