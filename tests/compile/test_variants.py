from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.compile.toolchain import find_toolchain, sanitizer_libraries
from kforge_mcp.compile.vectorisation import read_remarks, vectorisation_report
from kforge_mcp.engine.context import JobContext
from tests.candidate.cards import candidate_text, make_card, rms_norm

CARD = make_card(rms_norm(2, 8))
METADATA = 'entry = "k"\nargs = ["hidden_states", "out.numel", "out"]'
LOOP = """extern "C" void k(const float* x, int64_t n, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];
    float carried = 0;
    for (int64_t i = 0; i < n; ++i) { carried = carried * 0.5f + x[i]; out[i] += carried; }
}
"""


def plan_of(code: str) -> Plan:
    plan = parse_plan(candidate_text(METADATA, code), CARD, "cpu")
    assert isinstance(plan, Plan)
    return plan


def run_sanitized(ctx: JobContext, code: str) -> subprocess.CompletedProcess[str]:
    """Call a sanitized binary with 16 floats in a process of its own."""
    outcome = compile_candidate(ctx, plan_of(code), CARD, [{}], sanitized=True)
    assert isinstance(outcome, Compiled), outcome.message
    assert outcome.diagnostics == []
    script = f"""
import ctypes, os
os.environ.pop("LD_PRELOAD")
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
x, out = (ctypes.c_void_p(libc.malloc(64)) for _ in range(2))
ctypes.memset(x, 0, 64)
ctypes.CDLL({outcome.binaries[0].path!r}).k(x, ctypes.c_int64(16), out)
print("done")
"""
    preload = ":".join(sanitizer_libraries(ctx, find_toolchain(ctx)))
    environment = {**os.environ, "LD_PRELOAD": preload, "ASAN_OPTIONS": "detect_leaks=0"}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_a_sanitized_binary_runs_what_is_right(ctx: JobContext) -> None:
    run = run_sanitized(ctx, LOOP)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr


def test_a_sanitized_binary_stops_at_what_is_wrong(ctx: JobContext) -> None:
    beyond = run_sanitized(ctx, LOOP.replace("i < n; ++i) out[i] = 2", "i <= n; ++i) out[i] = 2"))
    assert beyond.returncode != 0
    assert "heap-buffer-overflow" in beyond.stderr
    overflow = run_sanitized(
        ctx, LOOP.replace("float carried = 0;", "int big = 2147483647 - 16; float carried = big + int(n) + 1;")
    )
    assert overflow.returncode != 0
    assert "signed integer overflow" in overflow.stderr


def test_sanitized_and_plain_binaries_are_different_entries_of_the_cache(ctx: JobContext) -> None:
    outcomes = [compile_candidate(ctx, plan_of(LOOP), CARD, [{}], sanitized=flag) for flag in (False, True, False)]
    plain, checked, again = outcomes
    assert isinstance(plain, Compiled)
    assert isinstance(checked, Compiled)
    assert plain == again
    assert plain.binaries[0].digest != checked.binaries[0].digest
    assert Path(plain.binaries[0].path).exists()


def test_the_report_tells_which_loops_were_vectorised(ctx: JobContext) -> None:
    report = vectorisation_report(ctx, plan_of(LOOP), CARD, {})
    (first,) = [line for line in report.splitlines() if line.startswith("  line 6:")]
    assert "vectorized" in first
    assert first.endswith("| for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i];")
    assert all("loop vectorized" not in line for line in report.splitlines() if line.startswith("  line 8:"))


def test_remarks_of_clang_are_read_at_the_line_that_its_note_names() -> None:
    """clang does not find lines that `#line` counts, and says in a note where it would have pointed."""
    log = (
        "candidate.cpp:2:17: remark: vectorized loop (vectorization width: 8) [-Rpass=loop-vectorize]\n"
        'extern "C" void k(\n'
        "                ^\n"
        "candidate.cpp:2:17: note: could not determine the original source location for candidate.cpp:3:5\n"
        "candidate.cpp:2:17: note: could not determine the original source location for candidate.cpp:4:5\n"
        "candidate.cpp:2:17: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"
        "candidate.cpp:2:17: note: could not determine the original source location for candidate.cpp:4:5\n"
    )
    assert read_remarks(log, "a\nb\nfor (x) {}\nfor (y) {}\n") == [
        "  line 3: vectorized loop (vectorization width: 8) | for (x) {}",
        "  line 4: loop not vectorized | for (y) {}",
    ]


def test_remarks_of_clang_are_read_too() -> None:
    log = (
        "candidate.cpp:2:5: remark: vectorized loop (vectorization width: 8, interleaved count: 4) [-Rpass=loop]\n"
        "candidate.cpp:3:5: remark: loop not vectorized: value could not be identified as reduction [-Rpass=l]\n"
        "kforge_preamble:3:5: remark: loop not vectorized [-Rpass-missed=loop-vectorize]\n"
    )
    report = read_remarks(log, "a\nfor (x) {}\nfor (y) {}\n")
    assert report == [
        "  line 2: vectorized loop (vectorization width: 8, interleaved count: 4) | for (x) {}",
        "  line 3: loop not vectorized: value could not be identified as reduction | for (y) {}",
    ]
