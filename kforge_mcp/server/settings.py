"""How a server was started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kforge_mcp.errors import UsageError

TOOLSETS = ("capture", "search", "stages", "export", "jobs")
MAX_WAIT_S = 50.0
DEFAULT_WAIT_S = 3.0


@dataclass(frozen=True)
class Settings:
    """Where the server works and what it offers. `workspace` None is the user's default workspace."""

    workspace: Path | None = None
    project_dir: Path = field(default_factory=Path.cwd)
    wait_s: float = DEFAULT_WAIT_S
    """Seconds that a long tool waits for its result when the call does not say (`wait_s=-1`)."""
    read_only: bool = False
    toolsets: frozenset[str] = frozenset(TOOLSETS)


def from_options(
    environment: Mapping[str, str] = os.environ,
    *,
    workspace: str = "",
    project_dir: str = "",
    wait: float | None = None,
    read_only: bool = False,
    toolsets: str = "",
) -> Settings:
    """Settings from command line options, `KFORGE_*` variables and defaults, in that order.

    Raises `UsageError` for a wait out of range, an unknown toolset or a project folder that does not exist.
    """
    root = workspace or environment.get("KFORGE_WORKSPACE", "")
    folder = project_dir or environment.get("KFORGE_PROJECT_DIR") or environment.get("CLAUDE_PROJECT_DIR") or "."
    resolved = Path(folder).expanduser().resolve()
    if not resolved.is_dir():
        raise UsageError(f"the project folder {resolved} does not exist. Pass --project-dir with a folder that does.")
    return Settings(
        workspace=Path(root).expanduser().resolve() if root else None,
        project_dir=resolved,
        wait_s=_wait(wait if wait is not None else environment.get("KFORGE_WAIT", DEFAULT_WAIT_S)),
        read_only=read_only or environment.get("KFORGE_READ_ONLY", "") in ("1", "true", "yes"),
        toolsets=_toolsets(toolsets or environment.get("KFORGE_TOOLSETS", "")),
    )


def _wait(value: float | str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_WAIT_S:
        raise UsageError(f"--wait (or KFORGE_WAIT) is a number of seconds from 0 to {MAX_WAIT_S:g}, not {value!r}.")
    return seconds


def _toolsets(text: str) -> frozenset[str]:
    names = {name.strip() for name in text.split(",") if name.strip()}
    unknown = sorted(names - set(TOOLSETS))
    if unknown:
        raise UsageError(f"unknown toolset {', '.join(unknown)}. There are: {', '.join(TOOLSETS)}.")
    return frozenset(names or TOOLSETS)
