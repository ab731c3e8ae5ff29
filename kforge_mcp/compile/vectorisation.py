"""What the C++ compiler made of a CPU candidate's loops, on demand."""

from __future__ import annotations

import re

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.signature import groups
from kforge_mcp.compile.build import Limits, build
from kforge_mcp.compile.source import CANDIDATE_FILE, translation_unit
from kforge_mcp.compile.toolchain import find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard

_FLAGS = {
    "gcc": ("-fopt-info-vec-optimized", "-fopt-info-vec-missed"),
    "clang": ("-Rpass=loop-vectorize", "-Rpass-missed=loop-vectorize", "-Rpass-analysis=loop-vectorize"),
}
_REMARK = re.compile(
    rf"^{re.escape(CANDIDATE_FILE)}:(?P<line>\d+):\d+: (?:optimized|missed|remark):\s*(?P<text>.*?)\s*(?:\[-R\S+\])?$"
)
# clang's remark stands at the function where `#line` hides the loop's place; the note after it has the place.
_PLACE = re.compile(
    rf"^{re.escape(CANDIDATE_FILE)}:\S+ note: could not determine the original source location for "
    rf"{re.escape(CANDIDATE_FILE)}:(?P<line>\d+):"
)
# g++ explains every statement that stands in the way; these say it of a loop.
_TELLING = re.compile(r"loop|vectorized using|not vectorized|unsupported|dependence|aliasing", re.IGNORECASE)


def vectorisation_report(ctx: JobContext, plan: Plan, card: OperatorCard, config: Config) -> str:
    """For each group of types, the loops that were vectorised and those that were not, beside their lines.

    Raises:
        ToolchainError: no usable compiler, or no ninja.
    """
    toolchain = find_toolchain(ctx)
    options = [*plan.options, *_FLAGS[toolchain.kind]]
    found = groups(plan, card, config)
    units = {f"unit{number}": translation_unit(plan, group, config) for number, group in enumerate(found)}
    built, _ = build(ctx, toolchain, units, options, Limits())
    parts = [f"{toolchain.version}, {' '.join(toolchain.baseline)}"]
    for name, group in zip(units, found, strict=True):
        parts.append(f"for {', '.join(variant.variant_id for variant in group.variants)}:")
        parts += read_remarks(built[name].compiler_log, plan.source) or ["  no loop was considered"]
    return "\n".join(parts) + "\n"


def read_remarks(log: str, source: str) -> list[str]:
    """The compiler's remarks about loops of the author's file, each line's once, in the order of the lines."""
    lines = source_lines(source)
    said: dict[int, dict[str, None]] = {}
    for number, text in _remarks(log):
        if _TELLING.search(text) and 0 < number <= len(lines):
            said.setdefault(number, {})[text.removeprefix("couldn't ")] = None
    report = []
    for number in sorted(said):
        good = [text for text in said[number] if "vectorized" in text and "not vectorized" not in text]
        reasons = good or list(said[number])
        report.append(f"  line {number}: {'; '.join(reasons[:3])} | {lines[number - 1].strip()[:100]}")
    return report


def _remarks(log: str) -> list[tuple[int, str]]:
    """Line and text of every remark."""
    found: list[tuple[int, str]] = []
    placed = True
    for raw in log.splitlines():
        if match := _REMARK.match(raw):
            found.append((int(match["line"]), match["text"]))
            placed = False
        elif (note := _PLACE.match(raw)) and not placed:
            found[-1] = (int(note["line"]), found[-1][1])
            placed = True
    return found
