from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.compile.toolchain import baseline, find_ninja, find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError
from kforge_mcp.store.workspace import Workspace
from tests.candidate.cards import candidate_text, make_card, rms_norm

V3 = "fpu sse2 ssse3 sse4_1 sse4_2 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave popcnt"


def environment(**changes: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **changes}


def test_no_compiler_names_the_packages_to_install(workspace: Workspace, tmp_path: Path) -> None:
    context = JobContext.standalone(workspace, environment={"PATH": str(tmp_path)})
    with context as ctx, pytest.raises(ToolchainError) as caught:
        find_toolchain(ctx)
    assert "apt install g++" in str(caught.value)
    assert "dnf install gcc-c++" in str(caught.value)


def test_a_named_compiler_is_used_and_a_wrong_name_is_told(workspace: Workspace, tmp_path: Path) -> None:
    real = shutil.which("g++") or shutil.which("clang++")
    assert real
    link = tmp_path / "my compiler"
    link.symlink_to(real)
    with JobContext.standalone(workspace, environment=environment(KFORGE_CXX=f"'{link}'")) as ctx:
        assert find_toolchain(ctx).command == (str(link),)
        plan = parse_plan(
            candidate_text('entry = "k"\nargs = ["out"]', 'extern "C" void k(float*) {}'), make_card(rms_norm(2)), "cpu"
        )
        assert isinstance(plan, Plan)
        assert isinstance(compile_candidate(ctx, plan, make_card(rms_norm(2)), [{}]), Compiled)
    for value, part in (("no-such-compiler", "no program"), (shutil.which("false") or "false", "--version failed")):
        context = JobContext.standalone(workspace, environment=environment(KFORGE_CXX=value))
        with context as ctx, pytest.raises(ToolchainError, match=part):
            find_toolchain(ctx)


@pytest.mark.skipif(not shutil.which("clang++"), reason="clang++ is not on this machine")
def test_clang_keeps_parallel_regions_serial_and_says_so(workspace: Workspace) -> None:
    code = (
        'extern "C" void k(int64_t n, float* out) {\n'
        "#pragma omp parallel for simd\n"
        "    for (int64_t i = 0; i < n; ++i) out[i] = 0;\n"
        "#pragma omp simd\n"
        "    for (int64_t i = 0; i < n; ++i) out[i] += 1;\n}"
    )
    card = make_card(rms_norm(2))
    plan = parse_plan(candidate_text('entry = "k"\nargs = ["out.numel", "out"]', code), card, "cpu")
    assert isinstance(plan, Plan)
    with JobContext.standalone(workspace, environment=environment(KFORGE_CXX="clang++")) as ctx:
        outcome = compile_candidate(ctx, plan, card, [{}])
    assert isinstance(outcome, Compiled)
    assert [(one.severity, one.source_line) for one in outcome.diagnostics] == [
        ("warning", "#pragma omp parallel for simd")
    ]
    assert b"libomp" not in Path(outcome.binaries[0].path).read_bytes()


def test_ninja_comes_with_the_server(workspace: Workspace, tmp_path: Path) -> None:
    with JobContext.standalone(workspace, environment={"PATH": str(tmp_path)}) as ctx:
        assert Path(find_ninja(ctx)).exists()


@pytest.mark.parametrize(
    ("flags", "machine", "expected"),
    [
        (V3, "x86_64", ("-march=x86-64-v3",)),
        (V3.replace("avx2 ", ""), "x86_64", ("-march=x86-64-v2",)),
        (V3 + " avx512f", "x86_64", ("-march=x86-64-v3",)),
        ("", "aarch64", ()),
    ],
)
def test_the_instruction_set_is_a_baseline(tmp_path: Path, flags: str, machine: str, expected: tuple[str, ...]) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor : 0\nflags\t\t: {flags}\n")
    assert baseline(cpuinfo, machine) == expected
