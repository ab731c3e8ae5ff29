"""Hundreds of malformed files, hand-made and generated: each is refused for its reason at its place."""

from __future__ import annotations

import pytest

from kforge_mcp.candidate.plan import Plan, Rejected, parse_plan
from kforge_mcp.records.project import Target
from tests.candidate.cards import candidate_text, make_card, rms_norm
from tests.candidate.malformed import Malformed, base, fuzzed
from tests.candidate.malformed_by_hand import BY_HAND

CARD = make_card(rms_norm(2, 8, 64), rms_norm(4, 64, variant_id="v1"))
FUZZED = fuzzed()


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_files_are_valid_before_they_are_damaged(target: Target) -> None:
    plan = parse_plan(candidate_text(*base(target)), CARD, target)
    assert isinstance(plan, Plan), plan.message


@pytest.mark.parametrize("case", FUZZED, ids=lambda case: case.label)
def test_a_damaged_file_is_refused_at_the_place_of_the_damage(case: Malformed) -> None:
    check(case)


@pytest.mark.parametrize("case", BY_HAND, ids=lambda case: case.label)
def test_a_file_as_people_get_it_wrong_is_refused_where_they_did(case: Malformed) -> None:
    check(case)


def test_the_corpus_is_large_and_of_both_targets() -> None:
    files = {case.source for case in (*FUZZED, *BY_HAND)}
    assert len(files) >= 300
    for target in ("cpu", "cuda"):
        assert len({case.source for case in (*FUZZED, *BY_HAND) if case.target == target}) >= 120


def check(case: Malformed) -> None:
    rejected = parse_plan(case.source, CARD, case.target)
    assert isinstance(rejected, Rejected), case.source
    first = rejected.diagnostics[0]
    assert (rejected.reason, first.line) == (case.reason, case.line), rejected.message
    assert case.part in f"{first.message} {first.hint}", rejected.message
    assert case.column in (0, first.column), rejected.message
    assert len(rejected.message) <= 1500
    assert first.source_line == case.source.split("\n")[case.line - 1][:200]
