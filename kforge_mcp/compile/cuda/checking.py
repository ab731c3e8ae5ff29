"""From NVRTC's answer to the outcome of one unit: what it uses, and whether it keeps the contract."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kforge_mcp.candidate.declaration import Plan
from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.signature import LaunchDeclaration
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.cache import Entry
from kforge_mcp.compile.cuda.cubin import CubinFacts, read_cubin
from kforge_mcp.compile.cuda.diagnostics import read_nvrtc_log
from kforge_mcp.compile.cuda.ptx import Finding, mutable_variables, refused_assembly
from kforge_mcp.compile.cuda.resources import kernel_resources, parameter_faults, undefined_faults
from kforge_mcp.compile.cuda.warm import Answer
from kforge_mcp.records.result import Diagnostic


def examine(plan: Plan, launches: Sequence[LaunchDeclaration], answer: Answer, limits: Limits) -> Entry:
    """The outcome of a compilation: resources and warnings, or a reason with the places in the author's source."""
    if answer.failure:
        return _limit(_said(answer, limits), answer.log)
    if answer.status == "TOO_LARGE":
        return _limit(f"the compiled program has more than {limits.file_bytes >> 20} MiB", answer.log)
    findings = read_nvrtc_log(answer.log, plan.source, launches, ok=answer.ok)
    if not answer.ok:
        if findings.reason is None:
            said = next((line for line in answer.log.splitlines() if line.strip()), answer.status)
            findings.diagnostics.insert(0, Diagnostic(severity="error", message=f"NVRTC: {said[:300]}"))
        return Entry(reason=findings.reason or "syntax_error", diagnostics=findings.diagnostics, log=answer.log)
    image = answer.cubin
    facts = read_cubin(image) if image else CubinFacts({}, ())
    broken = [
        *parameter_faults(launches, facts, answer.lowered, plan.source),
        *_placed(plan.source, mutable_variables(answer.ptx, plan.source)),
        *_placed(plan.source, refused_assembly(answer.ptx, plan.source)),
        *_placed(plan.source, (Finding(text, text.split("`")[1]) for text in undefined_faults(facts))),
    ]
    if broken:
        return Entry(reason="contract_error", diagnostics=[*broken, *findings.diagnostics], log=answer.log)
    kernels = kernel_resources(answer.log, facts, answer.lowered)
    return Entry(diagnostics=findings.diagnostics, kernels=kernels, log=answer.log)


def _limit(message: str, log: str) -> Entry:
    return Entry(reason="limit_exceeded", diagnostics=[Diagnostic(severity="error", message=message)], log=log)


def _said(answer: Answer, limits: Limits) -> str:
    if answer.failure == "timed_out" or "SIGXCPU" in answer.failure:
        return f"the compilation took more than {limits.cpu_s:g} s of processor time"
    if "SIGABRT" in answer.failure or "SIGKILL" in answer.failure or answer.failure.endswith("3"):
        return f"the compilation needed more than {limits.memory_bytes >> 20} MiB of memory"
    if "SIGXFSZ" in answer.failure:
        return f"the compilation wrote more than {limits.file_bytes >> 20} MiB"
    return f"the compiler itself crashed on this source ({answer.failure}), most often because of nesting too deep"


def _placed(source: str, findings: Iterable[Finding]) -> list[Diagnostic]:
    """Findings at the first line of the code that has their name."""
    lines = source_lines(source)
    placed = []
    for finding in findings:
        pattern = re.compile(rf"(?<![\w$.]){re.escape(finding.name)}(?![\w$])")
        at = next((n for n, line in enumerate(lines, 1) if pattern.search(line) and not _is_metadata(line)), 0)
        text = lines[at - 1] if at else ""
        match = pattern.search(text)
        placed.append(
            Diagnostic(
                severity="error",
                message=finding.message,
                line=at,
                column=match.start() + 1 if match else 0,
                source_line=text[:200],
                hint=finding.hint,
            )
        )
    return placed


def _is_metadata(line: str) -> bool:
    return line.lstrip().startswith("//")
