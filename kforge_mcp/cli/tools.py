"""`kforge-mcp tools`: write or check the tool contracts."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--write", action="store_true", help="renew the files, keeping their examples")
    action.add_argument("--check", action="store_true", help="say what is missing, stale or surplus (the default)")
    parser.add_argument(
        "--transcript",
        type=Path,
        metavar="FILE",
        help="with --write: take new examples from what `kforge-mcp demo --transcript FILE` wrote",
    )
    parser.add_argument("--folder", type=Path, default=Path("tools"), help="where the files are (default: tools)")


def run(options: argparse.Namespace) -> int:
    """Write or check; 1 if something is wrong with the files."""
    from kforge_mcp.server import contracts

    if options.write:
        changed = contracts.write(options.folder)
        if options.transcript:
            contracts.clear_examples(options.folder)
            _record(options.transcript, options.folder)
        print(f"{len(changed)} files changed in {options.folder}" + "".join(f"\n  {name}" for name in changed))
        return 0
    problems = contracts.check(options.folder)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print("renew them with: kforge-mcp tools --write", file=sys.stderr)
        return 1
    print(f"{options.folder}: all contracts say what the server says")
    return 0


def _record(transcript: Path, folder: Path) -> None:
    from kforge_mcp.server import contracts

    paths = {}
    for line in transcript.read_text(encoding="utf-8").splitlines():
        call = json.loads(line)
        if "paths" in call:
            paths = call["paths"]
        else:
            contracts.record_example(
                folder, call["tool"], call["arguments"], call["text"], call["structured"], paths=paths
            )
