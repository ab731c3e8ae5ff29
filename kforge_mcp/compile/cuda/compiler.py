"""Compiles a CUDA candidate: one program for every group of types, configuration and architecture."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.rejection import summary
from kforge_mcp.candidate.signature import Group, groups
from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.cache import Entry, UnitCache, text_digest, unit_key
from kforge_mcp.compile.cuda.architectures import architectures as default_architectures
from kforge_mcp.compile.cuda.architectures import check_architectures
from kforge_mcp.compile.cuda.checking import examine
from kforge_mcp.compile.cuda.headers import limits_cooperative_groups, refused_headers
from kforge_mcp.compile.cuda.report import resource_line
from kforge_mcp.compile.cuda.source import Program, cuda_program
from kforge_mcp.compile.cuda.toolchain import Toolchain, find_toolchain
from kforge_mcp.compile.cuda.warm import Answer, Request, compile_program
from kforge_mcp.compile.outcome import Binary, Compiled, CompileFailed, CompileOutcome
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Interpreter
from kforge_mcp.records.result import Diagnostic

LINE_INFO = "--generate-line-info"
_LOG_LIMIT = 200_000
_UNIT_LOG_LIMIT = 20_000


@dataclass(frozen=True)
class Unit:
    """One program for one architecture."""

    config: Config
    group: Group
    arch: str
    program: Program
    options: list[str]
    key: str

    @property
    def text(self) -> str:
        """Digest of the exact source."""
        return text_digest(self.program.whole)

    @property
    def title(self) -> str:
        """What it is for, in words."""
        values = ", ".join(f"{name}={value}" for name, value in self.config.items())
        return f"{values or 'no tunables'}, {self.arch}"


def compile_cuda(
    ctx: JobContext,
    plan: Plan,
    card: OperatorCard,
    configs: list[Config],
    *,
    limits: Limits | None = None,
    interpreter: Interpreter | None = None,
    architectures: Sequence[str] = (),
    line_info: bool = False,
) -> CompileOutcome:
    """Compile a parsed plan to cubins (PTX for `compute_..`), or say why it cannot be.

    With `line_info` the cubins know the source line of every instruction, for checkers and profilers; the code is the
    same.

    A configuration or architecture that fails is left out, with a warning, as long as another one compiles.

    Raises:
        UsageError: an architecture that NVRTC does not know.
        JobCancelled: the job was cancelled.
    """
    limits = limits or Limits()
    refused = refused_headers(plan.source)
    if refused:
        return CompileFailed(reason="contract_error", message=summary(refused), diagnostics=refused)
    try:
        toolchain = find_toolchain(ctx, interpreter)
    except ToolchainError as error:
        return CompileFailed(reason="target_unavailable", message=str(error)[:1500])
    if architectures:
        archs = check_architectures(list(architectures), toolchain)
    else:
        archs = default_architectures(ctx, toolchain)
    units = _units(plan, card, configs, archs, toolchain, line_info)
    if not units:
        message = "`where` claims no variant under the given configurations"
        return CompileFailed(reason="contract_error", message=message)
    entries = _entries(ctx, plan, units, toolchain, limits)
    return _outcome(ctx, plan, units, entries, toolchain)


def unit_options(plan: Plan, arch: str, toolchain: Toolchain, *, line_info: bool = False) -> list[str]:
    """NVRTC's options for a plan on an architecture."""
    options = [f"--gpu-architecture={arch}", "--std=c++17", *toolchain.include_options, "--ptxas-options=-v"]
    if line_info:
        options.append(LINE_INFO)
    if limits_cooperative_groups(plan.source):
        options.append("-D_CG_LIMIT_INCLUDED_DEPENDENCIES")
    return [*options, *sorted(plan.options)]


def _units(
    plan: Plan,
    card: OperatorCard,
    configs: list[Config],
    archs: Sequence[str],
    toolchain: Toolchain,
    line_info: bool,
) -> list[Unit]:
    found: list[Unit] = []
    identity = toolchain.identity
    for config in configs:
        for group in groups(plan, card, config):
            program = cuda_program(plan, card, group, config)
            for arch in archs:
                options = unit_options(plan, arch, toolchain, line_info=line_info)
                flags = [option for option in options if not option.startswith("-I")] + list(program.names)
                key = unit_key(program.whole, flags, identity)
                found.append(Unit(config, group, arch, program, options, key))
    return found


def cache_of(ctx: JobContext, arch: str) -> UnitCache:
    """Where the images for an architecture are kept."""
    suffix = ".ptx" if arch.startswith("compute_") else ".cubin"
    return UnitCache(ctx.workspace.root / "cache" / "cuda", suffix)


