"""What an adversary of the CUDA judge is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kforge_mcp.judge.adversaries.cards import Make


@dataclass(frozen=True)
class CudaCheat:
    """`reasons`: any of these is right. `timed`: only timed calls can catch it. `also` are further variants of the
    card, that the candidate claims with the first."""

    row: int
    name: str
    make: Make
    source: str
    reasons: tuple[str, ...]
    timed: bool = False
    also: tuple[Make, ...] = ()


class CudaHonest(NamedTuple):
    """Passes on a GPU: no finding."""

    name: str
    make: Make
    source: str
    also: tuple[Make, ...] = ()


class Refused(NamedTuple):
    """Does not compile, or is not a candidate: `says` stands in the message."""

    row: int
    name: str
    make: Make
    source: str
    says: str
