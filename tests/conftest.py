"""What tests of every layer share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

try:
    from hypothesis import HealthCheck, settings
except ModuleNotFoundError:  # Those that need a GPU need no more than pytest.
    pass
else:
    # Drawing inputs may take long on a busy machine, which says nothing of the code.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")


@pytest.fixture(scope="session")
def model_python() -> str:
    """The Python that has torch: a second environment, as users have it."""
    path = Path(os.environ.get("KFORGE_TEST_MODEL_PYTHON", REPOSITORY / ".venv-model" / "bin" / "python"))
    if not path.exists():
        pytest.skip(f"no model interpreter at {path}: run `make setup` or set KFORGE_TEST_MODEL_PYTHON")
    return str(path)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[object]:
    """An opened workspace in a folder of its own."""
    from kforge_mcp.store.workspace import Workspace

    opened = Workspace.open(tmp_path / "workspace")
    yield opened
    opened.close()
