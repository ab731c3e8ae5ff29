"""A kernel that is to be packaged: which binary serves which variant, and how its entry is called."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from kforge_mcp.candidate.binding import BoundArgument, BoundWorkspace, bind, bind_workspaces
from kforge_mcp.candidate.plan import Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.export.calls import cannot_dispatch
from kforge_mcp.judge.sanitizers import Sanitized
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import VariantVerdict
from kforge_mcp.records.variant import Variant

Config = dict[str, int | float | bool | str]


@dataclass(frozen=True)
class ServedVariant:
    """A variant with the binary that serves it. `arguments` are in the order of the entry's parameters."""

    variant: Variant
    binary: Path
    entry: str
    arguments: tuple[BoundArgument, ...]
    workspaces: tuple[BoundWorkspace, ...]


@dataclass(frozen=True)
class Kernel:
    """One candidate for one card, with the variants it serves in the package."""

    card: OperatorCard
    candidate_id: str
    source: str
    config: Config
    variants: tuple[ServedVariant, ...]
    holdout: VariantVerdict
    verdicts: tuple[VariantVerdict, ...]
    left_out: dict[str, str] = field(default_factory=dict)
    """Variants that go to the original, with the reason."""
    source_sha256: str = ""
    """Of the captured class or function: attach leaves changed ones alone."""
    sanitized: Sanitized | None = None
    """What a build that checks its own memory accesses and undefined behaviour said; None if there was none."""
    nondeterministic: bool = False
    """As the candidate declared: equal inputs may give different bits."""


@dataclass(frozen=True)
class NotPackaged:
    """A card that gets no kernel, and why."""

    reason: str


def assemble(
    card: OperatorCard,
    plan: Plan,
    config: Config,
    binaries: list[Binary],
    *,
    candidate_id: str,
    holdout: VariantVerdict,
    verdicts: list[VariantVerdict],
) -> Kernel | NotPackaged:
    """Bring together what serves each variant that holdout showed to be faster; the others are left to the original."""
    if plan.inplace:
        return NotPackaged("it works in place, which packages do not support yet")
    if card.level == "torch":
        return NotPackaged("cards of torch's own operators are not packaged yet")
    shown = {verdict.variant_id: verdict for verdict in verdicts}
    served: list[ServedVariant] = []
    left_out: dict[str, str] = {}
    for variant in card.variants:
        outcome = _serve(variant, plan, config, binaries, shown.get(variant.variant_id))
        if isinstance(outcome, ServedVariant):
            served.append(outcome)
        else:
            left_out[variant.variant_id] = outcome
    if not served:
        return NotPackaged("no variant can be served: " + "; ".join(sorted(set(left_out.values()))))
    served, dropped = _of_one_signature(served)
    left_out |= dropped
    return Kernel(
        card=card,
        candidate_id=candidate_id,
        source=plan.source,
        config=config,
        variants=tuple(served),
        holdout=holdout,
        verdicts=tuple(verdicts),
        left_out=left_out,
        nondeterministic=plan.nondeterministic,
    )


def _serve(
    variant: Variant, plan: Plan, config: Config, binaries: list[Binary], verdict: VariantVerdict | None
) -> ServedVariant | str:
    if verdict is None or not verdict.claimed:
        return "not claimed by the candidate"
    if verdict.verdict != "faster":
        return f"holdout: {(verdict.verdict or verdict.message or 'not measured').replace('_', ' ')}"
    reason = cannot_dispatch(variant)
    if reason:
        return reason
    binary = next((item for item in binaries if variant.variant_id in item.variants and item.config == config), None)
    if binary is None:
        return "no binary was compiled for it"
    arguments, workspaces = bind(plan, variant, config), bind_workspaces(plan, variant, config)
    for outcome in (arguments, workspaces):
        if isinstance(outcome, Rejected):
            return outcome.message
    assert not isinstance(arguments, Rejected)
    assert not isinstance(workspaces, Rejected)
    return ServedVariant(variant, Path(binary.path), binary.entry, tuple(arguments), tuple(workspaces))


def _of_one_signature(served: list[ServedVariant]) -> tuple[list[ServedVariant], dict[str, str]]:
    """An operator has one signature, so variants with another number of results or of names go to the original."""

    def signature(item: ServedVariant) -> tuple[object, ...]:
        names = tuple(a.name for a in item.variant.arguments if a.kind in ("tensor", "none"))
        state = tuple(a.path for a in item.variant.arguments if a.path.startswith("self."))
        return len(item.variant.outputs), names, state

    weights: dict[tuple[object, ...], float] = {}
    for item in served:
        key = signature(item)
        weights[key] = weights.get(key, 0.0) + item.variant.calls * item.variant.eager_us
    chosen = max(weights, key=lambda key: weights[key])
    others = [item.variant.variant_id for item in served if signature(item) != chosen]
    kept = [item for item in served if signature(item) == chosen]
    return kept, dict.fromkeys(others, "its arguments or results differ in number from the other variants'")
