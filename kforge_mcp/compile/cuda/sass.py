"""Machine code of a candidate's kernels with the author's lines beside it, on demand."""

from __future__ import annotations

import re
from pathlib import Path

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.metadata import source_lines
from kforge_mcp.candidate.signature import Group, groups
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.cuda.architectures import architectures
from kforge_mcp.compile.cuda.compiler import unit_options
from kforge_mcp.compile.cuda.source import CANDIDATE_FILE, Program, cuda_program
from kforge_mcp.compile.cuda.toolchain import Toolchain, find_toolchain
from kforge_mcp.compile.cuda.warm import Request, compile_program
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError, UsageError
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Interpreter

_PLACE = re.compile(
    r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<inlined> inlined at "[^"]*", line \d+)?.*$'
)
_NOISE = re.compile(r"^\s*\.(?:headerflags|elftype|section|align|type|size|other|weak|global|target|sectioninfo)\b")
_PREFERRED = "sm_90a"


def candidate_sass(
    ctx: JobContext, plan: Plan, card: OperatorCard, config: Config, interpreter: Interpreter | None = None
) -> str:
    """The machine code of one configuration, for each group of types, on one architecture: the device's, or sm_90a.

    It is compiled again with line information, which leaves the instructions as they are.

    Raises:
        UsageError: NVRTC or the disassembler is missing, or the candidate does not compile.
    """
    toolchain = find_toolchain(ctx, interpreter)
    if not toolchain.folders.get("nvdisasm"):
        raise ToolchainError(
            f"the disassembler is missing: {toolchain.python} -m pip install nvidia-cuda-nvdisasm, then ask again"
        )
    archs = [arch for arch in architectures(ctx, toolchain) if arch.startswith("sm_")] or [_PREFERRED]
    arch = _PREFERRED if _PREFERRED in archs else archs[0]
    values = ", ".join(f"{name}={value}" for name, value in config.items())
    parts = [f"// {arch}, {values or 'no tunables'}; NVRTC {toolchain.nvrtc}"]
    for group in groups(plan, card, config):
        program = cuda_program(plan, card, group, config)
        cubin = _cubin(ctx, plan, program, arch, toolchain)
        parts.append(f"// for {', '.join(variant.variant_id for variant in group.variants)}: {_types(group)}")
        parts.append(_with_lines(disassemble(ctx, toolchain, cubin), plan.source))
    return "\n".join(parts) + "\n"


def _types(group: Group) -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in group.dtypes.items())


def _cubin(ctx: JobContext, plan: Plan, program: Program, arch: str, toolchain: Toolchain) -> Path:
    options = unit_options(plan, arch, toolchain, line_info=True)
    # Line information changes what a precompiled header holds; a single compilation is not worth one of its own.
    request = Request(program.prelude, program.text, options, list(program.names), pch=False)
    answer = compile_program(ctx, toolchain, request, Limits())
    if not answer.ok or answer.folder is None:
        raise UsageError(f"the candidate does not compile for {arch}: see part='log'")
    return answer.folder / "image.cubin"


def disassemble(ctx: JobContext, toolchain: Toolchain, cubin: Path) -> str:
    """What nvdisasm prints of a cubin: code only, with line information where there is some. Raises ToolchainError."""
    program = Path(toolchain.folders["nvdisasm"]) / "nvdisasm"
    run = ctx.run([str(program), "--print-code", "--print-line-info-inline", str(cubin)], timeout_s=120)
    if run.returncode != 0:
        raise ToolchainError(f"{program} failed: {(run.stderr or run.stdout).strip()[:300]}")
    return run.stdout


def _with_lines(text: str, source: str) -> str:
    """The listing without its directives, each place named by the author's own line."""
    lines = source_lines(source)
    kept: list[str] = []
    for line in text.splitlines():
        match = _PLACE.match(line)
        if match:
            number = int(match["line"])
            own = match["file"].endswith(CANDIDATE_FILE) and 0 < number <= len(lines)
            if own:
                said = f"// line {number}: {lines[number - 1].strip()}"
                if not kept or kept[-1] != said:
                    kept.append(said)
        elif line.strip() and not _NOISE.match(line):
            kept.append(line.rstrip())
    return "\n".join(kept)
