from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.compiler import CompileOutcome, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.store.workspace import Workspace

Compile = Callable[..., CompileOutcome]


@pytest.fixture(scope="session")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    """One workspace for the session, so that its cache serves all tests."""
    opened = Workspace.open(tmp_path_factory.mktemp("compile") / "workspace")
    with JobContext.standalone(opened) as context:
        yield context
    opened.close()


@pytest.fixture
def compiled(ctx: JobContext) -> Compile:
    def run(source: str, card: OperatorCard, limits: Limits | None = None) -> CompileOutcome:
        plan = parse_plan(source, card, "cpu")
        assert isinstance(plan, Plan), plan.message
        return compile_candidate(ctx, plan, card, configurations(plan), limits=limits)

    return run
