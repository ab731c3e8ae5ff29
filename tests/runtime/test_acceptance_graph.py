"""The plan of an acceptance under CUDA graphs, with the graphs themselves replaced: there is no GPU here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from kforge_mcp.runtime import acceptance_graph
from kforge_mcp.runtime.acceptance_outputs import Yardstick

US = {"without": 100.0, "with": 80.0, "off:norm": 90.0}


class Stage:
    """Which arrangement is on, and a graph that remembers under which it was captured."""

    def __init__(self, refused: str = "") -> None:
        self.now = "none"
        self.refused = refused
        self.repeats: set[int] = set()

    @contextmanager
    def arranged(self, name: str) -> Iterator[None]:
        self.now = name
        yield
        self.now = "none"

    def recorded(self, workload: Any) -> Any:
        stage, name = self, self.now
        if name == self.refused:
            raise RuntimeError("a value was read while the graph was captured")

        class Graph:
            def results(self) -> list[torch.Tensor]:
                return [torch.ones(3)]

            def timed(self, repeats: int) -> float:
                assert stage.now == "none"
                stage.repeats.add(repeats)
                return US[name]

        return Graph()


def measured(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(acceptance_graph, "Recorded", stage.recorded)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    measure = Yardstick([torch.ones(3)], lambda: [torch.ones(3)], lambda relative: [torch.ones(3)])
    return acceptance_graph.measure(None, ["norm"], stage.arranged, measure, rounds=5, seed=1)  # type: ignore[arg-type]


def test_every_arrangement_is_captured_once_and_replayed_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    answer = measured(stage, monkeypatch)
    assert answer["captured"] and answer["outputs"]["bitwise"]
    assert answer["rounds"] == [{**US, "without_again": 100.0, "with_again": 80.0}] * 5
    assert len({tuple(times) for times in answer["rounds"]}) > 1, "the order is random"
    assert stage.repeats == {1, 6}, "short replays are repeated until they last long enough"


@pytest.mark.parametrize("refused", ["without", "with", "off:norm"])
def test_a_workload_that_cannot_be_captured_is_no_error(monkeypatch: pytest.MonkeyPatch, refused: str) -> None:
    answer = measured(Stage(refused), monkeypatch)
    assert not answer["captured"] and answer["rounds"] == []
    assert answer["reason"] == "RuntimeError: a value was read while the graph was captured"
