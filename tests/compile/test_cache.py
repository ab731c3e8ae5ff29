from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.compile import compiler
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.compiler import Compiled, CompileFailed, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.store.workspace import Workspace
from tests.candidate.cards import candidate_text, make_card, rms_norm

CARD = make_card(rms_norm(2, 8))
CODE = 'extern "C" void k(float* o) { o[0] = 1; }'


def plan_of(code: str = CODE, metadata: str = 'entry = "k"\nargs = ["out"]') -> Plan:
    plan = parse_plan(candidate_text(metadata, code), CARD, "cpu")
    assert isinstance(plan, Plan)
    return plan


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many units each run of the compiler had."""
    counts: list[int] = []
    original = compiler.build

    def counting(ctx, toolchain, units, options, limits):
        counts.append(len(units))
        return original(ctx, toolchain, units, options, limits)

    monkeypatch.setattr(compiler, "build", counting)
    return counts


def test_an_equal_source_compiles_once(workspace: Workspace, built: list[int]) -> None:
    with JobContext.standalone(workspace) as ctx:
        first = compile_candidate(ctx, plan_of(), CARD, [{}])
        again = compile_candidate(ctx, plan_of(), CARD, [{}])
    assert built == [1]
    assert isinstance(first, Compiled)
    assert first == again


def test_options_and_code_make_another_entry(workspace: Workspace, built: list[int]) -> None:
    other = plan_of(metadata='entry = "k"\nargs = ["out"]\noptions = ["-funroll-loops"]')
    with JobContext.standalone(workspace) as ctx:
        for plan in (plan_of(), other, plan_of(CODE.replace("1", "2"))):
            compile_candidate(ctx, plan, CARD, [{}])
    assert built == [1, 1, 1]


def test_only_what_is_missing_is_compiled(workspace: Workspace, built: list[int]) -> None:
    plan = plan_of(metadata='entry = "k"\nargs = ["out"]\n[tunables]\nA = [1, 2, 3]')
    with JobContext.standalone(workspace) as ctx:
        compile_candidate(ctx, plan, CARD, [{"A": 2}])
        compile_candidate(ctx, plan, CARD, [{"A": 1}, {"A": 2}, {"A": 3}])
    assert built == [1, 2]


def test_failures_are_remembered_but_not_those_of_limits(workspace: Workspace, built: list[int]) -> None:
    broken = plan_of(CODE.replace("1", "missing"))
    large = plan_of("char big[1 << 26] = {1};\n" + CODE)
    with JobContext.standalone(workspace) as ctx:
        outcomes = [compile_candidate(ctx, broken, CARD, [{}]) for _ in range(2)]
        assert built == [1]
        limited = compile_candidate(ctx, large, CARD, [{}], limits=Limits(file_bytes=1 << 20))
        assert isinstance(limited, CompileFailed)
        assert limited.reason == "limit_exceeded"
        assert isinstance(compile_candidate(ctx, large, CARD, [{}]), Compiled)
    assert outcomes[0] == outcomes[1]


def test_a_binary_that_changed_on_disk_is_compiled_again(workspace: Workspace, built: list[int]) -> None:
    with JobContext.standalone(workspace) as ctx:
        first = compile_candidate(ctx, plan_of(), CARD, [{}])
        assert isinstance(first, Compiled)
        path = Path(first.binaries[0].path)
        path.chmod(0o700)
        path.write_bytes(b"something else")
        assert compile_candidate(ctx, plan_of(), CARD, [{}]) == first
    assert built == [1, 1]


def test_equal_sources_give_equal_bytes_in_any_company(workspace: Workspace, tmp_path: Path) -> None:
    plan = plan_of(metadata='entry = "k"\nargs = ["out"]\n[tunables]\nA = [1, 2]')
    other = Workspace.open(tmp_path / "other")
    with JobContext.standalone(workspace) as ctx, JobContext.standalone(other) as second:
        together = compile_candidate(ctx, plan, CARD, [{"A": 1}, {"A": 2}])
        alone = compile_candidate(second, plan, CARD, [{"A": 2}])
    other.close()
    assert isinstance(together, Compiled)
    assert isinstance(alone, Compiled)
    assert together.binaries[1].digest == alone.binaries[0].digest


def test_concurrent_identical_requests_compile_once(workspace: Workspace, built: list[int]) -> None:
    outcomes: list[object] = []

    def submit() -> None:
        with JobContext.standalone(workspace) as ctx:
            outcomes.append(compile_candidate(ctx, plan_of(), CARD, [{}]))

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]
    assert len(outcomes) == 4
    assert all(outcome == outcomes[0] for outcome in outcomes)
