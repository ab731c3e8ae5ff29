"""How a tool is declared and put into the server: strict arguments, errors as text for the caller."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import structlog
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import ToolAnnotations
from pydantic import ValidationError

from kforge_mcp.errors import UsageError

log = structlog.get_logger("kforge.server")


@dataclass(frozen=True)
class ToolSpec:
    """One tool: its function, whose docstring is the description, and what it does to the world."""

    function: Callable[..., Any]
    title: str
    toolset: str
    read_only: bool
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    @property
    def name(self) -> str:
        """The tool's name on the wire."""
        return self.function.__name__


class StrictTool(Tool):
    """A tool that names wrong arguments, and shows the caller the text of errors that are meant for it."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:
        """Run the tool. Raises `ToolError` with a text that says what failed and what to do next."""
        try:
            return await super().run(arguments, context, convert_result)
        except UnexpectedToolError as crash:
            if isinstance(crash.__cause__, UsageError):
                raise ToolError(str(crash.__cause__)) from crash.__cause__
            log.error("tool crashed", tool=self.name, exc_info=crash.__cause__)
            kind = type(crash.__cause__).__name__
            raise ToolError(
                f"{self.name} failed inside the server ({kind}). This is a fault of kforge, not of the call; the "
                "server's log on stderr has the trace. Trying once more is safe; search_status tells where things are."
            ) from crash
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(self._explain(error.__cause__)) from error.__cause__
            if isinstance(error.__cause__, ToolError):
                raise error.__cause__ from None
            raise

    def _explain(self, error: ValidationError) -> str:
        faults = []
        for fault in error.errors(include_url=False, include_input=False):
            name = ".".join(str(part) for part in fault["loc"])
            if fault["type"] == "extra_forbidden":
                faults.append(f"there is no argument {name!r}")
            elif fault["type"] == "missing":
                faults.append(f"{name!r} is missing")
            else:
                faults.append(f"{name!r}: {fault['msg']}")
        names = ", ".join(self.parameters["properties"])
        return f"{self.name} was called wrongly: {'; '.join(faults)}. Its arguments: {names}."


def make_tool(spec: ToolSpec) -> StrictTool:
    """The tool as the server holds it: closed arguments, schemas without the noise of titles."""
    made = StrictTool.from_function(
        spec.function,
        name=spec.name,
        title=spec.title,
        description=inspect.getdoc(spec.function),
        annotations=ToolAnnotations(
            read_only_hint=spec.read_only,
            destructive_hint=spec.destructive,
            idempotent_hint=spec.idempotent,
            open_world_hint=spec.open_world,
        ),
    )
    tool = cast(StrictTool, made)
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = plain(arguments.model_json_schema())
    if tool.fn_metadata.output_schema is not None:
        tool.fn_metadata.output_schema = plain(tool.fn_metadata.output_schema)
    return tool


def plain(schema: Any) -> Any:
    """A JSON schema without what only costs tokens: pydantic's titles, and `anyOf` for a type or null.

    A property may be called `title`, so names of properties are kept.
    """
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "title" and isinstance(value, str):
            continue
        if key in ("properties", "$defs") and isinstance(value, dict):
            cleaned[key] = {name: plain(part) for name, part in value.items()}
        else:
            cleaned[key] = plain(value)
    choices = cleaned.get("anyOf", [])
    if choices and all(set(choice) == {"type"} for choice in choices):
        cleaned["type"] = [choice["type"] for choice in cleaned.pop("anyOf")]
    return cleaned
