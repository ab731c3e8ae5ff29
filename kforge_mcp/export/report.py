"""VERIFICATION.md: what was measured, how, and what was not."""

from __future__ import annotations

from typing import Any

from kforge_mcp.export.baseline import Baseline
from kforge_mcp.export.contents import architectures, operators
from kforge_mcp.export.kernels import Kernel
from kforge_mcp.export.rendering import render
from kforge_mcp.records.package import Comparison, Package
from kforge_mcp.records.project import Project
from kforge_mcp.records.result import VariantVerdict

Figure = VariantVerdict | Comparison


def verification(
    record: Package,
    project: Project,
    kernels: list[Kernel],
    raw: dict[str, Any],
    baseline: Baseline,
    compiler: str,
    notes: list[str],
) -> str:
    """The report of a package. `raw` is the runtime's answer to the acceptance of exactly these kernels; `notes` say
    which of them some mode leaves to the model's code."""
    return render(
        "VERIFICATION.md.jinja",
        record=record,
        project=project,
        included=[kernel for kernel in record.kernels if kernel.included],
        left_out=[kernel for kernel in record.kernels if not kernel.included],
        left={kernel.card.card_id: kernel.left_out for kernel in kernels},
        findings={kernel.card.card_id: kernel.card.findings for kernel in kernels},
        sanitized={kernel.card.card_id: kernel.sanitized for kernel in kernels},
        nondeterministic={kernel.card.card_id for kernel in kernels if kernel.nondeterministic},
        raw=raw,
        rounds=len(raw["rounds"]),
        baseline=baseline,
        compiler=compiler,
        notes=notes,
        architectures=architectures(operators(kernels)),
        word=_word,
        ratio=_ratio,
        interval=_interval,
        time=_time,
        percent=_percent,
        brief=_brief,
    )


def _word(verdict: str | None) -> str:
    return (verdict or "not measured").replace("_", " ")


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _interval(figure: Figure) -> str:
    if figure.ci_low is None or figure.ci_high is None:
        return ""
    return f"{figure.ci_low:.3f} to {figure.ci_high:.3f}"


def _time(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _brief(figure: Figure | None) -> str:
    if figure is None or figure.speedup is None:
        return ""
    return f"{_word(figure.verdict)}, {_ratio(figure.speedup)} ({_interval(figure)})"
