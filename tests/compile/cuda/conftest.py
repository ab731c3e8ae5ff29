from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.compiler import Compiled, CompileFailed, CompileOutcome, compile_candidate
from kforge_mcp.compile.cuda import warm
from kforge_mcp.compile.cuda.toolchain import toolchains
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from tests.compile.cuda import programs

CompileCuda = Callable[..., CompileOutcome]


@pytest.fixture(scope="session", autouse=True)
def nvrtc(ctx: JobContext) -> Iterator[None]:
    """Skips where NVRTC is not installed; ends the warm process with the session."""
    found = toolchains(ctx)[0]
    if not found.usable:
        pytest.skip(f"no NVRTC in {sys.executable}: pip install 'kforge-mcp[cu13]'")
    yield
    warm.close_all()


@pytest.fixture
def cuda(ctx: JobContext) -> CompileCuda:
    """Compiles a source for sm_90a, or for the architectures given."""

    def run(
        source: str,
        card: OperatorCard | None = None,
        *,
        architectures: tuple[str, ...] = ("sm_90a",),
        limits: Limits | None = None,
        ctx: JobContext = ctx,
    ) -> CompileOutcome:
        card = card or programs.card()
        plan = parse_plan(source, card, "cuda")
        assert isinstance(plan, Plan), plan.message
        return compile_candidate(ctx, plan, card, configurations(plan), limits=limits, architectures=architectures)

    return run


def ok(outcome: CompileOutcome) -> Compiled:
    assert isinstance(outcome, Compiled), outcome.message
    return outcome


def failed(outcome: CompileOutcome) -> CompileFailed:
    assert isinstance(outcome, CompileFailed)
    assert len(outcome.message) <= 1500
    return outcome
