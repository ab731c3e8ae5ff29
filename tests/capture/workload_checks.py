"""Capture a workload and hold the result to what must be true of every capture."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kforge_mcp.capture.job import capture
from kforge_mcp.capture.listing import sort_cards
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.store import cards as card_store
from kforge_mcp.store import projects as project_store
from kforge_mcp.store.workspace import Workspace
from tests.capture.workloads.catalogue import HERE, Listed

REPOSITORY = Path(__file__).resolve().parents[2]
_ROUNDING = 1e-6


class _Patient(JobContext):
    """Knows how long it waited for the device, which is other jobs' time."""

    waited_s = 0.0

    @contextmanager
    def device_lock(self, key: str = "cpu") -> Iterator[None]:
        start = time.monotonic()
        with super().device_lock(key):
            self.waited_s += time.monotonic() - start
            yield


@dataclass(frozen=True)
class Captured:
    """One capture: what the tool answers, what is stored, and how long it took."""

    result: dict[str, Any]
    project: Project
    cards: list[OperatorCard]
    seconds: float

    def named(self, name: str) -> OperatorCard:
        """The card with this name."""
        return next(card for card in self.cards if card.name == name)

    @property
    def runs_differ(self) -> list[str]:
        """The notes that say that the workload did not do the same in every run."""
        return [note for note in self.result["notes"] if "differ" in note or "other calls" in note]

    @property
    def by_gain(self) -> list[OperatorCard]:
        """The cards as a person sees them listed, best first."""
        return sort_cards(self.cards)


def capture_workload(workspace: Workspace, workload: Listed, python: str, *, entry: str = "") -> Captured:
    """Capture through the job that `capture_model` runs; `entry` replaces the workload's own."""
    start = time.monotonic()
    with _Patient.standalone(workspace, "capture_model") as ctx:
        result = capture(
            ctx,
            entry=entry or workload.entry,
            name="",
            target="auto",
            python=python,
            project_dir=str(HERE),
            timeout_s=600.0,
        )
    seconds = time.monotonic() - start - ctx.waited_s
    with workspace.reading() as session:
        project = project_store.get(session, result["project_id"])
        cards = list(card_store.of_project(session, result["project_id"]))
    return Captured(result, project, cards, seconds)


def inconsistent_times(cards: list[OperatorCard]) -> list[str]:
    """What is wrong with shares, counts and ceilings; empty if nothing is."""
    wrong = []
    for card in cards:
        if not 0 <= card.own_share <= card.share + _ROUNDING <= 1 + 2 * _ROUNDING:
            wrong.append(f"{card.name} has a share of {card.share}, its own {card.own_share}")
        if not 1 <= card.gain_ceiling <= 1 / max(1e-3, 1 - card.share) + _ROUNDING:
            wrong.append(f"{card.name} with a share of {card.share} has a ceiling of {card.gain_ceiling}")
        if not 0 <= (card.headroom or 0.0) <= 1 - 1 / card.gain_ceiling + _ROUNDING:
            wrong.append(f"{card.name} has a headroom of {card.headroom} below a ceiling of {card.gain_ceiling}")
        if sum(variant.calls for variant in card.variants) > card.calls:
            wrong.append(f"{card.name} has more calls in its variants than in all")
    for level in ("torch", "function", "module"):
        total = sum(card.own_share for card in cards if card.level == level)
        if total > 1 + _ROUNDING:
            wrong.append(f"the shares of level {level} add up to {total}")
    return wrong


def replay_elsewhere(
    workspace: Workspace, workload: Listed, cards: list[OperatorCard] | None, python: str, folder: Path
) -> dict[str, Any]:
    """Run `workload_replay.py` in the model interpreter, a fresh process; without cards only the plain workload."""
    request, answer = folder / "request.json", folder / "answer.json"
    (folder / "scratch").mkdir(exist_ok=True)
    request.write_text(
        json.dumps(
            {
                "entry": workload.entry,
                "project_dir": str(HERE),
                "cards": None if cards is None else [card.model_dump(mode="json") for card in cards],
                "blob_root": str(workspace.blobs.root),
                "scratch": str(folder / "scratch"),
            }
        )
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "OMP_WAIT_POLICY": "passive"}
    script = Path(__file__).with_name("workload_replay.py")
    command = [python, str(script), str(request), str(answer)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if run.returncode:
        raise RuntimeError(f"{workload.name}: exit status {run.returncode}\n{run.stderr[-3000:]}")
    return json.loads(answer.read_text())
