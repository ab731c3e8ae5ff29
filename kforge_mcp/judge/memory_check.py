"""NVIDIA's memory and race checker over a CUDA candidate, before it is exported.

Guard zones see writes near a tensor; the checker sees every access, reads and far ones too, and races in shared
memory. It slows kernels down a hundredfold, so it is no part of the search.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.kernel_names import base_name
from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.cuda.source import CANDIDATE_FILE
from kforge_mcp.compile.cuda.tools import CHECKER, find_tool, missing
from kforge_mcp.compile.outcome import Binary, CompileFailed
from kforge_mcp.engine.commands import CompletedRun
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.samples import SAMPLE_PROGRAM, answers, sample_job, write_jobs
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Project
from kforge_mcp.records.result import Diagnostic
from kforge_mcp.records.variant import Variant

TOOLS = ("memcheck", "racecheck")
TIMEOUT_S = 180.0
_PADDING_BYTES = 512
"""Put behind every allocation, so that one tensor's end is not another one's beginning."""
_FINDINGS = 8
_LINE = re.compile(rf"{re.escape(CANDIDATE_FILE)}:(\d+)")
_NEAREST = re.compile(r"(?P<far>[\d,]+) bytes (?P<side>after|before) the nearest allocation at 0x(?P<at>[0-9a-f]+)")
_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: ", re.MULTILINE)
_NOT_OURS = ("COMPUTE-SANITIZER", "ERROR SUMMARY", "RACECHECK SUMMARY", "Program hit", "Target application")


@dataclass(frozen=True)
class MemoryCheck:
    """What the checker found. `ran` names its tools that came to an end, `not_run` says why others did not."""

    ran: tuple[str, ...] = ()
    findings: tuple[Diagnostic, ...] = ()
    not_run: tuple[str, ...] = field(default=())

    @property
    def passed(self) -> bool:
        """Whether nothing was found that makes a candidate wrong; true as well where nothing was run."""
        return all(one.severity != "error" for one in self.findings)

    def message(self) -> str:
        """In a sentence or two."""
        errors = [one for one in self.findings if one.severity == "error"]
        if errors:
            line = f"line {errors[0].line}: " if errors[0].line else ""
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            return f"{line}{errors[0].message}{more}"
        said = [f"{' and '.join(self.ran)} found nothing"] if self.ran else []
        return "; ".join([*said, *self.not_run])


def check_memory(
    ctx: JobContext, project: Project, card: OperatorCard, plan: Plan, config: Config, *, tools: Sequence[str] = TOOLS
) -> MemoryCheck:
    """Run a CUDA candidate on every variant that it claims under the checker's tools.

    It is compiled once more, with the lines of its source, which changes no instruction.

    Raises:
        JobCancelled: the job was cancelled.
    """
    checker = find_tool(ctx, CHECKER, project.interpreter)
    if not checker:
        return MemoryCheck(not_run=(missing(CHECKER),))
    outcome = compile_candidate(
        ctx,
        plan,
        card,
        [config],
        interpreter=project.interpreter,
        architectures=project.device.architectures,
        sanitized=True,
    )
    if isinstance(outcome, CompileFailed):
        return MemoryCheck(not_run=(f"it did not compile with the lines of its source: {outcome.message}",))
    jobs = []
    for binary, variant in _claimed(card, outcome.binaries):
        job = sample_job(ctx, project, card, plan, config, variant, binary)
        if isinstance(job, Rejected):
            return MemoryCheck(not_run=(job.message,))
        jobs.append(job)
    folder = ctx.scratch()
    path = write_jobs(folder, jobs)
    kernels = sorted({base_name(kernel.kernel) for binary in outcome.binaries for kernel in binary.kernels})
    ran: list[str] = []
    findings: list[Diagnostic] = []
    not_run: list[str] = []
    # Without its cache torch gives every tensor an allocation of its own, whose ends the checker knows.
    environment = {**ctx.environment, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    with ctx.device_lock(project.device_key):
        for tool in tools:
            ctx.progress(f"checking memory accesses: {tool}", 0.5)
            command = [checker, "--tool", tool, "--print-limit", str(_FINDINGS), "--report-api-errors", "no"]
            command += ["--padding", str(_PADDING_BYTES)] if tool == "memcheck" else []
            command += [project.interpreter.executable, str(SAMPLE_PROGRAM), str(path)]
            run = ctx.run(command, cwd=project.project_dir or None, env=environment, timeout_s=TIMEOUT_S)
            found = read_report(run.stdout, plan.source, kernels)
            failed = _failure(run, tool)
            crashed = [one["finding"]["message"] for one in answers(run.stdout) if one["finding"]]
            if failed and not found:
                not_run.append(failed)
                continue
            ran.append(tool)
            findings += found or [Diagnostic(severity="error", message=text) for text in crashed]
            if any(one.severity == "error" for one in findings):
                break
    return MemoryCheck(tuple(ran), tuple(findings), tuple(not_run))


def read_report(output: str, source: str, kernels: Sequence[str]) -> list[Diagnostic]:
    """The findings in the checker's output that are about a candidate's kernels, equal ones once."""
    places = {address: name for one in answers(output) for name, address, _ in one.get("memory", []) if name}
    lines = source_lines(source)
    ours = re.compile(rf"{re.escape(CANDIDATE_FILE)}:\d|\b(?:{'|'.join(map(re.escape, kernels)) or '$.'})[(<]")
    found: dict[tuple[int, str], Diagnostic] = {}
    for block in _blocks(output):
        if block[0].startswith(_NOT_OURS) or not any(ours.search(line) for line in block):
            continue
        numbers = [int(match[1]) for line in block for match in _LINE.finditer(line)]
        at = numbers[0] if numbers else 0
        message = _said(block, places)
        diagnostic = Diagnostic(
            severity="warning" if block[0].startswith("Warning") else "error",
            message=message,
            line=at,
            source_line=lines[at - 1][:200] if 0 < at <= len(lines) else "",
        )
        found.setdefault((at, block[0]), diagnostic)
    return list(found.values())


def _blocks(output: str) -> list[list[str]]:
    """Reports: a line of its own, and those under it, up to the host's backtrace."""
    blocks: list[list[str]] = []
    host = False
    for line in output.splitlines():
        if not line.startswith("========= "):
            continue
        text = line.removeprefix("========= ")
        if not text.startswith(" "):
            blocks.append([text.strip()])
            host = False
        elif blocks:
            host = host or "host backtrace" in text
            if not host and text.strip():
                blocks[-1].append(text.strip())
    return [block for block in blocks if block[0]]


