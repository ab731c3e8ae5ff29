"""What `submit_candidate` and the single stages share: a source or a candidate in, the result of a job out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.records.result import Stage, StageResult
from kforge_mcp.server.application import Application, Call, application, client_name, provenance
from kforge_mcp.server.results import reply
from kforge_mcp.server.stage import job_stage_versions, stage_versions
from kforge_mcp.server.waiting import run_job

FUNCTION = "kforge_mcp.search.submission:run_submission"
MAX_FILE_BYTES = 1 << 20

Source = Annotated[str, Field(description="The whole candidate file as text")]
SourcePath = Annotated[str, Field(description="Instead of source: a file inside the project folder or the workspace")]
ParentId = Annotated[str, Field(description="The candidate that this one revises; empty: the lease's, or none")]
LeaseId = Annotated[str, Field(description="The lease of next_proposal; keep it for repairs. Empty: a free submission")]
Note = Annotated[str, Field(max_length=500, description="The idea in one sentence; later proposers read it")]


async def submit(
    ctx: Call,
    *,
    tool: str,
    stages: list[str],
    card_id: str,
    source: str,
    source_path: str,
    parent_id: str,
    lease_id: str,
    note: str,
    author: str,
    wait_s: float,
) -> CallToolResult:
    """Make the source a candidate and judge it through the given stages."""
    app = application(ctx)
    client, reported = client_name(ctx), provenance(ctx)

    def create() -> Any:
        from kforge_mcp.search.submission import create_candidate

        return create_candidate(
            app.workspace,
            card_id=card_id,
            source=_source(app, source, source_path),
            parent_id=parent_id,
            lease_id=lease_id,
            note=note,
            author=author,
            client=client,
            provenance=reported,
        )

    made = await anyio.to_thread.run_sync(create)
    candidate_id, last = made.candidate.candidate_id, stages[-1]
    if not made.needs_judging:
        known = made.candidate.compiled if last == "compile" else made.candidate.latest
        result = known or StageResult(candidate_id=candidate_id, stage="compile", status="queued")
        if made.duplicate:
            result = result.model_copy(update={"duplicate_of": candidate_id})
        return reply(*stage_versions(result, remarks=made.remarks))
    arguments = {"candidate_id": candidate_id, "stages": stages}
    job = await run_job(ctx, tool=tool, function=FUNCTION, arguments=arguments, wait_s=wait_s)
    stage: Stage = "benchmark" if last == "benchmark" else "compile"
    return reply(*job_stage_versions(job, candidate_id, stage, duplicate=made.duplicate, remarks=made.remarks))


async def judge(ctx: Call, *, tool: str, stage: Stage, candidate_id: str, wait_s: float) -> CallToolResult:
    """Judge a candidate that exists through one stage, doing first what that stage needs."""
    app = application(ctx)

    def check() -> None:
        from kforge_mcp.store import candidates

        with app.workspace.reading() as session:
            candidates.get(session, candidate_id)

    await anyio.to_thread.run_sync(check)
    arguments = {"candidate_id": candidate_id, "stages": [stage]}
    job = await run_job(ctx, tool=tool, function=FUNCTION, arguments=arguments, wait_s=wait_s)
    return reply(*job_stage_versions(job, candidate_id, stage))


def _source(app: Application, source: str, source_path: str) -> str:
    if bool(source.strip()) == bool(source_path):
        raise ToolError(
            "pass either source (the whole file as text) or source_path (a file inside the project folder), "
            + ("not both." if source_path else "none was given. get_operator_card shows a source that compiles.")
        )
    if not source_path:
        return source
    path = app.inside(source_path, "source_path")
    return _read(path)


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ToolError(f"{path} has more than {MAX_FILE_BYTES} bytes; that is no candidate.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ToolError(f"source_path {path} cannot be read: {error}. Pass the text as source instead.") from error
