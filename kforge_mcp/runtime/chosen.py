"""Timed calls that the full oracle looks at in the end: a uniform choice, made after each has run."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import torch

from .checks import Finding, check
from .inputs import Blocks
from .subject import Subject

MOST = 3

Call = tuple[torch.Tensor, list[torch.Tensor], Blocks]
"""The image of a call's inputs, its outputs, and the styles of its rows."""


def wrong(subject: Subject, image: torch.Tensor, outputs: list[torch.Tensor], blocks: Blocks) -> Finding | None:
    """What the oracle finds wrong with a timed call. Where an operator is ill-conditioned, as a softmax of two large
    scores that nearly agree, an honest error may be as large as what one rounding of the inputs changes."""
    known = subject.expect(image, blocks, learn=False)
    finding = check(outputs, known, blocks)
    nearby = subject.nearby(image, known) if finding else None
    return check(outputs, nearby, blocks) if nearby else finding


class Chosen:
    """Holds up to `most` calls, each of those offered with the same probability (reservoir sampling)."""

    def __init__(self, subject: Subject, dice: Random, most: int = MOST) -> None:
        self._subject = subject
        self._dice = dice
        self._most = most
        self._kept: list[Call] = []
        self._offered = 0

    def offer(self, call: Callable[[], Call]) -> None:
        """Keep a call or not; what it has is copied only if it is kept."""
        self._offered += 1
        place = len(self._kept) if len(self._kept) < self._most else self._dice.randrange(self._offered)
        if place < self._most:
            image, outputs, blocks = call()
            self._kept[place : place + 1] = [(image.clone(), [tensor.clone() for tensor in outputs], blocks)]

    def check(self) -> Finding | None:
        """What the oracle finds wrong with the calls that are held."""
        for image, outputs, blocks in self._kept:
            finding = wrong(self._subject, image, outputs, blocks)
            if finding:
                return finding.during(f"{self._subject.label()}, timed call held against the oracle")
        return None
