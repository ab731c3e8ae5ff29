"""The server: its tools in the order of the loop, resources and prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.to_thread
from mcp.server.mcpserver import MCPServer

from kforge_mcp import __version__
from kforge_mcp.server import prompts, resources
from kforge_mcp.server.application import Application
from kforge_mcp.server.instructions import INSTRUCTIONS
from kforge_mcp.server.registry import ToolSpec, make_tool
from kforge_mcp.server.settings import Settings
from kforge_mcp.server.tools import (
    benchmark,
    cancel_job,
    capture_model,
    compile_candidate,
    export_package,
    get_candidate,
    get_operator_card,
    job_status,
    list_operator_cards,
    next_proposal,
    profile_candidate,
    search_status,
    set_budget,
    submit_candidate,
    validate,
)

TOOLS: tuple[ToolSpec, ...] = tuple(
    module.TOOL
    for module in (
        capture_model,
        list_operator_cards,
        get_operator_card,
        next_proposal,
        submit_candidate,
        get_candidate,
        profile_candidate,
        search_status,
        set_budget,
        export_package,
        job_status,
        cancel_job,
        compile_candidate,
        validate,
        benchmark,
    )
)


def offered(settings: Settings) -> list[ToolSpec]:
    """The tools that a server with these settings has."""
    return [
        spec
        for spec in TOOLS
        if (spec.toolset in settings.toolsets or spec.toolset == "jobs") and (spec.read_only or not settings.read_only)
    ]


def build_server(settings: Settings) -> MCPServer[Any]:
    """A server that is ready to run; nothing is opened or started before the first call that needs it."""
    app = Application(settings)

    @asynccontextmanager
    async def lifespan(_: MCPServer[Any]) -> AsyncIterator[Application]:
        try:
            yield app
        finally:
            await anyio.to_thread.run_sync(app.close)

    server: MCPServer[Any] = MCPServer(
        name="kforge",
        title="KForge",
        description="Turns the hot operators of an unmodified PyTorch model into faster kernels.",
        instructions=INSTRUCTIONS,
        version=__version__,
        lifespan=lifespan,
        tools=[make_tool(spec) for spec in offered(settings)],
        log_level="WARNING",
    )
    resources.register(server, app)
    prompts.register(server)
    return server
