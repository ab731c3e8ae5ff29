"""A project's report in Markdown: what was captured, found and exported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_mcp.server.results import figure

if TYPE_CHECKING:
    from kforge_mcp.search.status import CardStatus
    from kforge_mcp.store.workspace import Workspace


def project_report(workspace: Workspace, project_id: str) -> str:
    """The report. Raises `NotFoundError` for an unknown project."""
    from kforge_mcp.search.status import search_status
    from kforge_mcp.store import packages

    status = search_status(workspace, project_id)
    with workspace.reading() as session:
        made = packages.of_project(session, project_id)
    project = status.project
    lines = [
        f"# {project.name}",
        "",
        f"Captured from `{project.entry}` on {project.device.name} ({project.target}), torch "
        f"{project.interpreter.torch_version}; one run takes {figure(project.workload_us, digits=5)} us in eager mode.",
        "",
        "| card | level | calls | share | eager us | candidates | best | state |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(state) for state in status.cards),
        "",
        "Figures of the search rank candidates; only those of a package's holdout are evidence.",
    ]
    for package in made:
        names = ", ".join(kernel.card for kernel in package.kernels if kernel.included) or "no active kernel"
        lines += ["", f"Package `{package.name}` ({names}): `{package.path}`, report `{package.report}`"]
    return "\n".join(lines) + "\n"


def _row(state: CardStatus) -> str:
    from kforge_mcp.search.proposals import outcome

    card = state.card
    best = f"`{state.best.candidate_id}` {outcome(state.best)}" if state.best else "none"
    stop = state.stop.reason if state.stop else "open"
    return (
        f"| {card.name} | {card.level} | {card.calls} | {card.share:.1%} | {figure(card.eager_us)} "
        f"| {len(state.candidates)} | {best} | {stop} |"
    )
