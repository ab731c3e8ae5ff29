"""How much of a candidate is its own."""

from __future__ import annotations

import pytest

from kforge_mcp.runtime.cuda.shares import own_share


@pytest.mark.parametrize(
    ("kinds", "times", "share"),
    [
        (["launch", "launch"], [], 1.0),
        (["call"], [], 0.0),
        (["call", "launch", "call"], [6.0, 2.0, 2.0], 0.2),
        (["call", "launch"], [], None),
        (["call", "launch"], [0.0, 0.0], None),
    ],
)
def test_the_share_is_of_the_time_in_launches(kinds: list[str], times: list[float], share: float | None) -> None:
    assert own_share(kinds, times) == share
