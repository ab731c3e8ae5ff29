"""The real server, spoken to by the real SDK client in memory; jobs run in place unless a test starts an engine."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from kforge_mcp.engine import jobs
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import UsageError
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.job import Job
from kforge_mcp.server.app import build_server
from kforge_mcp.server.settings import Settings
from kforge_mcp.store import jobs as stored
from kforge_mcp.store.workspace import Workspace
from tests.search.judging import FakeJudge, install

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> FakeJudge:
    return install(monkeypatch)


@pytest.fixture
def project_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def connect(workspace: Workspace, project_dir: Path) -> Connect:
    """A client of a server for the workspace; keywords change the server's settings, `mode` the protocol's era."""

    def open_client(mode: str = "auto", **changes: Any) -> Client:
        settings = Settings(**{"workspace": workspace.root, "project_dir": project_dir, "wait_s": 10.0} | changes)
        return Client(build_server(settings), mode=mode)

    return open_client


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Jobs run where they are submitted, with their rows; the jobs are listed."""
    ran: list[Job] = []

    def submit(
        workspace: Workspace, *, tool: str, function: str, arguments: dict[str, Any], resource: str = "cpu"
    ) -> Job:
        key = jobs.arguments_key(tool, arguments)
        job = Job(
            job_id=new_id("job"),
            tool=tool,
            function=function,
            arguments=arguments,
            arguments_key=key,
            created_at=now(),
            started_at=now(),
        )
        module, name = function.split(":")
        changes: dict[str, Any] = {"finished_at": now()}
        try:
            with JobContext.standalone(workspace, tool=tool) as ctx:
                changes |= {"status": "ok", "result": getattr(importlib.import_module(module), name)(ctx, **arguments)}
        except UsageError as error:
            changes |= {"status": "failed", "error_kind": "usage", "error": str(error)}
        job = job.model_copy(update=changes)
        with workspace.transaction() as session:
            stored.save(session, job)
        ran.append(job)
        return job

    monkeypatch.setattr(jobs, "submit", submit)
    return ran


def text_of(result: Any) -> str:
    """What a client shows its model if it shows text only."""
    return "\n".join(block.text for block in result.content)
