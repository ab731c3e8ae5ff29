from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kforge_mcp.errors import NotFoundError, WorkspaceError
from kforge_mcp.records.candidate import Budget, Candidate, Lease
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.job import Job
from kforge_mcp.records.package import Package
from kforge_mcp.records.project import Ceilings, DeviceInfo, Interpreter, Project
from kforge_mcp.store import budgets, candidates, cards, jobs, leases, packages, projects
from kforge_mcp.store.workspace import Workspace

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _project(project_id: str = "proj_a", minutes: int = 0) -> Project:
    return Project(
        project_id=project_id,
        name="llama",
        entry="llama.py:build",
        entry_path="/models/llama.py",
        project_dir="/models",
        target="cpu",
        interpreter=Interpreter(executable="python", found_by="server", python_version="3.12", torch_version="2.13"),
        device=DeviceInfo(
            target="cpu", name="cpu", ceilings=Ceilings(bandwidth_gbs={1024: 50.5}, gflops={"fp32": 100.0})
        ),
        workload_us=1e6,
        created_at=_START + timedelta(minutes=minutes),
    )


def _card(card_id: str = "card_a", project_id: str = "proj_a", level: Any = "module") -> OperatorCard:
    return OperatorCard(
        card_id=card_id,
        project_id=project_id,
        level=level,
        name="LlamaRMSNorm",
        qualified_name="m:LlamaRMSNorm",
        eligible=True,
        calls=9,
        eager_us=10.0,
        share=0.1,
        gain_ceiling=1.1,
        worth_it=True,
        variants=[],
    )


def _candidate(candidate_id: str = "cand_a", card_id: str = "card_a", minutes: int = 0, key: str = "k") -> Candidate:
    return Candidate(
        candidate_id=candidate_id,
        card_id=card_id,
        project_id="proj_a",
        target="cpu",
        source="ab" * 32,
        source_key=key,
        created_at=_START + timedelta(minutes=minutes),
    )


def _lease(lease_id: str = "lease_a", state: Any = "active") -> Lease:
    return Lease(
        lease_id=lease_id,
        card_id="card_a",
        project_id="proj_a",
        parent_id="",
        created_at=_START,
        expires_at=_START + timedelta(hours=1),
        state=state,
    )


def _package() -> Package:
    return Package(
        package_id="pkg_a",
        project_id="proj_a",
        name="fast",
        path="/p",
        wheel="w",
        report="r",
        kernels=[],
        end_to_end=[],
        created_at=_START,
    )


def _job(job_id: str = "job_a", **changes: Any) -> Job:
    fields: dict[str, Any] = {
        "job_id": job_id,
        "tool": "capture_model",
        "function": "package.module:run",
        "arguments": {"entry": "llama.py:build"},
        "arguments_key": "key",
        "created_at": _START,
    }
    return Job(**{**fields, **changes})


