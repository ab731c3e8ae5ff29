"""The judge's statistics against simulation: coverage, false positives, and what selection adds.

    python benchmarks/bench_statistics.py [--rounds N] [--seed S]

Independent noise for the intervals' nominal coverage; for verdicts the noise of a busy machine, which drifts, is
autocorrelated, and has bursts. Exit status 1 where a figure is not what the judge promises.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable

import numpy as np

from kforge_mcp.judge.statistics import (
    LEAST_GAIN,
    Measured,
    holm,
    joint_interval,
    mean_interval,
    median_interval,
    p_value_above,
    threshold,
    verdict,
)

PAIRS, FIRST_STAGE = 60, 16
PROCESSES, HOLDOUT_PAIRS = 8, 20
PROCESS_SPREAD = 0.01
"""Standard deviation of what a process's memory layout adds to every log ratio in it."""
_STANDARD_ERRORS = 3

Array = np.ndarray
_failed: list[str] = []


def busy(dice: np.random.Generator, rounds: int, count: int) -> Array:
    """Log ratios of equal kernels, a row per round: autocorrelated (0.5), drifting, with bursts; about 2 %."""
    values = np.empty((rounds, count))
    state = dice.normal(0, 0.02, rounds)
    drift = np.cumsum(dice.normal(0, 0.001, (rounds, count)), axis=1)
    for step in range(count):
        state = 0.5 * state + dice.normal(0, 0.02, rounds)
        values[:, step] = state
    bursts = dice.choice((-1, 1), (rounds, count)) * dice.exponential(0.2, (rounds, count))
    return values + drift + np.where(dice.random((rounds, count)) < 0.05, bursts, 0.0)


def say(what: str, share: float, rounds: int, *, least: float | None = None, most: float | None = None) -> None:
    """Print a share and note where it misses its bound by more than chance explains."""
    bound = least if least is not None else most
    assert bound is not None
    error = _STANDARD_ERRORS * math.sqrt(bound * (1 - bound) / rounds)
    missed = share < bound - error if least is not None else share > bound + error
    relation = "at least" if least is not None else "at most"
    print(f"{what}: {100 * share:.2f} % ({relation} {100 * bound:g} %){'  MISSED' if missed else ''}")
    if missed:
        _failed.append(what)


def share(rounds: int, holds: Callable[[int], bool]) -> float:
    """Of how many rounds it holds."""
    return sum(holds(index) for index in range(rounds)) / rounds


def coverage(dice: np.random.Generator, rounds: int) -> None:
    """Intervals of independent noise of several shapes, light and heavy tails, skew."""
    shapes = {
        "normal": dice.normal(0, 0.05, (rounds, PAIRS)),
        "heavy-tailed": 0.03 * dice.standard_t(2, (rounds, PAIRS)),
        "skewed": dice.exponential(0.05, (rounds, PAIRS)) - 0.05 * math.log(2),
    }
    for name, noise in shapes.items():
        for count in (PAIRS, FIRST_STAGE):
            intervals = [median_interval(list(row[:count])) for row in noise]
            covered = share(rounds, lambda i, intervals=intervals: intervals[i].low <= 0 <= intervals[i].high)
            say(f"median interval of {count} pairs, {name} noise, covers", covered, rounds, least=0.99)
    effects = (0.1, 0.3, 0.5)
    truth = math.log(3 / sum(math.exp(-r) for r in effects))
    noise = dice.normal(0, 0.05, (rounds, 3, PAIRS))
    joints = [
        joint_interval([Measured(1, 1.0, list(e + n)) for e, n in zip(effects, one, strict=True)]) for one in noise
    ]
    say("joint interval of three variants covers", share(rounds, lambda i: joints[i].low <= truth <= joints[i].high),
        rounds, least=0.99)  # fmt: skip
    means = [mean_interval(list(row)) for row in dice.normal(0.1, PROCESS_SPREAD, (rounds, PROCESSES))]
    say("t interval over processes covers", share(rounds, lambda i: means[i].low <= 0.1 <= means[i].high), rounds,
        least=0.99)  # fmt: skip


def false_positives(dice: np.random.Generator, rounds: int) -> None:
    """Equal kernels, judged under the noise of a busy machine."""
    for name, count in (("a judgement", PAIRS), ("its first stage", FIRST_STAGE)):
        ratios, nulls = busy(dice, rounds, count), busy(dice, rounds, count)
        words = [
            verdict(median_interval(list(r)), median_interval(list(n)).reach)
            for r, n in zip(ratios, nulls, strict=True)
        ]
        say(f"equal kernels, {name}, called different", share(rounds, lambda i, w=words: w[i] != "no_difference_shown"),
            rounds, most=0.015)  # fmt: skip


def selection(dice: np.random.Generator, rounds: int) -> None:
    """The best of 100 equal candidates, and what holdout makes of it."""
    best, published, bare = [], 0, 0
    for _ in range(rounds):
        best.append(float(np.median(busy(dice, 100, PAIRS), axis=1).max()))
        medians = np.median(busy(dice, 2 * PROCESSES, HOLDOUT_PAIRS), axis=1)
        medians = medians + dice.normal(0, PROCESS_SPREAD, 2 * PROCESSES)
        values, nulls = list(medians[:PROCESSES]), list(medians[PROCESSES:])
        published += holm([p_value_above(values, threshold(mean_interval(nulls).reach))], 0.01)[0]
        bare += p_value_above(values, 0.0) < 0.01
    print(f"best of 100 equal candidates looks {100 * math.expm1(float(np.mean(best))):.1f} % faster")
    say("published after holdout", published / rounds, rounds, most=0.01)
    print(f"a bare t test of the same processes against 0 would publish {100 * bare / rounds:.2f} %")


def family(dice: np.random.Generator, rounds: int) -> None:
    """The t test at its bound, and Holm over claims of which half are at the bound and half are real."""
    at_bound = dice.normal(LEAST_GAIN, PROCESS_SPREAD, (rounds, PROCESSES))
    say("holdout's t test at the bound itself rejects", share(rounds, lambda i: p_value_above(list(at_bound[i]),
        LEAST_GAIN) < 0.01), rounds, most=0.01)  # fmt: skip
    claims = dice.normal(LEAST_GAIN, PROCESS_SPREAD, (rounds, 6, PROCESSES))
    claims[:, 3:] += 0.1
    any_false = 0
    for one in claims:
        rejected = holm([p_value_above(list(values), LEAST_GAIN) for values in one], 0.01)
        any_false += any(rejected[:3])
    say("Holm over six claims, three of them false: any false one published", any_false / rounds, rounds, most=0.01)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = np.random.default_rng(options.seed)
    coverage(dice, options.rounds)
    false_positives(dice, options.rounds)
    family(dice, options.rounds)
    selection(dice, max(options.rounds // 10, 20))
    return int(bool(_failed))


if __name__ == "__main__":
    sys.exit(main())
