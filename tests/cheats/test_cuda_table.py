"""Every CUDA candidate of the suite compiles, and every form that the contract makes impossible is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.cuda import warm
from kforge_mcp.compile.cuda.toolchain import toolchains
from kforge_mcp.compile.outcome import Compiled, CompileFailed
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards
from kforge_mcp.store.workspace import Workspace
from tests.cheats.cuda_table import CHEATS, HONEST, REFUSED, CudaCheat, CudaHonest, Refused


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    workspace = Workspace.open(tmp_path_factory.mktemp("cuda-cheats") / "workspace")
    with JobContext.standalone(workspace) as context:
        if not toolchains(context)[0].usable:
            pytest.skip("no NVRTC: pip install 'kforge-mcp[cu13]'")
        yield context
        warm.close_all()
    workspace.close()


def _outcome(
    ctx: JobContext, folder: Path, makes: list[cards.Make], source: str
) -> Compiled | CompileFailed | Rejected:
    card = cards.card(folder, makes)
    plan = parse_plan(source, card, "cuda")
    if isinstance(plan, Rejected):
        return plan
    return compile_candidate(ctx, plan, card, configurations(plan), architectures=("sm_90a",))


@pytest.mark.parametrize("one", CHEATS, ids=[f"row {one.row}: {one.name}" for one in CHEATS])
def test_the_cheat_compiles(ctx: JobContext, tmp_path: Path, one: CudaCheat) -> None:
    outcome = _outcome(ctx, tmp_path, [one.make, *one.also], one.source)
    assert isinstance(outcome, Compiled), outcome.message


@pytest.mark.parametrize("one", HONEST, ids=[one.name for one in HONEST])
def test_the_honest_kernel_compiles_without_a_warning(ctx: JobContext, tmp_path: Path, one: CudaHonest) -> None:
    outcome = _outcome(ctx, tmp_path, [one.make, *one.also], one.source)
    assert isinstance(outcome, Compiled), outcome.message
    assert [text.message for text in outcome.diagnostics] == []


@pytest.mark.parametrize("one", REFUSED, ids=[f"row {one.row}: {one.name}" for one in REFUSED])
def test_the_candidate_is_refused(ctx: JobContext, tmp_path: Path, one: Refused) -> None:
    outcome = _outcome(ctx, tmp_path, [one.make], one.source)
    assert isinstance(outcome, (Rejected, CompileFailed)), "it compiles"
    assert one.says in outcome.message
