"""`kforge-mcp install`: connect an MCP client to this server."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from kforge_mcp.errors import UsageError

NAME = "kforge"
CLIENTS = ("claude-code",)
SAFE_WAIT_S = 45
"""Seconds that this client's calls may take: it has no short limit of its own for a tool call."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("client", choices=CLIENTS, help="which client")
    parser.add_argument("--print", action="store_true", dest="show", help="only show what would be configured")
    parser.add_argument("--workspace", default="", metavar="DIR", help="the workspace to serve (default: the user's)")
    parser.add_argument(
        "--project-dir", default=".", metavar="DIR", help="the project whose .mcp.json is written (default: here)"
    )


def run(options: argparse.Namespace) -> int:
    """Show or write the configuration. Raises `UsageError` if the file that is there cannot be extended."""
    entry = server_entry(options.workspace)
    path = Path(options.project_dir).expanduser().resolve() / ".mcp.json"
    if options.show:
        command = shlex.join(
            ["claude", "mcp", "add", "--scope", "project", NAME, "--", entry["command"], *entry["args"]]
        )
        print(f"Run in the project's folder:\n\n  {command}\n\nor put this into {path}:\n")
        print(json.dumps({"mcpServers": {NAME: entry}}, indent=2))
        return 0
    changed = write_entry(path, entry)
    print(
        f"{path}: {'configured' if changed else 'was configured already'}. Claude Code asks once whether to trust it."
    )
    return 0


def server_entry(workspace: str = "") -> dict[str, Any]:
    """The client's entry for this installation, with absolute paths and no secrets."""
    script = Path(sys.executable).with_name("kforge-mcp")
    start = [str(script)] if script.exists() else [sys.executable, "-m", "kforge_mcp.cli.main"]
    arguments = [*start[1:], "serve", "--wait", str(SAFE_WAIT_S)]
    if workspace:
        arguments += ["--workspace", str(Path(workspace).expanduser().resolve())]
    return {"type": "stdio", "command": start[0], "args": arguments, "env": {}}


def write_entry(path: Path, entry: dict[str, Any]) -> bool:
    """Put the entry into a project's `.mcp.json`, keeping all else; False if it was there. Raises `UsageError`."""
    content = _content(path)
    servers = content.setdefault("mcpServers", {})
    if not isinstance(servers, dict):
        raise UsageError(
            f"mcpServers in {path} is no object. Repair the file, or use --print and add the entry by hand."
        )
    if servers.get(NAME) == entry:
        return False
    servers[NAME] = entry
    try:
        # A reader never sees half a file, and a failure leaves the old one.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".mcp.json.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        os.chmod(temporary, path.stat().st_mode & 0o777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error}. Use --print and add the entry by hand.") from error
    return True


def _content(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read as JSON: {error}. Repair it first; nothing was changed.") from error
    if not isinstance(content, dict):
        raise UsageError(f"{path} holds no JSON object. Repair it first; nothing was changed.")
    return content
