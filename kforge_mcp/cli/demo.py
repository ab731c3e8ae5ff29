"""`kforge-mcp demo`: an agent's loop without a language model, through the MCP client alone.

It knows of the server what any client knows: it starts one over stdio, reads results, and takes its sources from the
proposals it gets. Nothing of this project is imported here but the screen it draws on.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from kforge_mcp.cli.demo_screen import Screen

_INSTALLED = Path(__file__).with_name("demo_llama.py")
LLAMA = _INSTALLED if _INSTALLED.exists() else Path(__file__).resolve().parents[2] / "examples" / "llama.py"
"""The wheel carries the example beside this file."""
PACKAGE = "llama_kernels"
Row = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The demo's options."""
    parser.add_argument("--entry", default=f"{LLAMA}:build", help="file.py:function of the model (default: a Llama)")
    parser.add_argument("--workspace", default=".kforge/demo", help="folder for everything the demo makes")
    parser.add_argument("--name", default=PACKAGE, help="name of the exported package")
    parser.add_argument("--candidates", type=int, default=3, metavar="N", help="candidates a card at most")
    parser.add_argument("--cards", type=int, default=3, metavar="N", help="cards to work on at most")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows, end-to-end figures and package path")
    parser.add_argument("--transcript", type=Path, metavar="FILE", help="write every call and its result, JSON lines")


def run(options: argparse.Namespace) -> int:
    """Run the demo; 0 if a package with an active kernel came out and the model got neither slower nor wrong."""
    screen = Screen()
    try:
        return asyncio.run(_demo(options, screen))
    except* ToolFailedError as failures:  # the client's task groups wrap what is raised inside them
        failure: BaseException = failures
        while isinstance(failure, BaseExceptionGroup):
            failure = failure.exceptions[0]
        screen.failure(str(failure))
    return 1


class ToolFailedError(Exception):
    """A tool answered that the call could not be carried out."""


class Agent:
    """An MCP client that waits for long work and keeps a transcript."""

    def __init__(self, client: Client, screen: Screen, transcript: Path | None, paths: dict[str, str]) -> None:
        self._client = client
        self._screen = screen
        self._transcript = transcript
        if transcript:
            transcript.write_text("")
            self._note({"paths": {str(Path(key).resolve()): name for key, name in paths.items()}})

    async def call(self, tool: str, **arguments: Any) -> Row:
        """Call a tool and wait for its result, following `job_id` while the work goes on.

        Raises `ToolFailedError` with the server's text if the call was unusable.
        """
        with self._screen.working(tool):
            result = await self._once(tool, arguments)
            while result.get("status") in ("queued", "running") and result.get("job_id"):
                job = await self._once("job_status", {"job_id": result["job_id"], "wait_s": 30})
                if job["status"] in ("queued", "running"):
                    continue
                result = job.get("result") or job
        return result

    async def _once(self, tool: str, arguments: Row) -> Row:
        async def report(progress: float, total: float | None, message: str | None) -> None:
            self._screen.progress(message or "")

        result = await self._client.call_tool(tool, arguments, progress_callback=report)
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        if self._transcript:
            self._note({"tool": tool, "arguments": arguments, "text": text, "structured": result.structured_content})
        if result.is_error:
            raise ToolFailedError(f"{tool}: {text}")
        return result.structured_content or {}

    def _note(self, line: Row) -> None:
        assert self._transcript is not None
        with self._transcript.open("a") as file:
            file.write(json.dumps(line) + "\n")


async def _demo(options: argparse.Namespace, screen: Screen) -> int:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "kforge_mcp.cli.main", "serve", "--workspace", options.workspace, "--project-dir", os.getcwd()],
        env=dict(os.environ),
    )
    with _server_log(Path(options.workspace)) as log:
        from mcp.client.stdio import stdio_client

        async with Client(stdio_client(server, errlog=log)) as client:
            # A transcript may be published: it says which folders stand for places of this machine.
            places = {
                options.workspace: "/workspace",
                os.getcwd(): "/project",
                str(LLAMA.parents[1]): "/kforge",
                sys.prefix: "/server",
            }
            agent = Agent(client, screen, options.transcript, places)
            capture = await agent.call("capture_model", entry=options.entry)
            if capture["status"] != "ok":
                raise ToolFailedError(f"capture_model: {capture.get('message', capture['status'])}")
            listing = await agent.call("list_operator_cards", project_id=capture["project_id"], limit=20)
            screen.captured(capture, listing["cards"])
            measured = await _search(agent, screen, listing["cards"], options)
            if options.transcript and measured:
                await _tour(agent, capture["project_id"], measured[-1])
            export = await agent.call(
                "export_package", project_id=capture["project_id"], name=options.name, overwrite=True
            )
    screen.exported(export)
    summary = _summary(export)
    if options.json:
        options.json.write_text(json.dumps(summary, indent=2) + "\n")
    return 0 if summary["succeeded"] else 1


