"""A hundred kernels in many styles compile, with the resources that their sources call for.

Each file says behind its metadata what it is written for: `// corpus: <card>[; shared <bytes>][; arch <name>]`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.candidate.signature import groups
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from tests.compile.corpus.cards import CARDS

FILES = sorted(Path(__file__).with_name("corpus").glob("*.cu"))


@dataclass(frozen=True)
class Facts:
    """What a file says of itself. `shared` is None where a library decides."""

    card: OperatorCard
    shared: int | None
    arch: str


def facts_of(source: str) -> Facts:
    said = re.search(r"^// corpus: (\w+)(?:; shared (\d+))?(?:; arch (\w+))?$", source, re.MULTILINE)
    assert said
    shared = None if "<cub/" in source else int(said[2] or 0)
    return Facts(CARDS[said[1]], shared, said[3] or "sm_80")


def test_there_are_a_hundred_of_many_styles() -> None:
    sources = [path.read_text() for path in FILES]
    assert len(sources) >= 100
    for style in (
        "__shfl_", "__shared__", "float4", "__half2", "bfloat162", "cooperative_groups", "cub/block", "cub/warp",
        "cp.async.cg", "wmma", "wgmma", "cp.async.bulk.tensor", "cluster = ", "atomicAdd", "template <", "[tunables]",
        "[workspace]", "[tensor_maps]", 'call = "aten::', "repeat = ", "cooperative = true", "inplace = true",
    ):  # fmt: skip
        assert any(style in source for source in sources), style


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_kernel_of_the_corpus_compiles_as_expected(ctx: JobContext, path: Path) -> None:
    source = path.read_text()
    facts = facts_of(source)
    plan = parse_plan(source, facts.card, "cuda")
    assert isinstance(plan, Plan), plan.message
    configs = configurations(plan)
    outcome = compile_candidate(ctx, plan, facts.card, configs, architectures=[facts.arch])
    assert isinstance(outcome, Compiled), f"{outcome.message}\n{outcome.log}"
    assert outcome.diagnostics == []
    assert [binary.config for binary in outcome.binaries] == configs
    for binary in outcome.binaries:
        (group,) = groups(plan, facts.card, binary.config)
        launched = {launch.kernel: launch for launch in group.launches}
        assert [kernel.kernel for kernel in binary.kernels] == list(launched)
        for kernel in binary.kernels:
            assert kernel.registers > 0
            assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (0, 0)
            wanted = [parameter.size_bytes for parameter in launched[kernel.kernel].parameters]
            assert [size for _, size in kernel.parameters] == wanted
        shared = max((kernel.static_shared_bytes for kernel in binary.kernels), default=0)
        assert facts.shared in (None, shared)
