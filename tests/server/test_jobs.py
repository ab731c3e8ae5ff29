"""Waiting for jobs: progress, running answers, cancelled calls, and what every kind of job says when it ends."""

from __future__ import annotations

import time
from typing import Any

import anyio
import pytest

from kforge_mcp.engine import jobs
from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.job import Job
from kforge_mcp.server.job_page import job_versions
from kforge_mcp.server.tools.capture_model import capture_versions
from kforge_mcp.server.tools.export_package import export_versions
from kforge_mcp.store import jobs as stored
from kforge_mcp.store.workspace import Workspace
from tests.search.building import failed, measured, source, store_card
from tests.server.conftest import Connect, text_of


def job(tool: str, **changes: Any) -> Job:
    facts: dict[str, Any] = {
        "job_id": new_id("job"),
        "tool": tool,
        "function": "x:y",
        "arguments": {"candidate_id": "cand_0000000001"},
        "arguments_key": new_id("key"),
        "status": "running",
        "created_at": now(),
        "started_at": now(),
    }
    return Job(**facts | changes)


@pytest.fixture
def endless(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> list[Job]:
    """Jobs that never finish, with progress that moves on as they are looked at."""
    made: list[Job] = []

    def submit(workspace: Workspace, *, tool: str, function: str, arguments: dict[str, Any]) -> Job:
        made.append(job(tool, function=function, arguments=arguments))
        with workspace.transaction() as session:
            stored.save(session, made[-1])
        return made[-1]

    def wait(workspace: Workspace, job_id: str, wait_s: float) -> Job:
        time.sleep(min(wait_s, 0.05))
        with workspace.transaction() as session:
            found = stored.get(session, job_id)
            found = found.model_copy(update={"progress": min(1.0, found.progress + 0.1), "message": "judging"})
            return stored.save(session, found)

    monkeypatch.setattr(jobs, "submit", submit)
    monkeypatch.setattr(jobs, "wait", wait)
    return made


@pytest.mark.anyio
async def test_a_call_answers_within_its_wait_with_progress_on_the_way(
    connect: Connect, workspace: Workspace, endless: list[Job]
) -> None:
    _, card = store_card(workspace)
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told.append((done, message))

    async with connect() as client:
        arguments = {"card_id": card.card_id, "source": source(), "wait_s": 0.3}
        result = await client.call_tool("submit_candidate", arguments, progress_callback=progress)
    answer = result.structured_content
    assert answer["status"] == "running"
    assert answer["job_id"] == endless[0].job_id
    assert answer["candidate_id"].startswith("cand_")
    assert endless[0].job_id in text_of(result)
    assert len(told) >= 2
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert "judging" in (told[-1][1] or "")


@pytest.mark.anyio
async def test_a_call_that_is_given_up_leaves_its_job_alone(
    connect: Connect, workspace: Workspace, endless: list[Job]
) -> None:
    _, card = store_card(workspace)
    async with connect() as client:
        with anyio.move_on_after(0.5) as scope:
            arguments = {"card_id": card.card_id, "source": source(), "wait_s": 50}
            await client.call_tool("submit_candidate", arguments)
        assert scope.cancelled_caught
        status = await client.call_tool("job_status", {"job_id": endless[0].job_id, "wait_s": 0})
        assert status.structured_content["status"] == "running"
    with workspace.reading() as session:
        assert not stored.get(session, endless[0].job_id).cancel_requested


@pytest.mark.anyio
async def test_the_servers_wait_is_the_default(connect: Connect, workspace: Workspace, endless: list[Job]) -> None:
    _, card = store_card(workspace)
    async with connect(wait_s=0.0) as client:
        result = await client.call_tool("compile_candidate", {"card_id": card.card_id, "source": source()})
        assert result.structured_content["status"] == "running"


@pytest.mark.anyio
async def test_a_call_that_could_not_be_carried_out_is_an_error_with_the_jobs_words(
    connect: Connect, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = job("capture_model", status="failed", error_kind="usage", error="model.py has no function 'biuld'")

    def submit(workspace: Workspace, **_arguments: Any) -> Job:
        return ended

    monkeypatch.setattr(jobs, "submit", submit)
    async with connect() as client:
        result = await client.call_tool("capture_model", {"entry": "model.py:biuld"})
    assert result.is_error
    assert text_of(result) == "model.py has no function 'biuld'"


def test_a_failed_job_is_a_normal_answer_of_job_status() -> None:
    text, output = job_versions(job("capture_model", status="failed", error_kind="usage", error="no such file"))
    assert (output.status, output.message, output.result) == ("failed", "no such file", {})
    assert "no such file" in text


def test_job_status_gives_the_tools_own_result() -> None:
    result = failed("cand_0000000001").model_dump(mode="json")
    ended = job("validate", status="ok", result=result, finished_at=now(), message="validating variant 3 of 9")
    text, output = job_versions(ended)
    assert output.status == "ok"
    assert "validating variant" not in output.message + text, "progress of a job that ended"
    assert output.result["reason"] == "wrong_result"
    assert "row 3 differs" in text


def test_a_crashed_judging_job_is_an_internal_error_of_its_candidate() -> None:
    from kforge_mcp.server.stage import job_stage_versions

    ended = job("submit_candidate", status="failed", error_kind="internal", error="KeyError: 'x'")
    text, output = job_stage_versions(ended, "cand_0000000001", "benchmark")
    assert (output.status, output.reason) == ("failed", "internal_error")
    assert "KeyError" in text


def test_a_capture_is_shown_with_its_cards_within_the_limit() -> None:
    row = {
        "card_id": "card_0000000001",
        "level": "module",
        "name": "LlamaRMSNorm",
        "eligible": True,
        "reason": "",
        "calls": 9,
        "share": 0.123456,
        "eager_us": 1234.5678,
        "gain_ceiling": 1.2,
        "worth_it": True,
        "variants": 1,
    }
    result = {
        "project_id": "proj_0000000001",
        "name": "llama",
        "target": "cpu",
        "device": "Some CPU",
        "interpreter": {
            "executable": "/venv/bin/python",
            "found_by": "KFORGE_PYTHON",
            "python_version": "3.12.1",
            "torch_version": "2.13.0",
            "cuda_version": "",
        },
        "entry": "llama.py:build",
        "entry_path": "/project/llama.py",
        "workload_us": 12345.6,
        "cards": 40,
        "top_cards": [row] * 40,
        "notes": ["the model was put into eval mode by its own code"] * 12,
    }
    text, output = capture_versions(job("capture_model", status="ok", result=result))
    assert output.project_id == "proj_0000000001"
    assert 4 <= len(output.top_cards) < 40
    assert "LlamaRMSNorm" in text
    assert "/venv/bin/python" in text
    assert len(text) <= 4000


def test_an_export_is_shown_with_what_is_in_and_out() -> None:
    from tests.search.building import make_card, make_project

    card = make_card(make_project())
    figures = measured(card, "cand_0000000001", 1.4).variants[0].model_dump(mode="json")
    kernel = {
        "card_id": card.card_id,
        "card": card.name,
        "level": "module",
        "candidate_id": "cand_0000000001",
        "included": True,
        "reason": "",
        "calls": 9,
        "share": 0.2,
        "holdout": figures,
    }
    left = {**kernel, "included": False, "reason": "no gain inside the model", "holdout": None}
    comparison = {
        "verdict": "faster",
        "speedup": 1.1,
        "ci_low": 1.05,
        "ci_high": 1.15,
        "eager_us": 110.0,
        "package_us": 100.0,
        "pairs": 60,
    }
    result = {
        "package_id": "pkg_0000000001",
        "project_id": "proj_0000000001",
        "name": "fast",
        "path": "/ws/packages/fast",
        "wheel": "/ws/packages/fast/fast.whl",
        "report": "/ws/packages/fast/VERIFICATION.md",
        "kernels": [kernel, left],
        "end_to_end": [
            {"mode": "eager", "comparison": comparison, "outputs_equal": True, "difference": "1e-6 of 1e-4"}
        ],
        "created_at": "2026-01-01T00:00:00.000000Z",
        "digest": "",
        "notes": ["built with g++"],
    }
    text, output = export_versions(job("export_package", status="ok", result=result))
    assert [(row.included, row.speedup) for row in output.kernels] == [(True, 1.4), (False, None)]
    assert output.end_to_end[0].verdict == "faster"
    assert "left out: TinyRMSNorm" in text
    assert "no gain inside the model" in text
    assert "outputs equal" in text


def test_an_export_without_a_kernel_is_no_success() -> None:
    lacking = {
        "card_id": "card_0000000001",
        "card": "Linear",
        "level": "module",
        "candidate_id": "",
        "included": False,
        "reason": "nothing faster was found",
    }
    result = {"name": "fast", "path": "", "kernels": [lacking], "end_to_end": [], "notes": []}
    text, output = export_versions(job("export_package", status="ok", result=result))
    assert output.status == "failed"
    assert "nothing faster was found" in text
    assert "next_proposal" in output.next_step
