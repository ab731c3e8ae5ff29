"""`export_package`: the winners as a pip-installable package."""

from __future__ import annotations

from typing import Annotated, Any

import anyio.to_thread
from mcp_types import CallToolResult
from pydantic import Field

from kforge_mcp.server.application import Call, application
from kforge_mcp.server.export_page import ExportOutput, export_versions
from kforge_mcp.server.parameters import WaitS
from kforge_mcp.server.registry import ToolSpec
from kforge_mcp.server.results import reply
from kforge_mcp.server.waiting import run_job

FUNCTION = "kforge_mcp.export.job:export"


async def export_package(
    ctx: Call,
    project_id: Annotated[str, Field(description="The project to export")],
    name: Annotated[
        str,
        Field(
            pattern="^[a-z][a-z0-9_]{0,63}$",
            description="Name of the Python package: a lower-case letter, then lower-case letters, digits and _",
        ),
    ],
    path: Annotated[
        str, Field(description="Folder to write, inside the project folder or the workspace; empty: the workspace's")
    ] = "",
    overwrite: Annotated[bool, Field(description="Replace a package that is there")] = False,
    wait_s: WaitS = -1,
) -> Annotated[CallToolResult, ExportOutput]:
    """Measure the best candidates again in fresh processes, and write what holds as a pip-installable package.

    Says which kernels are in, which are left out and why, and how the whole workload does with the package attached.
    """
    app = application(ctx)

    def check() -> dict[str, Any]:
        from kforge_mcp.store import projects

        with app.workspace.reading() as session:
            projects.get(session, project_id)
        return {
            "project_id": project_id,
            "name": name,
            "path": str(app.inside(path, "path")) if path else "",
            "overwrite": overwrite,
            "project_dir": str(app.settings.project_dir),
        }

    arguments = await anyio.to_thread.run_sync(check)
    job = await run_job(ctx, tool="export_package", function=FUNCTION, arguments=arguments, wait_s=wait_s)
    return reply(*export_versions(job))


TOOL = ToolSpec(
    export_package,
    title="Export a package",
    toolset="export",
    read_only=False,
    destructive=True,  # overwrite=true replaces what was there
    open_world=True,  # it runs the user's model again
)
