"""`kforge-mcp serve`: the MCP server on standard input and output."""

from __future__ import annotations

import argparse

from kforge_mcp.server.settings import DEFAULT_WAIT_S, MAX_WAIT_S, TOOLSETS, from_options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--workspace", default="", metavar="DIR", help="where everything is kept (KFORGE_WORKSPACE)")
    parser.add_argument(
        "--project-dir",
        default="",
        metavar="DIR",
        help="what relative paths are relative to (KFORGE_PROJECT_DIR, CLAUDE_PROJECT_DIR; default: here)",
    )
    parser.add_argument(
        "--wait",
        type=float,
        default=None,
        metavar="SECONDS",
        help=f"how long calls wait for a job, 0 to {MAX_WAIT_S:g} (KFORGE_WAIT; default {DEFAULT_WAIT_S:g})",
    )
    parser.add_argument("--read-only", action="store_true", help="offer only tools that change nothing")
    parser.add_argument("--toolsets", default="", metavar="NAMES", help=f"some of {','.join(TOOLSETS)} (default: all)")


def run(options: argparse.Namespace) -> int:
    """Serve until the client closes the stream. Raises `UsageError` for wrong options."""
    settings = from_options(
        workspace=options.workspace,
        project_dir=options.project_dir,
        wait=options.wait,
        read_only=options.read_only,
        toolsets=options.toolsets,
    )
    from kforge_mcp.server.serving import serve_stdio

    serve_stdio(settings)
    return 0
