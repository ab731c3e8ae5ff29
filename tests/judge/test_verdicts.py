"""What the judge says of its figures."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.verdicts import conclude, stage_result, summary
from kforge_mcp.records.result import VariantVerdict, VerdictWord


def joint(verdict: VerdictWord, speedup: float, noise: float) -> VariantVerdict:
    return VariantVerdict(
        variant_id="joint", verdict=verdict, speedup=speedup, ci_low=0.9, ci_high=3.0, noise_floor=noise, pairs=60
    )


@pytest.mark.parametrize(
    ("row", "advised"),
    [
        (joint("no_difference_shown", 2.6, math.log(1.6)), True),
        (joint("no_difference_shown", 1.005, math.log(1.6)), False),
        (joint("no_difference_shown", 2.6, math.log(1.005)), False),
        (joint("faster", 2.6, math.log(1.05)), False),
    ],
)
def test_a_gain_that_noise_hides_comes_with_advice(row: VariantVerdict, advised: bool) -> None:
    assert ("less busy" in summary(row, [row])) == advised


def test_the_noise_is_said() -> None:
    row = joint("faster", 2.6, math.log(1.05))
    assert "eager against itself stays within 5.0 %" in summary(row, [row])


@pytest.mark.parametrize(("own", "word"), [(1.0, "faster"), (0.25, "faster"), (0.0, "no_difference_shown")])
def test_a_candidate_without_kernels_of_its_own_wins_nothing(tmp_path: Path, own: float, word: str) -> None:
    card = cards.card(tmp_path, [cards.RELU])
    half = {"eager_s": [2e-5] * 60, "candidate_s": [1e-5] * 60, "own_share": own}
    samples = {"v1": {**half, "null_eager_s": [2e-5] * 60, "null_candidate_s": [2e-5] * 60}}
    verdicts = conclude(card, cards.project("python", tmp_path), samples)
    result = stage_result("cand_x", verdicts, {}, [])
    assert (result.verdict, result.own_kernel_share) == (word, own)
    assert result.message.startswith("a wrapper") == (own == 0.0)
