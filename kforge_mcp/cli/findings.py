"""What `kforge-mcp doctor` reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at. `remedy` says what to do where it is not in order."""

    name: str
    level: Level
    detail: str
    remedy: str = ""
