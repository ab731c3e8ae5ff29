"""`kforge-mcp`: one command, its subcommands imported only when asked for."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from kforge_mcp import __version__
from kforge_mcp.errors import KForgeError

COMMANDS = {
    "serve": "the MCP server on stdin and stdout",
    "demo": "an unmodified Llama made faster, end to end, without a model or a GPU",
    "install": "connect an MCP client to this server",
    "doctor": "what works on this machine, and what to do about the rest",
    "engine": "status, stop or logs of the engine that runs the jobs",
    "tools": "write or check the tool contracts in tools/",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one subcommand and return its exit status; 2 for a call that cannot be carried out."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="kforge-mcp", description="Turn the hot operators of a PyTorch model into faster kernels, through MCP."
    )
    parser.add_argument("--version", action="version", version=f"kforge-mcp {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    chosen = next((word for word in words if not word.startswith("-")), "")
    for name, summary in COMMANDS.items():
        subparser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
        if name == chosen:
            importlib.import_module(f"kforge_mcp.cli.{name}").add_arguments(subparser)
    options = parser.parse_args(words)
    try:
        return importlib.import_module(f"kforge_mcp.cli.{options.command}").run(options)
    except KForgeError as error:
        print(f"kforge-mcp {options.command}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    raise SystemExit(main())
