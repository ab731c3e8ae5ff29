"""What an adversary of the CPU judge is, and what an honest candidate."""

from __future__ import annotations

from dataclasses import dataclass

from kforge_mcp.judge.adversaries.cards import Make


@dataclass(frozen=True)
class Cheat:
    """`reasons`: any of these is right, and `says` stands in the message. `timed`: only timed calls can catch it, so
    a few pairs are measured too. `also` are further variants of the card. `alone`: not to be compiled together with
    others, for what happens when its shared object is loaded. `hard`: only inputs that the judge makes harder by itself
    catch it."""

    row: int
    name: str
    make: Make
    source: str
    reasons: tuple[str, ...]
    timed: bool = False
    says: str = ""
    also: tuple[Make, ...] = ()
    alone: bool = False
    hard: bool = False


@dataclass(frozen=True)
class Honest:
    """Passes every trial and every timed call."""

    name: str
    make: Make
    source: str
    also: tuple[Make, ...] = ()
    timed: bool = True
    alone: bool = False
