"""From source text to a checked plan, and what follows from a plan: its identity, configurations and claims."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator

from kforge_mcp.candidate.binding import bind, bind_workspaces, claimed
from kforge_mcp.candidate.declaration import Config, Plan, Scalar
from kforge_mcp.candidate.expressions import Expression
from kforge_mcp.candidate.kernel_names import spelled
from kforge_mcp.candidate.metadata import Metadata, read_metadata, source_lines
from kforge_mcp.candidate.reading import MAX_ARGUMENTS, Reader
from kforge_mcp.candidate.reading_memory import read_tensor_maps, read_workspaces
from kforge_mcp.candidate.reading_steps import read_steps
from kforge_mcp.candidate.rejection import Rejected, located
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.candidate.steps import Call, Launch, TensorMap
from kforge_mcp.candidate.tokens import tokens
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target
from kforge_mcp.records.result import Diagnostic
from kforge_mcp.records.variant import Variant

__all__ = ["Config", "Plan", "Rejected", "Scalar", "claims", "configurations", "parse_plan", "source_key"]

MAX_SOURCE_BYTES = 512 * 1024


def parse_plan(source: str, card: OperatorCard, target: Target) -> Plan | Rejected:
    """Read the metadata of a candidate and check it against every variant of its card.

    Expressions are evaluated for every variant and configuration, so what has no value in one of them (an index
    out of range, an inexact division) is found here.
    """
    if len(source.encode("utf-8", "surrogatepass")) > MAX_SOURCE_BYTES:
        return _refused("limit_exceeded", f"the source is larger than {MAX_SOURCE_BYTES // 1024} KiB")
    if "\0" in source or any("\ud800" <= character <= "\udfff" for character in source):
        return _refused("syntax_error", "the source is not text: it has zero bytes or lone surrogates")
    metadata = read_metadata(source)
    if isinstance(metadata, Rejected):
        return metadata
    plan = _read(Reader(metadata, source, card, target))
    if isinstance(plan, Rejected):
        return plan
    return _unbindable(plan, card, metadata) or plan


def _read(reader: Reader) -> Plan | Rejected:
    reader.check_keys()
    tunables = reader.tunables()
    pointers = {*reader.table("workspace"), *reader.table("tensor_maps")}
    sizes = {*reader.names, *tunables} - pointers
    claims_by = frozenset(sizes)
    if reader.target == "cuda":
        sizes.add("sm_count")
    known = sizes | pointers
    steps = read_steps(reader, known)
    memory = {*reader.table("workspace"), *(name for step in steps if isinstance(step, Call) for name in step.outs)}
    plan = Plan(
        target=reader.target,
        source=reader.source,
        entry=reader.entry(known),
        args=reader.expressions(("args",), known, most=MAX_ARGUMENTS) if reader.target == "cpu" else (),
        where=reader.expression(("where",), claims_by) if "where" in reader.values else None,
        options=reader.options(),
        inplace=reader.inplace(),
        nondeterministic=reader.flag("nondeterministic"),
        steps=steps,
        workspace=read_workspaces(reader, sizes),
        tunables=tunables,
        tensor_maps=read_tensor_maps(reader, sizes, memory),
        metadata_lines=(reader.metadata.first_line, reader.metadata.last_line),
    )
    return reader.rejected() or plan


def _refused(reason: str, message: str) -> Rejected:
    return Rejected(reason, (Diagnostic(severity="error", message=message),), message)  # pyright: ignore[reportArgumentType]


def _unbindable(plan: Plan, card: OperatorCard, metadata: Metadata) -> Rejected | None:
    any_claimed = False
    for config in configurations(plan):
        for variant in card.variants:
            decision = claimed(plan, variant, config)
            if isinstance(decision, Rejected):
                return decision
            if not decision:
                continue
            any_claimed = True
            for bound in _bound(plan, variant, config):
                if isinstance(bound, Rejected):
                    return bound
    if any_claimed:
        return None
    line, column = metadata.place(("where",))
    text = source_lines(plan.source)[line - 1]
    message = f"`where` claims none of the card's {len(card.variants)} variants"
    return located(
        "contract_error",
        [Diagnostic(severity="error", message=message, line=line, column=column, source_line=text[:200])],
    )


def _bound(plan: Plan, variant: Variant, config: Config) -> Iterator[object]:
    if plan.target == "cuda":
        yield bind_steps(plan, variant, config, ends_only=True)
    else:
        yield bind(plan, variant, config)
        yield bind_workspaces(plan, variant, config)


def configurations(plan: Plan) -> list[Config]:
    """Every combination of the tunables' values, the first values first; one empty configuration if there are none."""
    return [dict(zip(plan.tunables, values, strict=True)) for values in itertools.product(*plan.tunables.values())]


def claims(plan: Plan, variant: Variant, config: Config) -> bool:
    """Whether the candidate claims this variant: its `where` holds. The plan must have been parsed for its card."""
    return claimed(plan, variant, config) is True


def source_key(plan: Plan) -> str:
    """A hash of the parsed metadata and the code's tokens: equal keys are one candidate.

    Comments, white space and the spelling of expressions do not count.
    """
    first, last = plan.metadata_lines
    lines = source_lines(plan.source)
    code = "\n".join(lines[: first - 1] + lines[last:])
    metadata = {
        "target": plan.target,
        "entry": plan.entry,
        "args": [expression.canonical for expression in plan.args],
        "where": plan.where.canonical if plan.where else "",
        "options": sorted(plan.options),
        "inplace": plan.inplace,
        "nondeterministic": plan.nondeterministic,
        "steps": [_step_key(step) for step in plan.steps],
        "workspace": [
            [space.name, space.dtype, [size.canonical for size in space.shape], space.init] for space in plan.workspace
        ],
        "tunables": {name: list(values) for name, values in plan.tunables.items()},
        "tensor_maps": [_map_key(one) for one in plan.tensor_maps],
    }
    digest = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for token in tokens(code):
        digest.update(b"\0" + token.encode())
    return digest.hexdigest()


def _step_key(step: Launch | Call) -> list[object]:
    if isinstance(step, Call):
        args = [[one.canonical for one in item] if isinstance(item, tuple) else item.canonical for item in step.args]
        return [step.call, args, *step.outs]
    sizes = [_texts(sizes) for sizes in (step.grid, step.block, step.cluster, step.args)]
    single = [one.canonical if one else "" for one in (step.shared_bytes, step.repeat)]
    return [spelled(step.kernel), *sizes, *single, step.cooperative]


def _map_key(one: TensorMap) -> list[object]:
    sizes = [_texts(sizes) for sizes in (one.box, one.shape, one.stride, one.element_strides)]
    words = [one.swizzle, one.interleave, one.l2_promotion, one.out_of_bounds]
    return [one.name, one.tensor.canonical, *sizes, *words]


def _texts(expressions: Iterable[Expression]) -> list[str]:
    return [expression.canonical for expression in expressions]
