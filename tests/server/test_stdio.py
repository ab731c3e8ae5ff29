"""The server as clients start it: a process on standard input and output, with the real engine behind it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from kforge_mcp.engine.starter import stop_engine
from kforge_mcp.store import jobs
from kforge_mcp.store.workspace import Workspace
from tests.search.building import source, store_card
from tests.server.conftest import text_of

CONTRACTS = Path(__file__).resolve().parents[2] / "tools"
KFORGE = str(Path(sys.executable).with_name("kforge-mcp"))


@pytest.fixture
def served(workspace: Workspace, project_dir: Path) -> Iterator[list[str]]:
    """The server's arguments; the engine that it starts is stopped afterwards."""
    yield ["serve", "--workspace", str(workspace.root), "--project-dir", str(project_dir)]
    stop_engine(workspace)


def client(arguments: list[str], mode: str = "auto") -> Client:
    return Client(StdioServerParameters(command=KFORGE, args=arguments, env={**os.environ}), mode=mode)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_both_eras_of_the_protocol_list_the_tools(served: list[str], mode: str) -> None:
    async with client(served, mode) as connected:
        tools = (await connected.list_tools()).tools
        assert {tool.name for tool in tools} == {path.stem for path in CONTRACTS.glob("*.json")}
        assert connected.server_info is not None
        assert connected.server_info.name == "kforge"
        empty = await connected.call_tool("next_proposal", {})
        assert empty.is_error
        assert "capture_model" in text_of(empty)


@pytest.mark.anyio
async def test_a_job_outlives_the_server_that_started_it(served: list[str], workspace: Workspace) -> None:
    _, card = store_card(workspace)
    async with client(served) as first:
        arguments = {"card_id": card.card_id, "source": source(), "wait_s": 0}
        started = (await first.call_tool("compile_candidate", arguments)).structured_content
        assert started["status"] in ("queued", "running")
        assert started["job_id"] in started["next_step"]
    told: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append(done)

    async with client(served) as second:
        answer = await second.call_tool(
            "job_status", {"job_id": started["job_id"], "wait_s": 45}, progress_callback=progress
        )
        assert answer.structured_content["status"] == "ok"
        result = answer.structured_content["result"]
        assert (result["candidate_id"], result["stage"], result["status"]) == (started["candidate_id"], "compile", "ok")
        assert told == sorted(set(told))
        again = await second.call_tool("compile_candidate", {**arguments, "wait_s": 45})
        assert again.structured_content["duplicate_of"] == started["candidate_id"]
        assert again.structured_content["passed"]


@pytest.mark.anyio
async def test_a_compile_error_comes_back_through_the_engine(served: list[str], workspace: Workspace) -> None:
    _, card = store_card(workspace)
    async with client(served) as connected:
        arguments = {"card_id": card.card_id, "source": source(body="undeclared = 1;"), "wait_s": 45}
        result = await connected.call_tool("submit_candidate", arguments)
        assert not result.is_error
        assert result.structured_content["reason"] == "syntax_error"
        assert "undeclared" in text_of(result)


@pytest.mark.anyio
async def test_without_a_compiler_the_call_is_an_error_that_names_packages(
    served: list[str], workspace: Workspace, tmp_path: Path
) -> None:
    _, card = store_card(workspace)
    parameters = StdioServerParameters(
        command=KFORGE, args=served, env={**os.environ, "KFORGE_CXX": "no-such-compiler"}
    )
    async with Client(parameters) as connected:
        arguments = {"card_id": card.card_id, "source": source(), "wait_s": 45}
        result = await connected.call_tool("compile_candidate", arguments)
    assert result.is_error
    assert "no-such-compiler" in text_of(result)


@pytest.mark.anyio
async def test_cancelling_ends_a_job_and_repeating_it_says_the_same(served: list[str], workspace: Workspace) -> None:
    _, card = store_card(workspace)
    async with client(served) as connected:
        arguments = {"card_id": card.card_id, "source": source(), "wait_s": 0}
        job_id = (await connected.call_tool("compile_candidate", arguments)).structured_content["job_id"]
        for _ in range(2):
            ended = await connected.call_tool("cancel_job", {"job_id": job_id, "wait_s": 30})
            assert ended.structured_content["status"] in ("cancelled", "ok")
    with workspace.reading() as session:
        assert jobs.get(session, job_id).finished


def test_standard_output_carries_protocol_only(served: list[str]) -> None:
    hello = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    }
    call = {
        "jsonrpc": "2.0",
        "id": 2,
        "method": "tools/call",
        "params": {"name": "get_candidate", "arguments": {"candidate_id": "cand_x"}},
    }
    lines = [hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call]
    server = subprocess.Popen(
        [KFORGE, *served], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        for line in lines:
            server.stdin.write(json.dumps(line) + "\n")
        server.stdin.flush()
        answers: list[dict[str, Any]] = [json.loads(server.stdout.readline()) for _ in range(2)]
    finally:
        rest, _ = server.communicate(timeout=30)
    assert rest == ""
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[0]["result"]["serverInfo"]["name"] == "kforge"
    assert answers[1]["result"]["isError"]
    assert server.returncode == 0


def test_what_prints_before_serving_goes_to_standard_error() -> None:
    code = (
        "import os, sys\n"
        "from kforge_mcp.server.stdio import stdout_guarded, give_back\n"
        "with stdout_guarded() as wire:\n"
        "    print('printed'); sys.stdout.flush(); os.write(1, b'written\\n'); os.system('echo child')\n"
        "    give_back(wire)\n"
        "    os.write(1, b'protocol\\n')\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "protocol\n"
    assert ran.stderr.split() == ["printed", "written", "child"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--wait", "99"], "0 to 50"),
        (["--toolsets", "search,magic"], "magic"),
        (["--project-dir", "/no/such/folder"], "/no/such/folder"),
    ],
)
def test_wrong_options_are_named_with_exit_status_2(options: list[str], complaint: str) -> None:
    ran = subprocess.run([KFORGE, "serve", *options], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert ran.returncode == 2
    assert complaint in ran.stderr
    assert ran.stdout == ""
