"""Fixtures of the search's tests."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

from tests.search.judging import FakeJudge, install

# Drawing trees may take long on a busy machine, which says nothing of the search.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    """A judge whose verdicts the test decides; all else is real."""
    return install(monkeypatch)
