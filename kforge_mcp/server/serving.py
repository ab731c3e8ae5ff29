"""Run the server on standard input and output."""

from __future__ import annotations

from kforge_mcp.server.settings import Settings
from kforge_mcp.server.stdio import give_back, stdout_guarded


def serve_stdio(settings: Settings) -> None:
    """Serve until the client closes the stream. Logs go to stderr, nothing but protocol to stdout."""
    with stdout_guarded() as wire:
        from kforge_mcp.server import logs

        logs.configure()
        from kforge_mcp.server.app import build_server

        server = build_server(settings)
        give_back(wire)
        server.run("stdio")
