"""Which timed calls the full oracle looks at."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import torch

from kforge_mcp.runtime.chosen import MOST, Chosen


def test_every_call_is_held_with_the_same_probability() -> None:
    held: Counter[int] = Counter()
    dice = random.Random(1)
    rounds, calls = 3000, 10
    for _ in range(rounds):
        chosen = Chosen(SimpleNamespace(), dice)  # pyright: ignore[reportArgumentType]
        for number in range(calls):
            chosen.offer(lambda number=number: (torch.tensor([number]), [], None))  # pyright: ignore
        numbers = [int(image) for image, *_ in chosen._kept]
        assert len(set(numbers)) == MOST
        held.update(numbers)
    expected = rounds * MOST / calls
    assert all(abs(held[number] - expected) < 0.15 * expected for number in range(calls))


def test_what_is_held_is_a_copy_and_what_is_not_is_never_asked_for() -> None:
    asked: list[int] = []
    output = torch.zeros(2)

    def call() -> Any:
        asked.append(1)
        return torch.zeros(1), [output], None

    chosen = Chosen(SimpleNamespace(), random.Random(1), most=1)  # pyright: ignore[reportArgumentType]
    for _ in range(50):
        chosen.offer(call)
    output.fill_(7.0)
    assert len(asked) < 20
    assert torch.equal(chosen._kept[0][1][0], torch.zeros(2))
