"""A card as its reader sees it, cut to whatever room there is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project, Target
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Argument, Variant
from kforge_mcp.server.results import Output, clip, figure
from kforge_mcp.server.rows import CardRow, card_row

if TYPE_CHECKING:
    from kforge_mcp.search.proposals import Starter
    from kforge_mcp.store.workspace import Workspace


class ArgumentRow(Output):
    """A name that a candidate may use: a tensor's pointer, or a constant."""

    name: str
    kind: str
    role: str
    c_type: str
    value: str = Field(default="", description="Of a constant, in the first variant")


_JUDGE_LINES = 4


class CardVariant(Output):
    """One call signature. Times in microseconds for one call."""

    variant_id: str
    calls: int
    eager_us: float
    speed_of_light_us: float
    signature: str


class CardOutput(Output):
    """Everything needed to write a candidate."""

    card: CardRow
    project_id: str
    target: str
    contained_in: list[str]
    weak_oracle: str
    arguments: list[ArgumentRow]
    variants: list[CardVariant]
    variants_total: int
    contract: list[str]
    c_signature: str
    reference_source: str
    reference_total_chars: int
    reference_next_offset: int = Field(description="Pass it as source_offset for the rest; -1 at the end")
    seed_name: str
    seed_source: str
    best_candidate: str = ""


