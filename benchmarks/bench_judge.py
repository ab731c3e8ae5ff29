"""The judge, measured: the time of a judgement and of a holdout, and what it says of eager in a candidate's place.

    python benchmarks/bench_judge.py [--null N] [--raw FILE]

`--null 630` judges each of seven operators 90 times; a busy machine is the better test. `--raw` keeps every sample, one
judgement a line. Needs the model interpreter (KFORGE_PYTHON, or .venv-model).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from operators import OPERATORS, REPOSITORY

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.evaluate import Claim, evaluate, holdout, null_judgement
from kforge_mcp.judge.session import Evaluators
from kforge_mcp.records.project import Project
from kforge_mcp.store.workspace import Workspace

RMS_NORM = cards.Make(
    "rms_norm", (cards.Tensor("x", (512, 1024)), cards.Tensor("weight", (1024,), "parameter")), ((512, 1024),),
    {"eps": 1e-6},
)  # fmt: skip


def measure(ctx: JobContext, project: Project, folder: Path) -> None:
    """Print how long a judgement and a holdout take."""
    card = cards.card(folder, [RMS_NORM])
    plan = parse_plan(kernels.rms_norm(kernels.RMS_ROWS), card, "cpu")
    assert not isinstance(plan, Rejected)
    compiled = compile_candidate(ctx, plan, card, [{}])
    assert isinstance(compiled, Compiled)
    start = time.perf_counter()
    judgement = evaluate(ctx, project, card, plan, compiled, candidate_id="cand_bench")
    seconds = time.perf_counter() - start
    result = judgement.benchmarked
    print(f"full judgement of RMS norm, 512 x 1024 fp32: {seconds:.1f} s; {result and result.message}")
    start = time.perf_counter()
    (held,) = holdout(ctx, project, [Claim(card, plan, compiled, {}, "cand_bench")])
    seconds = time.perf_counter() - start
    print(f"holdout: {seconds:.1f} s; passed {held.passed}, speed-up {held.joint.speedup or 0:.2f}")


def judge_eager(ctx: JobContext, project: Project, folder: Path, count: int, raw: Path | None) -> None:
    """Print what is said of eager in a candidate's place, by operator, and keep the samples."""
    names = list(OPERATORS)
    said: dict[str, Counter[str]] = {name: Counter() for name in names}
    start = time.perf_counter()
    with Evaluators(ctx, project) as evaluators:
        for number in range(count):
            name = names[number % len(names)]
            card = cards.card(folder, [OPERATORS[name]])
            answer = null_judgement(ctx, project, card, evaluators=evaluators)
            result = answer.benchmarked
            word = str(result.verdict if result else answer.validated.reason)
            said[name][word] += 1
            if raw:
                figures = result.variants[0].model_dump() if result else answer.validated.model_dump()
                line = {"operator": name, "verdict": word, "load": os.getloadavg()[0], "figures": figures}
                with raw.open("a") as file:
                    file.write(json.dumps({**line, "samples": answer.samples}, default=str) + "\n")
    seconds = time.perf_counter() - start
    for name, words in said.items():
        print(f"eager against itself, {name}: " + ", ".join(f"{n} {word}" for word, n in words.most_common()))
    different = sum(words.total() - words["no_difference_shown"] for words in said.values())
    print(f"eager in the candidate's place: {different} of {count} judgements found a difference ({seconds:.0f} s)")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--null", type=int, default=14, help="judgements of eager against itself")
    parser.add_argument("--raw", type=Path, help="a file to which samples are added, one judgement a line")
    options = parser.parse_args()
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = Workspace.open(folder / "workspace")
        project = cards.project(python, folder)
        with JobContext.standalone(workspace) as ctx:
            measure(ctx, project, folder)
            judge_eager(ctx, project, folder, options.null, options.raw)
        workspace.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
