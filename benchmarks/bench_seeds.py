"""Every configuration of every CUDA seed, compiled for three generations of GPUs: what the compiler says it needs.

    .venv/bin/python benchmarks/bench_seeds.py

Needs no GPU. Prints a line a seed and exits with 1 if any kernel spills or uses a stack.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan  # noqa: E402
from kforge_mcp.compile.compiler import Compiled, compile_candidate  # noqa: E402
from kforge_mcp.compile.cuda.warm import close_all  # noqa: E402
from kforge_mcp.engine.context import JobContext  # noqa: E402
from kforge_mcp.records.card import OperatorCard  # noqa: E402
from kforge_mcp.seeds.catalogue import Seed, seeds_for  # noqa: E402
from kforge_mcp.store.workspace import Workspace  # noqa: E402
from tests.seeds.cuda_cards import CARDS  # noqa: E402

ARCHITECTURES = ("sm_80", "sm_90a", "sm_100")


def main() -> int:
    kernels, spilling = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace.open(Path(folder) / "workspace")
        with JobContext.standalone(workspace) as ctx:
            for family, (card, _) in CARDS.items():
                for seed in seeds_for(card, "cuda"):
                    found, bad = check(ctx, f"{seed.name} ({family})", seed, card)
                    kernels, spilling = kernels + found, spilling + bad
        close_all()
        workspace.close()
    print(f"{kernels} kernels, {spilling} with spills or a stack")
    return 1 if spilling else 0


def check(ctx: JobContext, name: str, seed: Seed, card: OperatorCard) -> tuple[int, int]:
    """Compile all configurations of a seed; returns how many kernels there are and how many of them spill."""
    plan = parse_plan(seed.source, card, "cuda")
    assert isinstance(plan, Plan), plan.message
    configs = configurations(plan)
    outcome = compile_candidate(ctx, plan, card, configs, architectures=ARCHITECTURES)
    assert isinstance(outcome, Compiled), f"{name}: {outcome.message}"
    kernels = [(binary, kernel) for binary in outcome.binaries for kernel in binary.kernels]
    bad = [
        (binary, kernel)
        for binary, kernel in kernels
        if kernel.spill_store_bytes + kernel.spill_load_bytes + kernel.stack_bytes
    ]
    registers = [kernel.registers for _, kernel in kernels]
    print(
        f"{name:44s} {len(configs):3d} configurations, {len(kernels):3d} kernels, {min(registers)} to "
        f"{max(registers)} registers, {len(bad)} spill",
        flush=True,
    )
    for binary, kernel in bad:
        print(f"    {binary.arch} {binary.config}: {kernel}")
    return len(kernels), len(bad)


if __name__ == "__main__":
    sys.exit(main())