_COMMON = (
    "Outputs are allocated with eager's shape, dtype and strides; write every element.",
    "Inputs must stay unchanged unless the card is in place; no global state, threads of your own, files or sockets.",
    "Judged against a float64 oracle on real and on fresh inputs; a variant that `where` leaves out stays with eager.",
)  # fmt: skip
_FILE = "One file; its plan is a TOML block in line comments between `// /// kforge` and `// ///`; see kforge://guide/candidate."
_CONTRACT: dict[Target, tuple[str, ...]] = {
    "cpu": (
        _FILE,
        "CPU: C++17 with OpenMP; `entry` names an extern \"C\" void function, `args` its arguments in order.",
        *_COMMON,
    ),
    "cuda": (
        _FILE,
        "CUDA: device code only; each [[step]] launches a __global__ function (`kernel`, `grid`, `block`, `args`) or "
        "calls an ATen operator (`call`, `args`, `out`); kforge compiles and checks.",
        *_COMMON,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class CardPage:
    """A card with what was looked up for it."""

    card: OperatorCard
    project: Project
    signature: str
    seed: Starter | None
    best: str

    def version(self, offset: int, source: int, variants: int, seed: int) -> tuple[str, CardOutput]:
        """Text and structure with at most so many characters of source and seed, and so many variants."""
        reference = self.card.reference_source
        part = reference[offset : offset + source]
        end = offset + len(part)
        starter = self.seed.source if self.seed else ""
        if len(starter) > seed:
            starter = ""
        output = CardOutput(
            card=card_row(self.card),
            project_id=self.project.project_id,
            target=self.project.target,
            contained_in=self.card.parents[:5],
            weak_oracle=self.card.weak_oracle,
            arguments=[argument_row(item, self.card, self.project.target) for item in _arguments(self.card)],
            variants=[variant_row(variant) for variant in self.card.variants[:variants]],
            variants_total=len(self.card.variants),
            contract=[*_CONTRACT[self.project.target], *_judge_lines(self.card)],
            c_signature=self.signature,
            reference_source=part,
            reference_total_chars=len(reference),
            reference_next_offset=end if end < len(reference) else -1,
            seed_name=self.seed.name if self.seed else "",
            seed_source=starter,
            best_candidate=self.best,
        )
        return card_text(output), output


def card_page(workspace: Workspace, card_id: str) -> CardPage:
    """Look a card up with its signature, its seed and its best candidate. Raises `NotFoundError`."""
    from kforge_mcp.candidate.signature import c_signature
    from kforge_mcp.search.proposals import outcome, starter
    from kforge_mcp.search.stopping import best_candidate
    from kforge_mcp.store import candidates, cards, projects

    with workspace.reading() as session:
        card = cards.get(session, card_id)
        project = projects.get(session, card.project_id)
        best = best_candidate(candidates.of_card(session, card_id))
    usable = card.eligible and bool(card.variants)
    return CardPage(
        card=card,
        project=project,
        signature=c_signature(card, None, project.target) if usable else "",
        seed=starter(card, project.target) if usable else None,
        best=f"{best.candidate_id}: {outcome(best)}" if best else "",
    )


def _judge_lines(card: OperatorCard) -> list[str]:
    """What the judge found out about the card's inputs and oracle, each finding once."""
    everywhere = len(card.variants)
    lines = [
        f"Judge{'' if len(variants) == everywhere else ', ' + ', '.join(variants[:3])}: {clip(text, 160)}"
        for text, variants in card.findings.items()
    ]
    return lines[:_JUDGE_LINES]


def _arguments(card: OperatorCard) -> list[Argument]:
    return card.variants[0].arguments if card.variants else []


def argument_row(argument: Argument, card: OperatorCard, target: Target) -> ArgumentRow:
    """An argument with the C type that a candidate gets it in."""
    from kforge_mcp.candidate.c_types import tensor_type

    variant = card.variants[0]
    if argument.kind == "constant":
        return ArgumentRow(
            name=argument.name,
            kind=argument.kind,
            role=argument.role,
            c_type=_constant_type(argument, variant, target),
            value=clip(repr(argument.value), 60),
        )
    types = {tensor_type(variant.tensors[index].dtype, target) or "?" for index in argument.tensors}
    kind = "const void*" if argument.kind == "none" else f"const {'/'.join(sorted(types))}*"
    return ArgumentRow(name=argument.name, kind=argument.kind, role=argument.role, c_type=kind)


def _constant_type(argument: Argument, variant: Variant, target: Target) -> str:
    value = argument.value
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64_t" if target == "cpu" else "long long"
    if isinstance(value, float):
        return "double" if any(tensor.dtype == "fp64" for tensor in variant.tensors) else "float"
    return "in expressions only"


def variant_row(variant: Variant) -> CardVariant:
    """A variant with all its tensors in one line."""
    inputs = [
        f"{argument.name} {tensor_text(variant.tensors[index])}"
        for argument in variant.arguments
        for index in argument.tensors
    ]
    outputs = [tensor_text(tensor) for tensor in variant.outputs]
    return CardVariant(
        variant_id=variant.variant_id,
        calls=variant.calls,
        eager_us=float(f"{variant.eager_us:.4g}"),
        speed_of_light_us=float(f"{variant.speed_of_light_us:.4g}"),
        signature=clip(f"{', '.join(inputs)} -> {', '.join(outputs)}", 400),
    )


def tensor_text(tensor: TensorSpec) -> str:
    """Dtype and shape, with strides where the tensor is not contiguous."""
    expected, step = [], 1
    for size in reversed(tensor.shape):
        expected.append(step)
        step *= size
    relevant = [
        (stride, wanted)
        for size, stride, wanted in zip(tensor.shape, tensor.stride, expected[::-1], strict=True)
        if size > 1
    ]
    strides = "" if all(stride == wanted for stride, wanted in relevant) else f" strides {tensor.stride}"
    return f"{tensor.dtype}{tensor.shape}{strides}"


def card_text(output: CardOutput) -> str:
    """The card for a reader who sees text only."""
    row = output.card
    state = "" if row.eligible else f"; not eligible: {row.reason}"
    lines = [
        f"{row.card_id} {row.level} {row.name} ({output.target}): {row.calls} calls, {row.share:.1%} of the time, "
        f"{figure(row.eager_us)} us, ceiling {row.gain_ceiling:.3f}x{state}",
        *([f"note: {row.reason}"] if row.eligible and row.reason else []),
        *([f"weak oracle: {output.weak_oracle}"] if output.weak_oracle else []),
        *([f"best so far: {output.best_candidate}"] if output.best_candidate else []),
        "arguments:",
        *(
            f"  {item.c_type} {item.name} ({item.role})" + (f" = {item.value}" if item.value else "")
            for item in output.arguments
        ),
        f"C signature: {output.c_signature}",
        f"variants ({len(output.variants)} of {output.variants_total}):",
        *(
            f"  {item.variant_id}: {item.calls} calls of {figure(item.eager_us)} us, limit "
            f"{figure(item.speed_of_light_us)} us: {item.signature}"
            for item in output.variants
        ),
        "contract:",
        *(f"  {line}" for line in output.contract),
        f"reference (characters {output.reference_total_chars}"
        + (f"; rest: source_offset={output.reference_next_offset})" if output.reference_next_offset >= 0 else ")"),
        output.reference_source,
    ]
    if output.seed_source:
        lines += [f"a source that compiles ({output.seed_name}):", output.seed_source]
    elif output.seed_name:
        lines.append(f"a source that compiles comes with next_proposal ({output.seed_name})")
    return "\n".join(lines)
