"""`doctor --judge` says what was caught, missed and wrongly rejected."""

from __future__ import annotations

import json

import pytest

from kforge_mcp.cli import doctor_judge
from kforge_mcp.cli.doctor_judge import compare, run_suite, text
from kforge_mcp.cli.main import main
from kforge_mcp.judge.adversaries.table import CHEATS, HONEST

ZEROS = next(cheat for cheat in CHEATS if cheat.row == 1 and not cheat.timed)
RIGHT = next(one for one in HONEST if not one.alone)


def answer(reason: str = "", message: str = "") -> dict[str, object]:
    finding = {"reason": reason, "message": message} if reason else None
    return {"finding": finding, "notes": ["sandbox: no user namespaces"]}


def test_every_outcome_has_its_place() -> None:
    entries = [ZEROS, RIGHT]
    sound = compare(entries, {ZEROS.name: answer(ZEROS.reasons[0]), RIGHT.name: answer()})
    assert (sound.caught, sound.cheats, sound.honest, sound.is_sound) == (1, 1, 1, True)
    assert sound.notes == ["sandbox: no user namespaces"]
    odd = compare(entries, {ZEROS.name: answer("crashed"), RIGHT.name: answer()})
    assert odd.is_sound and [one.name for one in odd.other_reason] == [ZEROS.name]
    fooled = compare(entries, {ZEROS.name: answer(), RIGHT.name: answer("wrong_result", "off by one")})
    assert not fooled.is_sound
    said = text(fooled)
    assert "missed            1" in said and "falsely rejected  1 of 1" in said
    assert f"MISSED  row 1: {ZEROS.name}" in said and "off by one" in said


def test_the_suite_runs_outside_the_repository(model_python: str) -> None:
    outcome = run_suite(model_python, [ZEROS, RIGHT])
    assert (outcome.caught, outcome.missed, outcome.falsely_rejected) == (1, [], [])


def test_the_command_answers_in_json_and_fails_where_the_judge_was_fooled(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fooled = compare([ZEROS], {ZEROS.name: answer()})
    monkeypatch.setattr(doctor_judge, "run_suite", lambda python, entries: fooled)
    assert main(["doctor", "--judge", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["sound"], said["caught"], said["missed"][0]["name"]) == (False, 0, ZEROS.name)
