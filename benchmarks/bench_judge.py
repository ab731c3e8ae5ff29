"""The judge, measured: its statistics by simulation, the time of a judgement, and eager in a candidate's place.

    python benchmarks/bench_judge.py [--null N]

The simulated noise is what a busy machine does to paired times: it drifts, it is autocorrelated, and now and then
something else runs. Needs the model interpreter for all but the simulation (KFORGE_PYTHON, or .venv-model).
"""

from __future__ import annotations

import argparse
import math
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.evaluate import Claim, evaluate, holdout, null_judgement
from kforge_mcp.judge.statistics import (
    Measured,
    holm,
    joint_interval,
    mean_interval,
    median_interval,
    p_value_above,
    threshold,
    verdict,
)
from kforge_mcp.store.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from tests.judge import cards, kernels  # noqa: E402

PAIRS = 60
PROCESSES = 8
HOLDOUT_PAIRS = 20
PROCESS_SPREAD = 0.01
"""Standard deviation of what a process's memory layout adds to every log ratio in it."""


def noise(dice: random.Random, count: int) -> list[float]:
    """Log ratios of equal kernels: autocorrelated (0.5), drifting, with bursts; scale about 2 %."""
    values: list[float] = []
    state, drift = dice.gauss(0, 0.02), 0.0
    for _ in range(count):
        state = 0.5 * state + dice.gauss(0, 0.02)
        drift += dice.gauss(0, 0.001)
        burst = dice.choice((-1, 1)) * dice.expovariate(5) if dice.random() < 0.05 else 0.0
        values.append(state + drift + burst)
    return values


def simulate(seed: int, rounds: int) -> None:
    """Print coverage, false positives and inflation."""
    dice = random.Random(seed)
    covered = statistics.fmean(
        interval.low <= 0.2 <= interval.high
        for interval in (median_interval([0.2 + dice.gauss(0, 0.05) for _ in range(PAIRS)]) for _ in range(rounds))
    )
    print(f"median interval, 99 % nominal, independent noise: covers {100 * covered:.1f} %")
    truth = math.log(3 / sum(math.exp(-r) for r in (0.1, 0.3, 0.5)))
    parts = (
        [Measured(1, 1.0, [r + dice.gauss(0, 0.05) for _ in range(PAIRS)]) for r in (0.1, 0.3, 0.5)]
        for _ in range(rounds)
    )
    covered = statistics.fmean(i.low <= truth <= i.high for i in map(joint_interval, parts))
    print(f"joint interval of three variants: covers {100 * covered:.1f} %")
    wrong = sum(
        verdict(median_interval(noise(dice, PAIRS)), median_interval(noise(dice, PAIRS)).reach) != "no_difference_shown"
        for _ in range(rounds)
    )
    print(f"equal kernels, drifting autocorrelated noise: {100 * wrong / rounds:.2f} % called different")
    inflated, published, false = [], 0, 0
    tries = max(rounds // 20, 10)
    for _ in range(tries):
        best = max(median_interval(noise(dice, PAIRS)).middle for _ in range(100))
        inflated.append(best)
        biases = [dice.gauss(0, PROCESS_SPREAD) for _ in range(2 * PROCESSES)]
        medians = [statistics.median(noise(dice, HOLDOUT_PAIRS)) + bias for bias in biases]
        values, nulls = medians[:PROCESSES], medians[PROCESSES:]
        bound = threshold(mean_interval(nulls).reach)
        published += holm([p_value_above(values, bound)], 0.01)[0]
        false += p_value_above(values, 0.0) < 0.01
    print(
        f"best of 100 equal candidates: looks {100 * math.expm1(statistics.fmean(inflated)):.1f} % faster; "
        f"published after holdout: {published} of {tries} (a bare t test against 0: {false})"
    )


def measure(nulls: int) -> None:
    """Print how long a judgement and a holdout take, and what eager in a candidate's place is called."""
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    make = cards.Make(
        "rms_norm", (cards.Tensor("x", (512, 1024)), cards.Tensor("weight", (1024,), "parameter")), ((512, 1024),),
        {"eps": 1e-6},
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        workspace = Workspace.open(folder / "workspace")
        project = cards.project(python, folder)
        card = cards.card(folder, [make])
        with JobContext.standalone(workspace) as ctx:
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
            print(f"holdout: {seconds:.1f} s; passed {held.passed}, speed-up {held.joint.speedup:.2f}")
            small = [cards.RMS_NORM, cards.SOFTMAX, cards.LAYER_NORM, cards.RELU]
            words: list[str | None] = []
            for number in range(nulls):
                answer = null_judgement(ctx, project, cards.card(folder, [small[number % len(small)]]))
                words.append(answer.benchmarked.verdict if answer.benchmarked else answer.validated.reason)
            different = sum(word != "no_difference_shown" for word in words)
            print(f"eager in the candidate's place: {different} of {nulls} judgements found a difference")
        workspace.close()


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=2000, help="simulated judgements")
    parser.add_argument("--null", type=int, default=8, help="real judgements of eager against itself")
    options = parser.parse_args()
    simulate(1, options.rounds)
    measure(options.null)
    return 0


if __name__ == "__main__":
    sys.exit(main())
