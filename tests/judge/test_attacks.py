"""Attacks on the judge and the machine by candidates in its sandbox: what becomes of each, and what is said."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.request import subjects
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.store.workspace import Workspace

RELU = "  for (int64_t i = 0; i < n; ++i) y[i] = x[i] <= 0 ? 0 : x[i];\n"
_SYSTEM = """#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <cstdint>
#include <cstdlib>
#include <cstdio>
#include <cstring>
#include <csignal>
#include <cerrno>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#include <xmmintrin.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
"""


class Bench:
    """One parent process for all; each candidate gets a referee and a sandbox of its own."""

    def __init__(self, ctx: JobContext, python: str, folder: Path) -> None:
        self._ctx = ctx
        self._card = cards.card(folder, [cards.RELU])
        self.evaluators = Evaluators(ctx, cards.project(python, folder), call_timeout_s=3.0)

    def judge(self, body: str, before: str = "") -> dict[str, Any]:
        plan = parse_plan(kernels.relu(body, _SYSTEM + before), self._card, "cpu")
        assert not isinstance(plan, Rejected), plan
        compiled = compile_candidate(self._ctx, plan, self._card, [{}])
        assert isinstance(compiled, Compiled), compiled
        (subject,) = subjects(self._card, plan, compiled)
        answer = self.evaluators.evaluate(subject, mode="judge", schedule=None, admitted=frozenset({"v1"}))
        assert not isinstance(answer, Rejected)
        return answer


@pytest.fixture(scope="module")
def bench(model_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("attacks")
    workspace = Workspace.open(folder / "workspace")
    with JobContext.standalone(workspace) as ctx:
        made = Bench(ctx, model_python, folder)
        with made.evaluators:
            yield made
    workspace.close()


# name: (body before an honest kernel, before the function, reasons, what the message says). No reasons, or an empty one
# among them: on machines where it comes to nothing the kernel is judged as what it is.
ATTACKS: dict[str, tuple[str, str, tuple[str, ...], str]] = {
    "a call is refused": ("  open(\"/etc/passwd\", O_RDONLY);", "", ("sandbox_violation",), "`openat`"),
    "it is caught by a handler of the candidate's own": (
        "  struct sigaction action = {}; action.sa_handler = [](int) {}; sigaction(SIGSYS, &action, nullptr);\n"
        "  open(\"/etc/passwd\", O_RDONLY);", "", ("sandbox_violation",), "",
    ),
    "by a thread of the team": (
        "  #pragma omp parallel\n  { socket(AF_INET, SOCK_STREAM, 0); }", "", ("sandbox_violation",), "`socket`",
    ),
    "by a static constructor": (
        "", "struct Early { Early() { symlink(\"/etc\", \"here\"); } } early;\n", ("sandbox_violation",), "`symlink`",
    ),
    "by a destructor at the end": (
        "", "struct Late { ~Late() { open(\"/etc/passwd\", O_WRONLY); } } late;\n", (), "",
    ),
    "another library is loaded from outside": (
        "  if (dlopen(\"/lib/x86_64-linux-gnu/libutil.so.1\", RTLD_NOW)) std::abort();", "",
        ("sandbox_violation",), "`openat`",
    ),
    "another library is loaded while it is itself loaded": (
        "", "struct Early { Early() { if (dlopen(\"/etc/passwd\", RTLD_NOW)) std::abort(); } } early;\n", (), "",
    ),
    "the judge's channel is read": (
        "  char c; for (int fd = 3; fd < 64; ++fd) { if (lseek(fd, 0, SEEK_CUR) < 0 && errno == ESPIPE) {\n"
        "    ssize_t got = read(fd, &c, 1); (void)got; } }", "", ("timed_out", "sandbox_violation", "crashed"), "",
    ),
    "the judge's channel is closed": (
        "  for (int fd = 3; fd < 64; ++fd) close(fd);", "", ("sandbox_violation", "crashed"), "",
    ),
    "the output is closed": ("  close(0); close(1); close(2);", "", (), ""),
    "it stops itself": ("  kill(getpid(), SIGSTOP);", "", ("timed_out", ""), ""),
    "it kills itself": (
        "  kill(getpid(), SIGKILL);", "", ("out_of_memory", "crashed", ""), "",
    ),
    "it raises every signal": (
        "  for (int s = 1; s < 32; ++s) if (s != SIGSTOP && s != SIGTSTP) kill(getpid(), s);", "",
        ("crashed", "timed_out", "sandbox_violation", "out_of_memory"), "",
    ),
    "a dead lock": (
        "  static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; pthread_mutex_lock(&m); pthread_mutex_lock(&m);", "",
        ("timed_out",), "",
    ),
    "threads without end": (
        "  for (int i = 0; i < 3000; ++i) { pthread_t t; if (pthread_create(&t, nullptr, idle, nullptr)) break; }",
        "static void* idle(void*) { for (;;) sleep(100); return nullptr; }\n",
        ("state_changed", "out_of_memory", "crashed"), "",
    ),
    "the stack without end": (
        "  y[0] = float(deep(1));",
        "static int deep(int n) { volatile char a[4096]; a[n % 4096] = char(n); return deep(n + 1) + a[0]; }\n",
        ("crashed", "out_of_memory"), "",
    ),
    "address space without end": (
        "  for (;;) if (mmap(nullptr, 1 << 28, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;\n"
        "  y = static_cast<float*>(std::malloc(1 << 20)); y[0] = 1;", "",
        ("crashed", "out_of_memory", "wrong_result", "nondeterministic"), "",
    ),
    "output without end": (
        "  char line[4096]; std::memset(line, 'x', 4096);\n"
        "  for (;;) if (write(1, line, 4096) < 0) { volatile int stay = 1; while (stay) {} }", "",
        ("sandbox_violation", "timed_out"), "",
    ),
    "the limits are lifted": (
        "  rlimit none = {RLIM_INFINITY, RLIM_INFINITY}; if (setrlimit(RLIMIT_AS, &none) == 0) std::abort();\n"
        "  if (std::malloc(8ull << 30)) std::abort();", "", (), "",
    ),
    "denormals are flushed by a static constructor": (
        "", "struct Early { Early() { _mm_setcsr(_mm_getcsr() | 0x8040); } } early;\n", ("state_changed",), "loaded",
    ),
    "denormals are flushed on the other threads alone": (
        "  #pragma omp parallel for schedule(static, 1)\n"
        "  for (int t = 0; t < 2; ++t) if (t == 1) _mm_setcsr(_mm_getcsr() | 0x8040);", "", ("state_changed",), "",
    ),
    "the x87 loses precision": (
        "  unsigned short word; __asm__ volatile(\"fnstcw %0\" : \"=m\"(word)); word &= 0xFCFF;\n"
        "  __asm__ volatile(\"fldcw %0\" : : \"m\"(word));", "", ("state_changed",), "",
    ),
}  # fmt: skip


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the attacks are written for x86-64")
@pytest.mark.parametrize("name", ATTACKS)
def test_the_attack_gains_nothing(bench: Bench, name: str) -> None:
    body, before, reasons, says = ATTACKS[name]
    finding = bench.judge(f"{body}\n{RELU}", before)["finding"]
    if finding is None:
        assert "" in reasons or not reasons, "it got through"
    else:
        assert finding["reason"] in reasons, finding
        assert says in finding["message"]
