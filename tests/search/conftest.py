"""Fixtures of the search's tests."""

from __future__ import annotations

import pytest

from tests.search.judging import FakeJudge, install


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    """A judge whose verdicts the test decides; all else is real."""
    return install(monkeypatch)
