"""Resources: guides, and what the tools return in pages, whole."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError

from kforge_mcp.errors import NotFoundError, UsageError
from kforge_mcp.server.application import Application

TOPICS = ("loop", "candidate", "verdict", "export")


def guide(topic: str) -> str:
    """A guide's text. Raises `ResourceNotFoundError` naming the topics that there are."""
    if topic not in TOPICS:
        raise ResourceNotFoundError(f"there is no guide {topic!r}. There are: {', '.join(TOPICS)}.")
    return (files("kforge_mcp.server") / "guides" / f"{topic}.md").read_text(encoding="utf-8")


def register(server: MCPServer[Any], app: Application) -> None:
    """Add the resource templates. Functions are plain, so the SDK runs them in threads."""

    @server.resource("kforge://guide/{topic}", title="A guide", mime_type="text/markdown")
    def read_guide(topic: str) -> str:
        """How to do something: loop, candidate, verdict or export."""
        return guide(topic)

    @server.resource("kforge://cards/{card_id}", title="An operator card", mime_type="text/plain")
    def read_card(card_id: str) -> str:
        """An operator card with the whole of its reference source, variants and seed."""
        from kforge_mcp.server.card_page import card_page

        return _said(lambda: card_page(app.workspace, card_id).version(0, 1 << 30, 1 << 30, 1 << 30)[0])

    @server.resource("kforge://candidates/{candidate_id}/{part}", title="A part of a candidate", mime_type="text/plain")
    def read_candidate(candidate_id: str, part: str) -> str:
        """A candidate's verdict, source, log, sass, diff or samples, whole."""
        from kforge_mcp.server.candidate_parts import candidate_part

        return _said(lambda: candidate_part(app.workspace, candidate_id, part)[1])

    @server.resource("kforge://projects/{project_id}/report", title="A project's report", mime_type="text/markdown")
    def read_report(project_id: str) -> str:
        """Where a project stands: every card with its best candidate, and its packages."""
        from kforge_mcp.server.report import project_report

        return _said(lambda: project_report(app.workspace, project_id))


def _said(read: Any) -> str:
    """What was read, with errors that are meant for the reader as such."""
    try:
        return read()
    except NotFoundError as error:
        raise ResourceNotFoundError(str(error)) from error
    except UsageError as error:
        raise ResourceError(str(error)) from error
