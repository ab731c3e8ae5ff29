"""The outcome of reading a candidate that cannot be used, with the places in its author's file."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass

from kforge_mcp.records.result import Diagnostic, Reason

MESSAGE_LIMIT = 1500
"""Characters of a message in a result; everything longer is in the log."""


@dataclass(frozen=True)
class Rejected:
    """A candidate that was refused before any compiler saw it. `message` has at most 1,500 characters."""

    reason: Reason
    diagnostics: tuple[Diagnostic, ...]
    message: str


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name closest to `name`, or an empty string when none is close."""
    choices = sorted(set(known))
    folded = {choice.lower(): choice for choice in choices}
    close = difflib.get_close_matches(name.lower(), list(folded), n=1, cutoff=0.6)
    return folded[close[0]] if close else ""


def suggestion(name: str, known: Iterable[str]) -> str:
    """A hint naming the closest known name, or all of them when none is close and they are few."""
    choices = sorted(set(known))
    close = nearest(name, choices)
    if close:
        return f"did you mean `{close}`?"
    return "known here: " + ", ".join(choices[:20]) + (", ..." if len(choices) > 20 else "") if choices else ""


def located(reason: Reason, diagnostics: Iterable[Diagnostic]) -> Rejected:
    """A rejection whose message lists its diagnostics."""
    found = tuple(diagnostics)
    return Rejected(reason, found, summary(found))


def summary(diagnostics: Iterable[Diagnostic], limit: int = MESSAGE_LIMIT) -> str:
    """Diagnostics as text of at most `limit` characters: errors before warnings, otherwise in the given order."""
    ordered = sorted(diagnostics, key=lambda found: found.severity != "error")
    text = ""
    for index, found in enumerate(ordered):
        entry = _entry(found)
        rest = len(ordered) - index
        if text and len(text) + len(entry) + 20 > limit:
            return f"{text}\n(and {rest} more)"
        text += ("\n" if text else "") + entry
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _entry(found: Diagnostic) -> str:
    place = f"line {found.line}, column {found.column}: " if found.line else ""
    kind = "" if found.severity == "error" else f"{found.severity}: "
    text = f"{place}{kind}{found.message}"
    if found.hint:
        text += f" ({found.hint})" if "\n" not in found.hint else f"; {found.hint}"
    if found.line and found.source_line.strip():
        text += f"\n    {found.source_line.strip()[:160]}"
    return text