def test_every_noun_comes_back_as_it_was_saved(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        saved = [
            projects.save(session, _project()),
            cards.save(session, _card()),
            candidates.save(session, _candidate()),
            leases.save(session, _lease()),
            packages.save(session, _package()),
            jobs.save(session, _job()),
            budgets.save(session, Budget(owner_id="card_a", iterations=5)),
        ]
    with workspace.reading() as session:
        found = [
            projects.get(session, "proj_a"),
            cards.get(session, "card_a"),
            candidates.get(session, "cand_a"),
            leases.get(session, "lease_a"),
            packages.get(session, "pkg_a"),
            jobs.get(session, "job_a"),
            budgets.get_or_default(session, "card_a"),
        ]
    assert found == saved


def test_saving_again_replaces(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        projects.save(session, _project())
        projects.save(session, _project().model_copy(update={"name": "other"}))
        assert [project.name for project in projects.all(session)] == ["other"]


@pytest.mark.parametrize(
    ("get", "noun", "tool"),
    [
        (projects.get, "project", "capture_model"),
        (cards.get, "operator card", "list_operator_cards"),
        (candidates.get, "candidate", "search_status"),
        (leases.get, "lease", "next_proposal"),
        (packages.get, "package", "export_package"),
        (jobs.get, "job", "job_id"),
    ],
)
def test_an_unknown_id_is_named_with_the_tool_that_lists_ids(
    workspace: Workspace, get: Callable[..., object], noun: str, tool: str
) -> None:
    with workspace.reading() as session, pytest.raises(NotFoundError, match=f"no {noun} 'nonsense'.*{tool}"):
        get(session, "nonsense")


def test_the_latest_project_is_the_one_created_last(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        assert projects.latest(session) is None
        projects.save(session, _project("proj_new", minutes=5))
        projects.save(session, _project("proj_old", minutes=1))
        latest = projects.latest(session)
    assert latest is not None
    assert latest.project_id == "proj_new"


def test_cards_are_listed_by_project_and_level(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        projects.save(session, _project())
        projects.save(session, _project("proj_b"))
        cards.save(session, _card("card_2"))
        cards.save(session, _card("card_1", level="function"))
        cards.save(session, _card("card_3", project_id="proj_b"))
        assert [card.card_id for card in cards.of_project(session, "proj_a")] == ["card_2", "card_1"]
        assert [card.card_id for card in cards.of_project(session, "proj_a", "function")] == ["card_1"]


def test_candidates_are_listed_by_age_and_found_by_source(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        projects.save(session, _project())
        cards.save(session, _card())
        candidates.save(session, _candidate("cand_b", minutes=2, key="second"))
        candidates.save(session, _candidate("cand_a", minutes=1, key="first"))
        assert [node.candidate_id for node in candidates.of_card(session, "card_a")] == ["cand_a", "cand_b"]
        assert candidates.of_project(session, "proj_a") == candidates.of_card(session, "card_a")
        found = candidates.by_key(session, "card_a", "second")
        assert found is not None
        assert found.candidate_id == "cand_b"
        assert candidates.by_key(session, "card_a", "third") is None


def test_leases_are_listed_by_state(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        projects.save(session, _project())
        cards.save(session, _card())
        leases.save(session, _lease("lease_a"))
        leases.save(session, _lease("lease_b", state="used"))
        assert [lease.lease_id for lease in leases.of_card(session, "card_a", "active")] == ["lease_a"]
        assert len(leases.of_card(session, "card_a")) == 2


def test_a_record_of_an_unknown_owner_is_refused(workspace: Workspace) -> None:
    with pytest.raises(WorkspaceError, match=r"operator card card_a .*proj_a"), workspace.transaction() as session:
        cards.save(session, _card())


def test_a_budget_that_was_never_set_has_no_limits(workspace: Workspace) -> None:
    with workspace.reading() as session:
        assert budgets.get_or_default(session, "card_x") == Budget(owner_id="card_x")


def test_only_the_current_attempt_of_a_job_may_write(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        jobs.save(session, _job())
        assert jobs.start(session, "job_a", 1) is not None
        assert jobs.requeue(session, "job_a", 1) is not None
        assert not jobs.finish(session, "job_a", 1, status="ok", result={"stale": True})
        assert not jobs.update_progress(session, "job_a", 1, "stale", 0.9)
        assert not jobs.is_wanted(session, "job_a", 1)
        assert jobs.get(session, "job_a").status == "queued"
        assert jobs.start(session, "job_a", 2) is not None
        assert jobs.finish(session, "job_a", 2, status="ok", result={"value": 1})
        assert not jobs.finish(session, "job_a", 2, status="failed")
        assert jobs.get(session, "job_a").result == {"value": 1}


def test_an_attempt_is_started_once(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        jobs.save(session, _job())
        assert jobs.start(session, "job_a", 1) is not None
        assert jobs.start(session, "job_a", 1) is None


def test_only_unfinished_jobs_are_attached_to(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        jobs.save(session, _job("job_done", status="ok"))
        jobs.save(session, _job("job_ending", status="running", cancel_requested=True))
        assert jobs.find_active(session, "key") is None
        jobs.save(session, _job("job_new"))
        found = jobs.find_active(session, "key")
        assert found is not None
        assert found.job_id == "job_new"
        assert [job.job_id for job in jobs.unfinished(session)] == ["job_ending", "job_new"]


def test_cancelling_ends_a_queued_job_and_asks_a_running_one(workspace: Workspace) -> None:
    with workspace.transaction() as session:
        jobs.save(session, _job("job_queued"))
        jobs.save(session, _job("job_running", status="running"))
        jobs.save(session, _job("job_done", status="ok"))
        asked = [jobs.request_cancel(session, name) for name in ("job_queued", "job_running", "job_done")]
    assert [(job.status, job.cancel_requested) for job in asked] == [
        ("cancelled", True),
        ("running", True),
        ("ok", False),
    ]
