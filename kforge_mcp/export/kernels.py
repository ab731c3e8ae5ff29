"""A kernel that is to be packaged: which binaries serve which variant, and what a call of it does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kforge_mcp.candidate.binding import NOMINAL_SM_COUNT
from kforge_mcp.candidate.plan import Plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.export.calls import cannot_dispatch
from kforge_mcp.export.device_body import DeviceBody, device_body
from kforge_mcp.export.host_body import HostBody, host_body
from kforge_mcp.judge.sanitizers import Sanitized
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import VariantVerdict
from kforge_mcp.records.variant import Variant

Config = dict[str, int | float | bool | str]


@dataclass(frozen=True)
class ServingBinary:
    """A file with a variant's kernels. `symbols` are their names in it, in the order in which the body numbers them."""

    path: Path
    symbols: tuple[str, ...]
    arch: str = ""
    """`sm_90a`, or `compute_80` for PTX; empty for the CPU."""
    judged: bool = True
    """Whether the judge measured this very file; it has measured one of them."""


@dataclass(frozen=True)
class ServedVariant:
    """A variant, the binaries that serve it, and what a call of it does."""

    variant: Variant
    binaries: tuple[ServingBinary, ...]
    body: HostBody | DeviceBody


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
    modes: tuple[str, ...] = ("eager",)
    """Where calls go to the kernel: `eager`, and `cuda_graph` while one is captured."""
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
    further: Sequence[Binary] = (),
    sm_count: int = NOMINAL_SM_COUNT,
) -> Kernel | NotPackaged:
    """Bring together what serves each variant that holdout showed to be faster; the others are left to the original.

    `binaries` are those that were judged, on a device with `sm_count` multiprocessors; `further` ones are of the same
    source for other architectures.
    """
    if plan.inplace:
        return NotPackaged("it works in place, which packages do not support yet")
    if card.level == "torch":
        return NotPackaged("cards of torch's own operators are not packaged yet")
    shown = {verdict.variant_id: verdict for verdict in verdicts}
    served: list[ServedVariant] = []
    left_out: dict[str, str] = {}
    for variant in card.variants:
        reason = _unproven(variant, shown.get(variant.variant_id)) or cannot_dispatch(variant, plan.target)
        outcome = reason or _serve(variant, plan, config, binaries, further, sm_count)
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
        modes=("eager",) if plan.target == "cpu" else ("eager", "cuda_graph"),
        source=plan.source,
        config=config,
        variants=tuple(served),
        holdout=holdout,
        verdicts=tuple(verdicts),
        left_out=left_out,
        nondeterministic=plan.nondeterministic,
    )


def _unproven(variant: Variant, verdict: VariantVerdict | None) -> str:
    if verdict is None or not verdict.claimed:
        return "not claimed by the candidate"
    if verdict.verdict != "faster":
        return f"holdout: {(verdict.verdict or verdict.message or 'not measured').replace('_', ' ')}"
    return ""


def _serve(
    variant: Variant, plan: Plan, config: Config, binaries: Sequence[Binary], further: Sequence[Binary], sm_count: int
) -> ServedVariant | str:
    def fitting(some: Sequence[Binary]) -> list[Binary]:
        return [one for one in some if variant.variant_id in one.variants and one.config == config]

    judged, others = fitting(binaries), fitting(further)
    if not judged:
        return "no binary was compiled for it"
    operands = [argument.name for argument in variant.arguments if argument.kind in ("tensor", "none")]
    if plan.target == "cpu":
        body = host_body(plan, variant, config, operands)
    else:
        body = device_body(plan, variant, config, operands, sm_count=sm_count)
    if isinstance(body, Rejected):
        return body.message
    if isinstance(body, str):
        return body
    if isinstance(body, HostBody):
        return ServedVariant(variant, (ServingBinary(Path(judged[0].path), (judged[0].entry,)),), body)
    archs = {one.arch for one in judged}
    served = [_device_binary(one, body, judged=True) for one in judged]
    served += [_device_binary(one, body, judged=False) for one in others if one.arch not in archs]
    return ServedVariant(variant, tuple(served), body)


def _device_binary(binary: Binary, body: DeviceBody, *, judged: bool) -> ServingBinary:
    symbols = {kernel.kernel: kernel.symbol for kernel in binary.kernels}
    return ServingBinary(Path(binary.path), tuple(symbols[name] for name in body.kernels), binary.arch, judged)


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
