"""Results on the wire: text and structure that each suffice alone, within their limits, without NaN."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, TypeVar

from mcp_types import CallToolResult, TextContent
from pydantic import BaseModel, ConfigDict

VERDICT_LIMIT = 1500
PAGE_LIMIT = 4000
PROPOSALS_LIMIT = 6000


class Output(BaseModel):
    """The structured content of a tool: the keys are always the same ones."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def finite(value: Any) -> Any:
    """The value with NaN and infinities replaced by None, which JSON can say."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def structure(output: Output) -> dict[str, Any]:
    """The output as JSON values."""
    return finite(output.model_dump(mode="json"))


def json_size(output: Output) -> int:
    """Characters of the output as JSON."""
    return len(json.dumps(structure(output), ensure_ascii=False))


def reply(text: str, output: Output) -> CallToolResult:
    """A normal result."""
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=structure(output))


def clip(text: str, limit: int, hint: str = "") -> str:
    """At most `limit` characters of the text, saying how much was left out and where the rest is."""
    if len(text) <= limit:
        return text
    tail = f"... ({len(text) - limit} more characters{'; ' + hint if hint else ''})"
    return text[: max(0, limit - len(tail))] + tail if limit > len(tail) else text[: max(0, limit)]


AnyOutput = TypeVar("AnyOutput", bound=Output)


def first_fitting(versions: Iterable[tuple[str, AnyOutput]], limit: int) -> tuple[str, AnyOutput]:
    """The first of ever shorter versions whose text and JSON both keep the limit.

    The last one is taken with its text cut if none does: a limit is a promise to the client's context window.
    """
    text, output = "", None
    for text, output in versions:
        if len(text) <= limit and json_size(output) <= limit:
            return text, output
    assert output is not None
    return clip(text, limit), output


def figure(value: float | None, unit: str = "", digits: int = 3) -> str:
    """A number for people: `digits` significant ones, `?` if unknown."""
    if value is None or not math.isfinite(value):
        return "?"
    if value and abs(value) >= 10**digits:
        return f"{value:.0f}{unit}"
    return f"{value:.{digits}g}{unit}"


def rounded(value: float | None) -> float | None:
    """Five significant digits: what a reader can use of a measured figure."""
    return None if value is None else float(f"{value:.5g}")
