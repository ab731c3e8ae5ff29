"""An exported package: kernels, guarded dispatch, evidence."""

from __future__ import annotations

from pydantic import Field

from kforge_mcp.records.base import Moment, Record
from kforge_mcp.records.result import VariantVerdict, VerdictWord


class Comparison(Record):
    """Paired times with a verdict. Times in microseconds, `speedup` and interval are eager over package."""

    verdict: VerdictWord
    speedup: float
    ci_low: float
    ci_high: float
    eager_us: float
    package_us: float
    pairs: int


class PackagedKernel(Record):
    """A kernel considered for the package, in or left out."""

    card_id: str
    card: str
    level: str
    candidate_id: str
    included: bool
    reason: str
    calls: int = 0
    share: float = 0.0
    holdout: VariantVerdict | None = None
    """The card's joint figure on holdout; only these numbers are published."""
    variants: list[VariantVerdict] = Field(default_factory=list)
    in_model: Comparison | None = None
    """Time spent in the card's calls inside the running model, with the kernel against without."""


class EndToEnd(Record):
    """The captured workload with the package attached against without."""

    mode: str
    comparison: Comparison
    outputs_equal: bool
    difference: str
    """The largest difference found and the tolerance it was held against, as text."""


class Package(Record):
    """What `export_package` made."""

    package_id: str
    project_id: str
    name: str
    path: str
    wheel: str
    report: str
    kernels: list[PackagedKernel]
    end_to_end: list[EndToEnd]
    created_at: Moment
    digest: str = ""
