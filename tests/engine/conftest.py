"""An engine of its own for every test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kforge_mcp.engine.starter import stop_engine
from kforge_mcp.store.workspace import Workspace


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORGE_LOCK_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    monkeypatch.delenv("KFORGE_SCHEDULER", raising=False)


@pytest.fixture
def served(workspace: Workspace) -> Iterator[Workspace]:
    """A workspace whose engine, if the test starts one, ends with the test."""
    yield workspace
    stop_engine(workspace)
