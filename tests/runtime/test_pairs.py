"""Where the sides of a timed pair run."""

from __future__ import annotations

import os
import random
import signal
from typing import Any

import pytest
import torch

from kforge_mcp.runtime.inputs import BlockAxis, Blocks
from kforge_mcp.runtime.oracle import Expected
from kforge_mcp.runtime.pairs import Timing
from kforge_mcp.runtime.sides import Side
from kforge_mcp.runtime.subject import Subject, _moved


class Place:
    """Stands for a side: notes where it was put."""

    def __init__(self, allowed: bool = True) -> None:
        self.places: list[int] = []
        self._allowed = allowed

    def pin(self, processor: int, processors: set[int]) -> bool:
        self.places.append(processor)
        return self._allowed


def timing(twin: Any, processors: set[int]) -> Any:
    made = object.__new__(Timing)
    made._twin, made._processors = twin, processors
    subject = Subject.__new__(Subject)
    subject.notes = []
    made._dice, made._subject = random.Random(1), subject
    return made


def test_both_sides_of_a_pair_share_a_processor_and_pairs_change_it() -> None:
    twin, other = Place(), Place()
    subject = timing(twin, {0, 1, 2})
    for _ in range(40):
        subject._put_on_one_processor(other)
    assert twin.places == other.places
    assert set(twin.places) == {0, 1, 2}
    assert subject._subject.notes == []


def test_what_the_system_refuses_is_noted_once() -> None:
    subject = timing(Place(), {0, 1})
    for _ in range(3):
        subject._put_on_one_processor(Place(allowed=False))
    assert len(subject._subject.notes) == 1


def test_a_process_is_put_on_one_processor() -> None:
    processors = os.sched_getaffinity(0)
    if len(processors) < 2:
        pytest.skip("one processor only")
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        side = object.__new__(Side)
        side.pid = pid
        assert side.pin(min(processors), processors)
        assert os.sched_getaffinity(pid) == {min(processors)}
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    assert not side.pin(min(processors), processors)


EXACT = torch.linspace(1.0, 2.0, 100, dtype=torch.float64)


@pytest.mark.parametrize(
    ("eager_error", "nearby_error", "confirmed"), [(0.0, 0.0, True), (0.5, 0.0, False), (0.0, 0.5, False)]
)
def test_the_oracle_decides_on_a_timed_call_far_from_eager(
    eager_error: float, nearby_error: float, confirmed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = timing(Place(), {0})
    learnt: list[bool] = []

    def result(error: float) -> Expected:
        narrow = EXACT.float()
        narrow[7] += error
        return Expected([narrow], [EXACT], 0)

    def expect(self: Any, image: torch.Tensor, blocks: Blocks, *, learn: bool = True) -> Expected:
        learnt.append(learn)
        return result(eager_error)

    monkeypatch.setattr(Subject, "expect", expect)
    monkeypatch.setattr(Subject, "nearby", lambda self, image, known: result(nearby_error))
    output = EXACT.float()
    output[7] += 0.4
    blocks = Blocks(BlockAxis(), ("scale 1",), (0,))
    assert subject._confirmed([output], [[output]], [blocks]) is confirmed
    assert learnt == [False]
    assert len(subject._subject.notes) == (0 if confirmed else 1)


def test_inputs_are_moved_by_one_rounding() -> None:
    generator = torch.Generator().manual_seed(1)
    values = torch.tensor([1.5, 0.0, float("inf"), float("nan"), -3.0]).repeat(50)
    moved = _moved(values, generator)
    finite = values.isfinite()
    assert torch.equal(moved.isfinite(), finite)
    step = torch.nextafter(values[finite], values[finite] * 2) - values[finite]
    assert bool(((moved - values)[finite].abs() <= 2 * step.abs()).all())
    assert not torch.equal(moved[finite], values[finite])
    half = values.half()
    assert _moved(half, generator) is half
