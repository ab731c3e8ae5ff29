"""Which candidate a card puts forward, and what is said where none qualifies."""

from __future__ import annotations

from typing import Any

import pytest

from kforge_mcp.export.selection import choose
from kforge_mcp.records.base import now
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.result import StageResult


def candidate(name: str, **changes: Any) -> Candidate:
    made = Candidate(
        candidate_id=name, card_id="card_norm", project_id="project_sample", target="cpu", source="", source_key=name,
        created_at=now(),
    )  # fmt: skip
    return made.model_copy(update=changes)


def benchmarked(name: str, word: Any, low: float) -> Candidate:
    result = StageResult(
        candidate_id=name, stage="benchmark", status="ok", passed=True, verdict=word, speedup=low + 0.1, ci_low=low,
        ci_high=low + 0.2,
    )  # fmt: skip
    return candidate(name, benchmarked=result)


def test_the_faster_candidate_with_the_best_lower_end_is_chosen(sample_cards) -> None:
    norm, pair = sample_cards
    tried = [
        benchmarked("slow", "slower", 0.5),
        benchmarked("good", "faster", 1.4),
        benchmarked("best", "faster", 1.6),
        benchmarked("lucky", "no_difference_shown", 1.9),
    ]
    choices, lacking = choose([norm, pair], {norm.card_id: tried}, "cpu")
    assert [(choice.card.card_id, choice.candidate.candidate_id) for choice in choices] == [("card_norm", "best")]
    assert lacking == []


FAILED = StageResult(candidate_id="x", stage="validate", status="failed", reason="wrong_result")


@pytest.mark.parametrize(
    ("tried", "words"),
    [
        (
            benchmarked("x", "no_difference_shown", 0.95),
            "no difference shown: 1.050 times eager's speed (0.950 to 1.150)",
        ),
        (candidate("x", validated=FAILED), "validate failed: wrong_result"),
        (candidate("x"), "has not been compiled"),
        (candidate("x", compiled=StageResult(candidate_id="x", stage="compile", status="ok")), "was not benchmarked"),
        (benchmarked("x", "faster", 1.5).model_copy(update={"target": "cuda"}), "is for cuda"),
    ],
)
def test_what_the_best_candidate_lacks_is_said(sample_cards, tried: Candidate, words: str) -> None:
    choices, lacking = choose(list(sample_cards), {"card_norm": [tried]}, "cpu")
    assert choices == []
    assert words in lacking[0].reason


def test_nothing_is_claimed_on_a_weak_oracle(sample_cards) -> None:
    weak = sample_cards[0].model_copy(update={"weak_oracle": "zeros pass"})
    choices, lacking = choose([weak], {"card_norm": [benchmarked("x", "faster", 1.5)]}, "cpu")
    assert choices == []
    assert "zeros pass" in lacking[0].reason
