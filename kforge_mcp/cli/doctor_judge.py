"""`kforge-mcp doctor --judge`: whether the judge can be fooled on this machine."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kforge_mcp.judge.adversaries.cheat import Cheat, Honest


@dataclass(frozen=True)
class Wrong:
    """An adversary that was judged otherwise than it should be. `expected` are reasons, `found` is one, or nothing."""

    name: str
    expected: str
    found: str
    message: str = ""
    row: int = 0


@dataclass
class Outcome:
    """What became of the adversaries."""

    cheats: int = 0
    honest: int = 0
    caught: int = 0
    missed: list[Wrong] = field(default_factory=list)
    other_reason: list[Wrong] = field(default_factory=list)
    """Rejected, but not for what is wrong with them."""
    falsely_rejected: list[Wrong] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What the judge could not apply here."""

    @property
    def is_sound(self) -> bool:
        """Whether nothing got through and nothing honest was turned away."""
        return not self.missed and not self.falsely_rejected


def compare(entries: Sequence[Cheat | Honest], answers: Mapping[str, Mapping[str, Any]]) -> Outcome:
    """Hold the judge's answers, by name, against what each adversary is."""
    outcome = Outcome()
    notes: dict[str, None] = {}
    for entry in entries:
        answer = answers[entry.name]
        finding = answer["finding"]
        found, message = (finding["reason"], finding["message"]) if finding else ("", "")
        notes |= dict.fromkeys(note for note in answer["notes"] if note.startswith("sandbox: "))
        if isinstance(entry, Honest):
            outcome.honest += 1
            if finding:
                outcome.falsely_rejected.append(Wrong(entry.name, "", found, message))
            continue
        outcome.cheats += 1
        wrong = Wrong(entry.name, " or ".join(entry.reasons), found, message, entry.row)
        if not finding:
            outcome.missed.append(wrong)
        else:
            outcome.caught += 1
            if found not in entry.reasons:
                outcome.other_reason.append(wrong)
    outcome.notes = list(notes)
    return outcome


def run_suite(python: str, entries: Sequence[Cheat | Honest]) -> Outcome:
    """Judge the adversaries with the model interpreter that a capture would find, in a workspace of their own.

    Raises `KForgeError` where there is no model interpreter or no compiler.
    """
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.engine.interpreter import find_interpreter
    from kforge_mcp.judge.adversaries.bench import Bench
    from kforge_mcp.store.workspace import Workspace

    found = find_interpreter(python, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="kforge-doctor-") as folder:
        workspace = Workspace.open(Path(folder) / "workspace")
        try:
            with JobContext.standalone(workspace, tool="doctor") as ctx:
                return compare(entries, Bench(ctx, found.executable, Path(folder)).judge(entries))
        finally:
            workspace.close()


def judge_report(python: str, *, as_json: bool) -> int:
    """Run the whole suite and print the outcome; 1 if something got through or was turned away wrongly."""
    from kforge_mcp.judge.adversaries.table import CHEATS, HONEST

    print(f"judging {len(CHEATS)} cheats and {len(HONEST)} honest kernels; this takes minutes", file=sys.stderr)
    outcome = run_suite(python, [*CHEATS, *HONEST])
    if as_json:
        print(json.dumps({**asdict(outcome), "sound": outcome.is_sound}, indent=2))
    else:
        print(text(outcome))
    return int(not outcome.is_sound)


def text(outcome: Outcome) -> str:
    """The outcome for people."""
    lines = [
        f"caught            {outcome.caught} of {outcome.cheats} cheating or faulty candidates",
        f"missed            {len(outcome.missed)}",
        f"falsely rejected  {len(outcome.falsely_rejected)} of {outcome.honest} honest candidates",
    ]
    lines += [f"MISSED  row {one.row}: {one.name} (expected {one.expected})" for one in outcome.missed]
    lines += [f"FALSELY REJECTED  {one.name}: {one.found}, {one.message[:200]}" for one in outcome.falsely_rejected]
    lines += [
        f"caught for another reason  row {one.row}: {one.name}: {one.found}, expected {one.expected}"
        for one in outcome.other_reason
    ]
    return "\n".join([*lines, *outcome.notes])
