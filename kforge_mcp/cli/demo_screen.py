"""What the demo shows: live progress, verdicts as they come, and the final table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

Row = dict[str, Any]
_COLOURS = {"faster": "green", "slower": "red", "no_difference_shown": "yellow"}


class Screen:
    """Draws on the terminal; plain lines where there is none."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console()
        if not self._console.is_terminal:
            self._console.width = 120
        self._status: Status | None = None
        self._tool = ""

    @contextmanager
    def working(self, tool: str) -> Iterator[None]:
        """A spinner with the latest progress while a tool works."""
        self._tool = tool
        with self._console.status(tool) as status:
            self._status = status
            try:
                yield
            finally:
                self._status = None

    def progress(self, message: str) -> None:
        """The newest progress of the tool at work."""
        if self._status:
            self._status.update(escape(message or self._tool))

    def captured(self, capture: Row, cards: list[Row]) -> None:
        """The workload and its most rewarding cards."""
        python = capture.get("interpreter") or {}
        self._console.print(
            f"[bold]captured[/] {escape(capture['entry'])} on {escape(capture['device'])}: one run takes "
            f"{capture['workload_us'] / 1000:.1f} ms in eager mode, {capture['cards']} operator cards"
        )
        self._console.print(f"model interpreter: {escape(str(python.get('executable')))}, by {python.get('found_by')}")
        table = Table("operator", "level", "calls", "share", "eager us", "ceiling", "", title="Operator cards by gain")
        for column in table.columns[2:6]:
            column.justify = "right"
        for card in cards[:12]:
            state = "" if card["eligible"] and card["worth_it"] else card["reason"] or "not worth it"
            table.add_row(
                escape(card["name"]),
                card["level"],
                str(card["calls"]),
                f"{card['share']:.2%}",
                f"{card['eager_us']:.0f}",
                f"{card['gain_ceiling']:.3f}x",
                escape(state[:50]),
            )
        self._console.print(table)

    def repaired(self, verdict: Row, *, changed: bool) -> None:
        """A submission that was broken on purpose, and what the server said of it."""
        place = next((item for item in verdict.get("diagnostics", [])), None)
        said = f"line {place['line']}: {place['message']} {place['hint']}" if place else verdict.get("message", "")
        after = "repaired from the text" if changed else "not repaired"
        self._console.print(f"[yellow]broken on purpose[/]: {verdict.get('reason')}: {escape(said.strip())} -> {after}")

    def verdict(self, card: Row, what: str, verdict: Row) -> None:
        """The outcome of one candidate."""
        word = verdict.get("verdict") or verdict.get("reason") or verdict["status"]
        colour = _COLOURS.get(word, "red")
        figures = f" {_ratio(verdict)}" if verdict.get("speedup") else f" {escape(verdict.get('message', '')[:200])}"
        plain = word.replace("_", " ")
        self._console.print(f"{escape(card['name'])}, {escape(what)}: [{colour}]{plain}[/]{figures}")

    def stopped(self, card: Row, reason: str, message: str) -> None:
        """Why a card gets no more proposals."""
        self._console.print(f"{escape(card['name'])}: no more proposals, {reason.replace('_', ' ')}: {escape(message)}")

    def exported(self, export: Row) -> None:
        """The final table, the model with and without the package, and where things lie."""
        table = Table(
            "operator", "calls", "share", "eager us", "candidate us", "speed-up (99 %)", "verdict", "in the package",
            title="Measured again on fresh processes",
        )  # fmt: skip
        for column in table.columns[1:6]:
            column.justify = "right"
        for kernel in export.get("kernels", []):
            word = kernel["verdict"] or "not measured"
            colour = _COLOURS.get(word, "red")
            table.add_row(
                escape(kernel["card"]),
                str(kernel["calls"]),
                f"{kernel['share']:.2%}",
                _number(kernel["eager_us"]),
                _number(kernel["candidate_us"]),
                _ratio(kernel),
                f"[{colour}]{word.replace('_', ' ')}[/]",
                "yes" if kernel["included"] else escape(kernel["reason"]),
            )
        self._console.print(table)
        for mode in export.get("end_to_end", []):
            equal = "outputs equal within tolerance" if mode["outputs_equal"] else "[red]OUTPUTS DIFFER[/]"
            self._console.print(
                f"[bold]whole model, {mode['mode']}[/]: {mode['eager_us'] / 1000:.1f} -> "
                f"{mode['package_us'] / 1000:.1f} ms, {_ratio(mode)}, {mode['verdict'].replace('_', ' ')}; "
                f"{equal} ({escape(mode['difference'])})"
            )
        for name in ("message", "path", "wheel", "report"):
            if export.get(name):
                self._console.print(f"{name}: {escape(export[name])}", soft_wrap=True)

    def failure(self, message: str) -> None:
        """What ended the demo."""
        self._console.print(f"[red]{escape(message)}[/]")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _ratio(row: Row) -> str:
    if row.get("speedup") is None:
        return ""
    return f"{row['speedup']:.2f}x \\[{row['ci_low']:.2f}, {row['ci_high']:.2f}]"
