"""Judges the adversaries: many are compiled as one shared object, and two processes judge at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.adversaries import cards
from kforge_mcp.judge.adversaries.cheat import Cheat, Honest
from kforge_mcp.judge.request import Subject, subjects
from kforge_mcp.judge.session import Evaluators

SCHEDULE = {"pairs": 6, "first_stage": 6, "warm_up": 1, "null": False}
_INCLUDE = re.compile(r"^\s*#\s*include.*$", re.MULTILINE)
_DEFINE = re.compile(r"^#(?:ifndef|define|endif).*$\n?", re.MULTILINE)
_AT_A_TIME = 2
T = TypeVar("T", bound=Evaluators)
_PATIENCE_S = 10.0
_LITTLE_PATIENCE_S = 3.0
"""For candidates that are expected to hang."""


@contextmanager
def unlocked(evaluators: T) -> Iterator[T]:
    """Evaluators that do not wait for the machine: two work at a time, since no time is looked at."""
    try:
        yield evaluators
    finally:
        evaluators.__exit__(None, None, None)


class Bench:
    """Answers of the judge's own processes. Every candidate has a referee and a sandbox of its own."""

    def __init__(self, ctx: JobContext, python: str, folder: Path) -> None:
        self._ctx = ctx
        self._project = cards.project(python, folder)
        self._folder = folder

    def judge(self, entries: Sequence[Cheat | Honest]) -> dict[str, dict[str, Any]]:
        """The judge's answer of each, by name."""
        built = self.build(entries)
        shares = [entries[start::_AT_A_TIME] for start in range(_AT_A_TIME)]
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            answers = pool.map(lambda share: self._share(share, built), shares)
        return {name: answer for share in answers for name, answer in share.items()}

    def _share(self, entries: Sequence[Cheat | Honest], built: Mapping[str, Subject]) -> dict[str, dict[str, Any]]:
        answers: dict[str, dict[str, Any]] = {}
        for hangs in (False, True):
            patience = _LITTLE_PATIENCE_S if hangs else _PATIENCE_S
            with unlocked(Evaluators(self._ctx, self._project, call_timeout_s=patience)) as evaluators:
                for entry in entries:
                    if hangs == (isinstance(entry, Cheat) and "timed_out" in entry.reasons):
                        answers[entry.name] = self._answer(evaluators, entry, built[entry.name])
        return answers

    def _answer(self, evaluators: Evaluators, entry: Cheat | Honest, subject: Subject) -> dict[str, Any]:
        known = frozenset() if isinstance(entry, Cheat) and entry.hard else {v.variant_id for v in subject.variants}
        answer = evaluators.evaluate(
            subject, mode="judge", schedule=SCHEDULE if entry.timed else None, admitted=frozenset(known)
        )
        assert not isinstance(answer, Rejected), answer
        return answer

    def build(self, entries: Sequence[Cheat | Honest]) -> dict[str, Subject]:
        """Compiled and bound to their variants, by name."""
        built: dict[str, Subject] = {}
        together: dict[tuple[str, ...], list[tuple[str, Plan, Any]]] = {}
        for entry in entries:
            makes = [entry.make, *entry.also]
            card = cards.card(self._folder, makes)
            plan = parse_plan(entry.source, card, "cpu")
            assert isinstance(plan, Plan), f"{entry.name}: {plan.message}"
            if entry.alone or plan.workspace or plan.tunables or plan.where:
                built[entry.name] = self._compile(plan, card)
            else:
                together.setdefault((repr(makes), str(plan.inplace)), []).append((entry.name, plan, card))
        for group in together.values():
            built |= self._compile_together(group)
        return built

    def _compile(self, plan: Plan, card: Any) -> Subject:
        compiled = compile_candidate(self._ctx, plan, card, configurations(plan))
        assert isinstance(compiled, Compiled), compiled.message
        (subject,) = subjects(card, plan, compiled)
        return subject

    def _compile_together(self, group: list[tuple[str, Plan, Any]]) -> dict[str, Subject]:
        """Candidates of one card, each in a namespace of its own and with another name for what it exports."""
        includes: dict[str, None] = {}
        bodies: list[str] = []
        for number, (_, plan, _) in enumerate(group):
            code = "\n".join(plan.source.split("\n")[plan.metadata_lines[1] :])
            includes |= dict.fromkeys(line.strip() for line in _INCLUDE.findall(code))
            code = _DEFINE.sub("", _INCLUDE.sub("", code))
            code = re.sub(
                r'extern "C" void kernel\(',
                f'extern "C" __attribute__((visibility("default"))) void {_export(number)}(',
                code,
            )
            bodies.append(f"namespace candidate{number} {{\n{code}\n}}\n")
        _, first, card = group[0]
        head = "\n".join(first.source.split("\n")[: first.metadata_lines[1]])
        source = "\n".join([head, *includes, *bodies])
        together = self._compile(replace(first, source=source, entry=_export(0)), card)
        return {
            name: replace(
                together,
                plan=plan,
                libraries=[one.model_copy(update={"entry": _export(number)}) for one in together.libraries],
            )
            for number, (name, plan, _) in enumerate(group)
        }


def _export(number: int) -> str:
    return f"kernel_{number}"
