"""Search policies on synthetic kernel landscapes with known optima: regret by iteration, allocation across cards.

    python benchmarks/bench_search.py [--seeds 200] [--half held-out|tuning] [--policy NAME ...] [--part climb|allocate]

Regret is the share of the optimum's log speed-up that is missing from what measures best.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks.search_lab import policies  # noqa: E402
from benchmarks.search_lab.landscapes import KINDS, Landscape, landscapes, workloads  # noqa: E402
from benchmarks.search_lab.workloads import Allocation, by_remaining_gain, by_share, equally, spend  # noqa: E402

ITERATIONS = 100
GOOD = 0.95
WITHIN = 50
SHOWN = (10, 25, 50, 100)

POLICIES: dict[str, policies.Policy] = {
    "default": policies.product("uct"),
    "paper": policies.product("paper"),
    "UCT, C = 1": policies.plain_uct(1.0),
    "greedy": policies.greedy,
    "beam of 4": policies.beam(4),
    "random": policies.uniform,
    "MAP-Elites": policies.map_elites,
}

ALLOCATED = 400
ALLOCATED_SHOWN = (8, 16, 25, 50, 100, 200)
ALLOCATIONS: dict[str, tuple[Allocation, str]] = {
    "equal budgets": (equally, "default"),
    "equal, paper's policy": (equally, "paper"),
    "by share of the time": (by_share, "default"),
    "default": (by_remaining_gain, "default"),
}
"""How iterations are divided, and the policy within each card."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--half", choices=("held-out", "tuning"), default="held-out")
    parser.add_argument("--policy", nargs="*", choices=tuple(POLICIES), default=tuple(POLICIES))
    parser.add_argument("--part", choices=("climb", "allocate"), nargs="*", default=("climb", "allocate"))
    options = parser.parse_args()
    if "climb" in options.part:
        compare_policies(options)
    if "allocate" in options.part:
        compare_allocations(options.half == "held-out", options.seeds)
    return 0


def compare_policies(options: argparse.Namespace) -> None:
    """All policies on one half of the landscapes."""
    half = landscapes(options.half == "held-out")
    print(f"{len(half)} landscapes ({options.half}), {options.seeds} seeds each, {ITERATIONS} iterations")
    report(half, {name: POLICIES[name] for name in options.policy}, options.seeds)
    same = all(
        policies.climb(one, POLICIES["default"], WITHIN, seed)
        == policies.climb(one.scaled(1000), POLICIES["default"], WITHIN, seed)
        for one in half
        for seed in range(3)
    )
    print(f"identical with all times multiplied by 1000: {'yes' if same else 'NO'}")


def compare_allocations(held_out: bool, seeds: int) -> None:
    """Shares of the workloads' time that are saved, by how iterations are divided among the cards."""
    half = workloads(held_out)
    most = np.mean([1 - sum(one.eager_us * math.exp(-one.optimum) for one in w.cards) / w.eager_us for w in half])
    print(f"\nallocation: {len(half)} workloads of 8 cards, {seeds} seeds each; all optima together save {most:.3f}")
    saved: dict[str, np.ndarray] = {}
    for name, (allocation, policy) in ALLOCATIONS.items():
        curves = [[spend(one, allocation, POLICIES[policy], ALLOCATED, seed) for seed in range(seeds)] for one in half]
        saved[name] = np.array(curves)
    equal = saved["equal budgets"].mean((0, 1))
    for name, curves in saved.items():
        mean = curves.mean((0, 1))
        shown = ", ".join(
            f"{mean[at - 1]:.3f} ({mean[at - 1] / equal[at - 1]:.2f}x, {_as_long(equal, mean[at - 1], at)})"
            for at in ALLOCATED_SHOWN
        )
        print(f"  {name:24s} {shown}")
    print(
        f"  saved after {ALLOCATED_SHOWN} iterations (times what equal budgets save; iterations that those need for it)"
    )


def _as_long(equal: np.ndarray, level: float, at: int) -> str:
    """How many times as many iterations equal budgets need to save as much."""
    reached = np.flatnonzero(equal >= level)
    return f"{(reached[0] + 1) / at:.1f}x" if reached.size else f"over {len(equal) / at:.1f}x"


def report(half: Sequence[Landscape], tried: dict[str, policies.Policy], seeds: int) -> None:
    """A table for each kind of landscape: runs within 95 % of the optimum, regret by iteration."""
    regrets = {name: _regrets(half, name, policy, seeds) for name, policy in tried.items()}
    for kind in (*KINDS, "all"):
        rows = [place for place, one in enumerate(half) if kind in (one.kind, "all")]
        print(
            f"\n{kind}: policy, runs with 95 % of the optimum in {WITHIN} iterations [95 % interval], regret at {SHOWN}"
        )
        for name in tried:
            part = regrets[name][rows]
            reached = part[:, :, WITHIN - 1] <= 1 - GOOD + 1e-12
            low, high = interval(int(reached.sum()), reached.size)
            shown = ", ".join(f"{part[:, :, at - 1].mean():.3f}" for at in SHOWN)
            print(f"  {name:24s} {reached.mean():6.1%} [{low:.1%}, {high:.1%}]   {shown}")


def _regrets(half: Sequence[Landscape], name: str, policy: policies.Policy, seeds: int) -> np.ndarray:
    """Regret by landscape, seed and iteration."""
    curves = [[policies.climb(one, policy, ITERATIONS, seed) for seed in range(seeds)] for one in half]
    optima = np.array([one.optimum for one in half])[:, None, None]
    return 1 - np.array(curves) / optima


def interval(hits: int, runs: int, z: float = 1.96) -> tuple[float, float]:
    """Wilson's interval of a proportion."""
    share = hits / runs
    centre = (share + z * z / (2 * runs)) / (1 + z * z / runs)
    half = z * math.sqrt(share * (1 - share) / runs + z * z / (4 * runs * runs)) / (1 + z * z / runs)
    return centre - half, centre + half


if __name__ == "__main__":
    sys.exit(main())
