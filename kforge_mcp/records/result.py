"""What a stage says of a candidate: the fields that clients rely on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from kforge_mcp.records.base import Record

Stage = Literal["compile", "validate", "benchmark"]
Status = Literal["ok", "failed", "queued", "running", "cancelled"]
VerdictWord = Literal["faster", "slower", "no_difference_shown"]
Reason = Literal[
    "syntax_error", "contract_error", "limit_exceeded", "launch_failed", "wrong_result", "nan_mismatch",
    "input_mutated", "out_of_bounds", "nondeterministic", "crashed", "timed_out", "out_of_memory",
    "below_speed_of_light", "sandbox_violation", "state_changed", "weak_oracle", "device_busy",
    "target_unavailable", "budget_exhausted", "internal_error",
]  # fmt: skip


class Diagnostic(Record):
    """One message of a compiler or of the metadata reader. Lines and columns count from 1; 0 is unknown."""

    severity: Literal["error", "warning", "note"]
    message: str
    line: int = 0
    column: int = 0
    source_line: str = ""
    hint: str = ""


class VariantVerdict(Record):
    """The judge's figures for one variant. Times in microseconds, ratios of eager to candidate."""

    variant_id: str
    verdict: VerdictWord | None = None
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    eager_us: float | None = None
    candidate_us: float | None = None
    noise_floor: float | None = None
    """e of the A/A run: the largest absolute log ratio in the interval of eager against itself."""
    pairs: int = 0
    speed_of_light: float | None = None
    """Speed-of-light time over candidate time, 0 to 1."""
    claimed: bool = True
    """False where the candidate's `where` leaves the variant to eager."""
    message: str = ""


class StageResult(Record):
    """The outcome of one stage, or of the furthest stage that a submission reached."""

    candidate_id: str
    stage: Stage
    status: Status
    reason: Reason | None = None
    message: str = ""
    duplicate_of: str | None = None
    passed: bool = False
    diagnostics: list[Diagnostic] = Field(default_factory=list)
    config: dict[str, int | float | bool | str] = Field(default_factory=dict)
    """The tunables' values that were judged."""
    verdict: VerdictWord | None = None
    speedup: float | None = None
    ci_low: float | None = None
    ci_high: float | None = None
    eager_us: float | None = None
    candidate_us: float | None = None
    speed_of_light: float | None = None
    own_kernel_share: float | None = None
    variants: list[VariantVerdict] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    """What the judge could not apply on this machine, and other things to know."""
