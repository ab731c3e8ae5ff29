"""What tests need that compile what they wrote."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.store.workspace import Workspace


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    opened = Workspace.open(tmp_path_factory.mktemp("candidate") / "workspace")
    with JobContext.standalone(opened) as context:
        yield context
    opened.close()
