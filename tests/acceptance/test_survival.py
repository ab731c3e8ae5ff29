"""Servers and engines may die at any time, and clients leave: jobs end with their results, and nothing is left over."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from kforge_mcp.engine.state import read_state
from kforge_mcp.store.workspace import Workspace
from tests.acceptance.conftest import Agent, User
from tests.acceptance.test_bad_input import GOOD, source


def unlike(name: str) -> str:
    """A sound candidate that equals no other one."""
    return source(f"const int {name} = 1; (void){name};\n{GOOD}")


def engine_pid(user: User) -> int:
    state = read_state(user.workspace / "engine")
    assert state is not None
    return state.pid


def descendants(pid: int) -> list[int]:
    """The processes below one, as the kernel knows them."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def server_pid(user: User) -> int:
    for command in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = command.read_bytes().split(b"\0")
            if b"serve" in words and str(user.workspace).encode() in words:
                return int(command.parent.name)
    raise AssertionError("no server of this workspace runs")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


async def started(agent: Agent, user: User, name: str) -> str:
    """The id of a job that validates, once it runs."""
    made = await agent.call("compile_candidate", card_id=user.facts["card_id"], source=unlike(name))
    waiting = await agent.once("validate", candidate_id=made.structured["candidate_id"], wait_s=0)
    job_id = waiting.structured["job_id"]
    with anyio.fail_after(60):
        while (await agent.once("job_status", job_id=job_id, wait_s=0)).structured["status"] == "queued":
            await anyio.sleep(0.02)
    return job_id


@pytest.mark.anyio
async def test_an_engine_goes_on_seeing_jobs_after_a_server_has_left(user: User) -> None:
    engines = set()
    for name in ("first", "second", "third"):
        async with user.server() as agent:
            made = await agent.once("compile_candidate", card_id=user.facts["card_id"], source=unlike(name), wait_s=45)
            assert made.structured["passed"], made.text
            engines.add(engine_pid(user))
    assert len(engines) == 1


@pytest.mark.anyio
async def test_a_killed_servers_job_gives_its_result_to_the_next_server(user: User) -> None:
    job_id = ""
    with contextlib.suppress(Exception):
        async with user.server() as agent:
            job_id = await started(agent, user, "server")
            os.kill(server_pid(user), signal.SIGKILL)
            await agent.once("job_status", job_id=job_id)
    async with user.server() as agent:
        assert (await agent.ended(job_id)).structured["passed"]


@pytest.mark.anyio
async def test_a_killed_engines_job_is_done_again_and_nothing_is_left_over(user: User) -> None:
    async with user.server() as agent:
        job_id = await started(agent, user, "engine")
        with anyio.fail_after(60):
            while not (children := descendants(engine_pid(user))):
                await anyio.sleep(0.02)
        os.kill(engine_pid(user), signal.SIGKILL)
        with anyio.fail_after(60):
            while not all(gone(pid) for pid in children):
                await anyio.sleep(0.02)
        assert (await agent.ended(job_id)).structured["passed"]
        await nothing_left(user)


@pytest.mark.anyio
async def test_a_cancelled_job_leaves_nothing_and_its_candidate_can_be_judged_again(user: User) -> None:
    async with user.server() as agent:
        job_id = await started(agent, user, "cancelled")
        ended = await agent.once("cancel_job", job_id=job_id, wait_s=45)
        assert ended.structured["status"] in ("cancelled", "ok")
        await nothing_left(user)
        again = await agent.call("compile_candidate", card_id=user.facts["card_id"], source=unlike("cancelled"))
        judged = await agent.call("validate", candidate_id=again.structured["candidate_id"])
        assert judged.structured["passed"], judged.text


@pytest.mark.anyio
async def test_equal_calls_of_two_clients_share_one_job(user: User) -> None:
    async with user.server() as one, user.server() as other:
        answers = []

        async def submit(agent: Agent) -> None:
            arguments = {"card_id": user.facts["card_id"], "source": unlike("shared"), "wait_s": 0}
            answers.append(await agent.once("submit_candidate", **arguments))

        async with anyio.create_task_group() as group:
            group.start_soon(submit, one)
            group.start_soon(submit, other)
        first, second = (answer.structured for answer in answers)
        assert first["candidate_id"] == second["candidate_id"]
        assert first["job_id"] == second["job_id"]
        await one.once("cancel_job", job_id=first["job_id"], wait_s=45)


async def nothing_left(user: User) -> None:
    """The engine has no process and no scratch folder more; a job's end is told just before both are gone."""
    with Workspace.open(user.workspace) as workspace:
        scratch = workspace.scratch_dir
    limit = time.monotonic() + 30
    while left := [*descendants(engine_pid(user)), *scratch.iterdir()]:
        assert time.monotonic() < limit, left
        await anyio.sleep(0.05)
