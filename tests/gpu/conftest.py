"""Tests on a real GPU: skipped elsewhere, with the reason. `launcher` runs programs in processes of their own."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.runtime.cuda.library import DriverError, Library, NoDriver
from kforge_mcp.store.workspace import Workspace

REPOSITORY = Path(__file__).resolve().parents[2]


def missing() -> str:
    """Why there is no GPU to test on; empty if there is one. Makes no context."""
    count = ctypes.c_int()
    try:
        library = Library()
        library.call("cuInit", 0)
        library.call("cuDeviceGetCount", ctypes.byref(count))
    except (NoDriver, DriverError) as error:
        return str(error)
    return "" if count.value else "the NVIDIA driver has no device"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = missing() if here else ""
    for item in here:
        item.add_marker(pytest.mark.gpu)
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"needs an NVIDIA GPU: {reason}"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Rows that tests recorded as `row`: a table of what was measured."""
    reports = terminalreporter.stats.get("passed", []) + terminalreporter.stats.get("failed", [])
    rows = [str(value) for report in reports for name, value in report.user_properties if name == "row"]
    for row in sorted(set(rows)):
        terminalreporter.write_line(row)


@pytest.fixture(scope="session")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobContext]:
    """A job's context over a workspace of the session."""
    workspace = Workspace.open(tmp_path_factory.mktemp("gpu") / "workspace")
    with JobContext.standalone(workspace) as context:
        yield context
    workspace.close()


class Launcher:
    """A process of the model interpreter that runs each job in a fork of its own, on the GPU."""

    def __init__(self, python: str, folder: Path) -> None:
        script = Path(__file__).with_name("launcher.py")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])}
        self.folder = folder
        self._process = subprocess.Popen(
            [python, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run a job; see `launcher.py`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the launcher ended"
        return json.loads(answer)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def launcher(model_python: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    started = Launcher(model_python, tmp_path_factory.mktemp("launcher"))
    yield started
    started.close()