def _entries(ctx: JobContext, plan: Plan, units: list[Unit], toolchain: Toolchain, limits: Limits) -> dict[str, Entry]:
    """The outcome of every unit by its key, from the cache where it has them."""
    by_key = {unit.key: unit for unit in units}

    def known() -> dict[str, Entry]:
        asked = ((key, cache_of(ctx, unit.arch).get(key, unit.text)) for key, unit in by_key.items())
        return {key: entry for key, entry in asked if entry is not None}

    entries = known()
    missing = [unit for key, unit in by_key.items() if key not in entries]
    if not missing:
        return entries
    with cache_of(ctx, units[0].arch).locked(ctx, [unit.key for unit in missing]):
        entries = known()
        missing = [unit for key, unit in by_key.items() if key not in entries]
        ctx.progress(f"compiling {len(missing)} of {len(by_key)} binaries")

        def compile_one(unit: Unit) -> tuple[str, Entry]:
            # Line information changes what a precompiled header holds.
            pch = LINE_INFO not in unit.options
            request = Request(unit.program.prelude, unit.program.text, unit.options, list(unit.program.names), pch)
            answer = compile_program(ctx, toolchain, request, limits)
            entry = examine(plan, unit.program.launches, answer, limits).model_copy(update={"text": unit.text})
            if entry.reason == "limit_exceeded":
                return unit.key, entry
            return unit.key, cache_of(ctx, unit.arch).put(unit.key, entry, _image(unit, answer, entry))

        with ThreadPoolExecutor(max(len(os.sched_getaffinity(0)), 1), thread_name_prefix="kforge-nvrtc") as pool:
            entries |= dict(pool.map(compile_one, missing))
    return entries


def _image(unit: Unit, answer: Answer, entry: Entry) -> Path | None:
    if entry.reason is not None or answer.folder is None:
        return None
    return answer.folder / ("image.ptx" if unit.arch.startswith("compute_") else "image.cubin")


def _outcome(
    ctx: JobContext, plan: Plan, units: list[Unit], entries: dict[str, Entry], toolchain: Toolchain
) -> CompileOutcome:
    log = _log(units, entries, toolchain)
    left_out = _left_out(units, entries)
    if len(left_out) == len({(str(unit.config), unit.arch) for unit in units}):
        entry = next(entry for unit in units if (entry := entries[unit.key]).reason is not None)
        reason = entry.reason or "internal_error"
        return CompileFailed(reason=reason, message=summary(entry.diagnostics), diagnostics=entry.diagnostics, log=log)
    warnings: dict[tuple[int, int, str], Diagnostic] = {}
    for unit, entry in left_out.values():
        first = entry.diagnostics[0]
        text = f"left out {unit.title}, which does not compile: {first.message}"
        warnings[(first.line, first.column, text)] = first.model_copy(update={"severity": "warning", "message": text})
    kept = [unit for unit in units if (str(unit.config), unit.arch) not in left_out]
    for unit in kept:
        for one in entries[unit.key].diagnostics:
            warnings.setdefault((one.line, one.column, one.message), one)
    binaries = [
        Binary(
            path=str(cache_of(ctx, unit.arch).library(unit.key)),
            digest=entries[unit.key].digest,
            config=unit.config,
            variants=[variant.variant_id for variant in unit.group.variants],
            entry="",
            arch=unit.arch,
            kernels=entries[unit.key].kernels,
        )
        for unit in kept
    ]
    return Compiled(binaries=binaries, diagnostics=list(warnings.values()), log=log)


def _left_out(units: list[Unit], entries: dict[str, Entry]) -> dict[tuple[str, str], tuple[Unit, Entry]]:
    """The first failure of each configuration on each architecture: a candidate serves all its variants or none."""
    found: dict[tuple[str, str], tuple[Unit, Entry]] = {}
    for unit in units:
        if entries[unit.key].reason is not None:
            found.setdefault((str(unit.config), unit.arch), (unit, entries[unit.key]))
    return found


def _log(units: list[Unit], entries: dict[str, Entry], toolchain: Toolchain) -> str:
    parts = [
        f"compiler: NVRTC {toolchain.nvrtc}, headers {toolchain.versions.get('runtime') or 'none'}, "
        f"CCCL {toolchain.versions.get('cccl') or 'none'} ({toolchain.python})",
        f"options: {' '.join(option for option in units[0].options if not option.startswith('-I'))}",
    ]
    for unit in units:
        entry = entries[unit.key]
        variants = ", ".join(variant.variant_id for variant in unit.group.variants)
        state = entry.reason or f"ok, sha256 {entry.digest[:16]}"
        parts.append(f"== {unit.title} for {variants}: {state}")
        parts += [resource_line(kernel) for kernel in entry.kernels]
        if entry.log.strip():
            parts.append(entry.log.rstrip()[:_UNIT_LOG_LIMIT])
    return "\n".join(parts)[:_LOG_LIMIT] + "\n"
