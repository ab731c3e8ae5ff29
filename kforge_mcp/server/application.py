"""The state behind the tools: settings, and the workspace, opened by the first call that needs it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

from kforge_mcp.errors import UsageError
from kforge_mcp.server.settings import Settings

if TYPE_CHECKING:
    from kforge_mcp.store.workspace import Workspace

Call = Context[Any, Any]
"""The context of one call, as tools receive it; `application(ctx)` is what stands behind."""


class Application:
    """One server's state. Opening the workspace imports the database layer, so the handshake must not wait for it."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._workspace: Workspace | None = None
        self._lock = threading.Lock()

    @property
    def workspace(self) -> Workspace:
        """The workspace; call it in a thread. Raises `WorkspaceError` if it cannot be used."""
        with self._lock:
            if self._workspace is None:
                from kforge_mcp.store.workspace import Workspace, default_root

                self._workspace = Workspace.open(self.settings.workspace or default_root())
            return self._workspace

    def close(self) -> None:
        """Close the workspace if it was opened."""
        with self._lock:
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None

    def inside(self, path: str, what: str) -> Path:
        """A path, relative to the project folder, that must lie in the workspace or the project folder.

        Links are followed first. Raises `UsageError` naming both folders.
        """
        roots = (self.workspace.root.resolve(), self.settings.project_dir.resolve())
        resolved = (self.settings.project_dir / Path(path).expanduser()).resolve()
        if not any(resolved.is_relative_to(root) for root in roots):
            raise UsageError(
                f"{what} {resolved} lies outside of the folders that this server may use: the workspace {roots[0]} and "
                f"the project folder {roots[1]}. Choose a path inside one of them."
            )
        return resolved


def application(ctx: Call) -> Application:
    """The application that serves this call."""
    return ctx.request_context.lifespan_context


def client_name(ctx: Call) -> str:
    """Name and version of the client that calls, as it introduced itself; empty if it did not."""
    params = ctx.session.client_params
    return f"{params.client_info.name} {params.client_info.version}".strip() if params else ""


def provenance(ctx: Call) -> dict[str, Any]:
    """What the client reports of the model behind a call, in the call's `_meta`: `model`, `tokens`, `cost_usd`.

    Values of a wrong type are left out: they are remarks of the client, not arguments.
    """
    reported: Any = dict(ctx.request_context.meta or {})
    kept: dict[str, Any] = {}
    if isinstance(reported.get("model"), str):
        kept["model"] = reported["model"][:100]
    for name, kind in (("tokens", int), ("cost_usd", float)):
        value = reported.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12:
            kept[name] = kind(value)
    return kept