@contextmanager
def _server_log(workspace: Path) -> Iterator[Any]:
    workspace.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (workspace / "demo-server.log").open("a") as log:
        yield log


async def _search(agent: Agent, screen: Screen, cards: list[Row], options: argparse.Namespace) -> list[str]:
    """Expand the cards that have seeds; the very first submission is broken on purpose and then repaired.

    Returns the ids of the candidates that were measured.
    """
    broken_shown = False
    measured = []
    chosen = 0
    for card in cards:
        if chosen == options.cards or not card["eligible"] or not card["worth_it"]:
            continue
        details = await agent.call("get_operator_card", card_id=card["card_id"])
        if details["seed_name"] in ("", "minimal"):
            # Without a language model there is nothing to propose where no family of seeds fits.
            continue
        chosen += 1
        for _ in range(options.candidates):
            answer = await agent.call("next_proposal", card_id=card["card_id"])
            if not answer["proposals"]:
                screen.stopped(card, answer["stop_reason"], answer["message"])
                break
            proposal = answer["proposals"][0]
            source = proposal["seed_source"]
            if not source:
                break
            if not broken_shown:
                broken_shown = True
                source = await _show_repair(agent, screen, proposal, source)
            verdict = await _submit(agent, proposal, source, f"seed {proposal['seed_name']}")
            screen.verdict(card, proposal["seed_name"], verdict)
            if verdict.get("verdict"):
                measured.append(verdict["candidate_id"])
    return measured


async def _tour(agent: Agent, project_id: str, candidate_id: str) -> None:
    """Call the tools that the loop did not need, so that a transcript has an example of each."""
    await agent.call("set_budget", project_id=project_id, iterations=100)
    await agent.call("search_status", project_id=project_id)
    await agent.call("get_candidate", candidate_id=candidate_id)
    await agent.call("profile_candidate", candidate_id=candidate_id)
    source = await agent.call("get_candidate", candidate_id=candidate_id, part="source")
    compiled = await agent.call("compile_candidate", card_id=source["card_id"], source=source["text"] + "// again\n")
    await agent.call("validate", candidate_id=compiled["candidate_id"])
    job = await agent.call("benchmark", candidate_id=compiled["candidate_id"])
    await agent.call("cancel_job", job_id=job["job_id"])


async def _submit(agent: Agent, proposal: Row, source: str, note: str) -> Row:
    return await agent.call(
        "submit_candidate",
        card_id=proposal["card_id"],
        source=source,
        parent_id=proposal["parent_id"],
        lease_id=proposal["lease_id"],
        note=note,
        author="kforge demo",
    )


async def _show_repair(agent: Agent, screen: Screen, proposal: Row, source: str) -> str:
    """Submit the source with a misspelt name, then repair it from what the server says, keeping the lease."""
    name = _first_argument(source)
    broken = re.sub(rf'(args\s*=\s*\[[^\]]*?")({name})"', rf'\1{name}s"', source, count=1)
    verdict = await _submit(agent, proposal, broken, "a misspelt argument, on purpose")
    repaired = repair(broken, verdict)
    screen.repaired(verdict, changed=repaired != broken)
    return repaired


def _first_argument(source: str) -> str:
    found = re.search(r'args\s*=\s*\[\s*"([A-Za-z_]\w*)', source)
    return found.group(1) if found else ""


def repair(source: str, verdict: Row) -> str:
    """The source with each misspelt name replaced by the one that a diagnostic suggests, on the line it names."""
    lines = source.split("\n")
    for item in verdict.get("diagnostics", []):
        said = f"{item['message']} {item['hint']}"
        wrong = re.search(r"['\"`](\w+)['\"`]", said)
        right = re.search(r"did you mean ['\"`]?(\w+)", said, re.IGNORECASE)
        if wrong and right and 0 < item["line"] <= len(lines):
            index = item["line"] - 1
            lines[index] = re.sub(rf"\b{wrong.group(1)}\b", right.group(1), lines[index])
    return "\n".join(lines)


def _summary(export: Row) -> Row:
    """What `--json` writes. It succeeded if a kernel is active and the model is neither slower nor different."""
    kernels = export.get("kernels", [])
    fields = ("card", "level", "included", "reason", "calls", "share", "verdict", "speedup", "ci_low", "ci_high",
              "eager_us", "candidate_us")  # fmt: skip
    modes = export.get("end_to_end", [])
    held = all(mode["verdict"] != "slower" and mode["outputs_equal"] for mode in modes)
    return {
        "rows": [{field: kernel.get(field) for field in fields} for kernel in kernels],
        "end_to_end": modes,
        "package": export.get("path", ""),
        "wheel": export.get("wheel", ""),
        "report": export.get("report", ""),
        "succeeded": bool(modes) and held and any(kernel["included"] for kernel in kernels),
    }
