"""Jobs for the runtime's `cuda/sample.py`: a candidate's programs on samples of their inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.scope import output_names
from kforge_mcp.candidate.step_binding import NOMINAL_SM_COUNT, bind_steps
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.processes import RUNTIME_MAIN
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.records.variant import Variant

SAMPLE_PROGRAM = RUNTIME_MAIN.parent / "cuda" / "sample.py"


def sample_job(
    ctx: JobContext,
    project: Project,
    card: OperatorCard,
    plan: Plan,
    config: Config,
    variant: Variant,
    binary: Binary,
    *,
    runs: int = 1,
) -> dict[str, Any] | Rejected:
    """One variant's program as a job."""
    sm_count = project.device.sm_count or NOMINAL_SM_COUNT
    bound = bind_steps(plan, variant, config, sm_count=sm_count)
    if isinstance(bound, Rejected):
        return bound
    names = ["" for _ in variant.tensors]
    for argument in variant.arguments:
        for number, index in enumerate(argument.tensors):
            names[index] = argument.name if argument.kind == "tensor" else f"{argument.name}[{number}]"
    return {
        "cubin": binary.path,
        "kernels": {kernel.kernel: kernel.symbol for kernel in binary.kernels},
        "bound": bound.as_json(),
        "tensors": [spec.model_dump(mode="json") for spec in variant.tensors],
        "outputs": [spec.model_dump(mode="json") for spec in variant.outputs],
        "names": [*names, *output_names(variant)],
        "overwritten": _overwritten(card, variant) if plan.inplace else [],
        "blob_root": str(ctx.workspace.blobs.root),
        "runs": runs,
    }


def _overwritten(card: OperatorCard, variant: Variant) -> list[int]:
    mutated = variant.argument(card.mutates)
    return variant.overwritten or (mutated.tensors[:1] if mutated else [])


def write_jobs(folder: Path, jobs: list[dict[str, Any]]) -> Path:
    """The jobs as the file that the program takes."""
    path = folder / "jobs.json"
    path.write_text(json.dumps(jobs))
    return path


def answers(output: str) -> list[dict[str, Any]]:
    """What the program said of each job; anything else on its output is passed over."""
    found = []
    for line in output.splitlines():
        if line.startswith('{"finding"'):
            try:
                found.append(json.loads(line))
            except json.JSONDecodeError:
                continue
    return found