def _said(block: Sequence[str], places: dict[int, str]) -> str:
    """A report in one sentence, addresses replaced by what lies there."""
    if "Race reported" in block[0]:
        numbers = [match[1] for line in block for match in _LINE.finditer(line)]
        kinds = re.findall(r"(\w+) access at", " ".join(block))
        between = " and ".join(
            f"the {kind.lower()} in line {number}" for kind, number in zip(kinds, numbers, strict=False)
        )
        return f"a race in shared memory between {between or 'two accesses'}: a barrier is missing"
    parts = [block[0].rstrip(".")]
    parts += [line for line in block[1:] if line.startswith("by thread")]
    text = " ".join(parts)
    for line in block[1:]:
        if match := _NEAREST.search(line):
            name = places.get(int(match["at"], 16))
            end = "end" if match["side"] == "after" else "beginning"
            beyond = f"{match['far']} bytes {match['side']} the {end} of "
            return f"{text}: {beyond}{f'`{name}`' if name else 'the nearest tensor'}"
        if "misaligned" in line:
            return f"{text}: the address is misaligned"
    return text


def _failure(run: CompletedRun, tool: str) -> str:
    """Why a tool came to no result; empty if it did."""
    if run.timed_out:
        return f"{tool} did not end in {TIMEOUT_S:g} s"
    if _SUMMARY.search(run.stdout) and answers(run.stdout) and "Internal Sanitizer Error" not in run.stdout:
        return ""
    said = [line.removeprefix("========= ").strip() for line in (run.stdout + run.stderr).splitlines() if line.strip()]
    telling = [line for line in said if "rror" in line or "not supported" in line] or said[-1:]
    return f"{tool} could not be run here: {(telling or ['it said nothing'])[0][:200]}"


def _claimed(card: OperatorCard, binaries: Sequence[Binary]) -> list[tuple[Binary, Variant]]:
    return [
        (binary, variant) for variant in card.variants for binary in binaries if variant.variant_id in binary.variants
    ]
