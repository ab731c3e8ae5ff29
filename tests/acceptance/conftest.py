"""A user's folder and workspace, and a client of a real server over stdio; nothing in between is replaced."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from kforge_mcp.engine.starter import stop_engine
from kforge_mcp.store.workspace import Workspace

KFORGE = str(Path(sys.executable).with_name("kforge-mcp"))
MODEL = Path(__file__).with_name("user_model.py")
WAIT_S = 240.0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Answer:
    """What a tool said: the text, the structure, and whether the call was unusable."""

    text: str
    structured: dict[str, Any]
    is_error: bool


class Agent:
    """A client that follows jobs to their end."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def once(self, tool: str, **arguments: Any) -> Answer:
        """One call."""
        result = await self.client.call_tool(tool, arguments)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        return Answer(text, result.structured_content or {}, result.is_error)

    async def call(self, tool: str, **arguments: Any) -> Answer:
        """A call and, if its job goes on, what `job_status` says at the end; `structured` is the tool's result."""
        answer = await self.once(tool, **arguments)
        if answer.is_error or answer.structured.get("status") not in ("queued", "running"):
            return answer
        return await self.ended(answer.structured["job_id"])

    async def ended(self, job_id: str) -> Answer:
        """What `job_status` says when a job has ended."""
        with asyncio_timeout():
            while True:
                answer = await self.once("job_status", job_id=job_id, wait_s=45)
                if answer.structured["status"] not in ("queued", "running"):
                    failed = answer.structured["status"] == "failed"
                    return Answer(answer.text, answer.structured["result"] or answer.structured, failed)


def asyncio_timeout() -> Any:
    """A limit that only a hang reaches."""
    import anyio

    return anyio.fail_after(WAIT_S)


@dataclass
class User:
    """Where a user works."""

    workspace: Path
    project: Path
    environment: dict[str, str]
    facts: dict[str, Any] = field(default_factory=dict)

    def server(self, **changes: str) -> AbstractAsyncContextManager[Agent]:
        """A client of a server of its own; `changes` are environment variables."""
        return _serve(self, {**self.environment, **changes})


@asynccontextmanager
async def _serve(user: User, environment: dict[str, str]) -> AsyncIterator[Agent]:
    arguments = ["serve", "--workspace", str(user.workspace), "--project-dir", str(user.project), "--wait", "30"]
    parameters = StdioServerParameters(command=KFORGE, args=arguments, env=environment)
    with (user.project.parent / "server.log").open("a") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield Agent(client)


@pytest.fixture(scope="session")
def user(tmp_path_factory: pytest.TempPathFactory, model_python: str) -> Iterator[User]:
    """A user whose model is captured; the engine ends with the tests."""
    root = tmp_path_factory.mktemp("a user")
    (root / "my models").mkdir()
    (root / "my models" / "small.py").write_text(MODEL.read_text())
    environment = {
        **os.environ,
        "KFORGE_PYTHON": model_python,
        "KFORGE_LOCK_DIR": str(root),
        "OMP_WAIT_POLICY": "passive",
    }
    made = User(root / "work space", root / "my models", environment)
    try:
        asyncio.run(_capture(made))
        yield made
    finally:
        with Workspace.open(made.workspace) as workspace:
            stop_engine(workspace)


async def _capture(user: User) -> None:
    async with user.server() as agent:
        captured = await agent.call("capture_model", entry="small.py:build")
        assert not captured.is_error, captured.text
        user.facts["project_id"] = captured.structured["project_id"]
        cards = captured.structured["top_cards"]
        user.facts["card_id"] = next(card["card_id"] for card in cards if card["name"] == "RMSNorm")
