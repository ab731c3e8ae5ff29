"""Compiles a candidate for every combination of types and tunables that it claims."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from kforge_mcp.candidate.declaration import Config, Plan
from kforge_mcp.candidate.rejection import summary
from kforge_mcp.candidate.signature import Group, declaration, groups
from kforge_mcp.compile.build import Built, Limits, build
from kforge_mcp.compile.cache import Entry, UnitCache, text_digest, unit_key
from kforge_mcp.compile.diagnostics import (
    read_compiler_output,
    read_linker_output,
    relevant_linker_output,
    serial_regions,
)
from kforge_mcp.compile.directives import reads_files
from kforge_mcp.compile.outcome import Binary, Compiled, CompileFailed, CompileOutcome
from kforge_mcp.compile.source import translation_unit
from kforge_mcp.compile.toolchain import Toolchain, find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Interpreter
from kforge_mcp.records.result import Diagnostic

__all__ = ["Binary", "CompileFailed", "CompileOutcome", "Compiled", "Limits", "compile_candidate"]

_LOG_LIMIT = 200_000


@dataclass(frozen=True)
class _Unit:
    """One translation unit: a configuration and a group of variants with equal types."""

    config: Config
    group: Group
    text: str
    key: str


def compile_candidate(
    ctx: JobContext,
    plan: Plan,
    card: OperatorCard,
    configs: list[Config],
    *,
    limits: Limits | None = None,
    interpreter: Interpreter | None = None,
    architectures: Sequence[str] = (),
    sanitized: bool = False,
) -> CompileOutcome:
    """Compile a parsed plan under the given configurations of its tunables.

    For CUDA, `interpreter` is the model's, whose torch the toolchain has to fit, and `architectures` are names such
    as `sm_90a` or, for PTX, `compute_80`; without them it is compiled for this machine's devices, or for common ones.
    `sanitized` binaries check their own memory accesses and undefined behaviour on the CPU; those for CUDA know the
    source line of each instruction, for the checker that runs them.

    A configuration that fails to compile is left out, with a warning, as long as another one compiles.

    Raises:
        ToolchainError: no usable compiler, or no ninja.
        JobCancelled: the job was cancelled.
    """
    if plan.target == "cuda":
        from kforge_mcp.compile.cuda.compiler import compile_cuda

        return compile_cuda(
            ctx,
            plan,
            card,
            configs,
            limits=limits,
            interpreter=interpreter,
            architectures=architectures,
            line_info=sanitized,
        )
    refused = reads_files(plan.source, headers_only=False)
    if refused:
        return CompileFailed(reason="contract_error", message=summary(refused), diagnostics=refused)
    limits = limits or Limits()
    toolchain = replace(find_toolchain(ctx), sanitized=sanitized)
    flags = (*toolchain.compile_flags, *plan.options, "--", *toolchain.link_flags)
    units = _units(plan, card, configs, flags, toolchain)
    if not units:
        message = "`where` claims no variant under the given configurations"
        return CompileFailed(reason="contract_error", message=message)
    cache = UnitCache(ctx.workspace.root / "cache" / "cpu")
    entries = _entries(ctx, plan, units, cache, toolchain, limits)
    log = _log(toolchain, plan, units, entries)
    outcome = _outcome(plan, units, entries, cache, log)
    if isinstance(outcome, Compiled) and toolchain.kind == "clang":
        outcome = outcome.model_copy(update={"diagnostics": [*outcome.diagnostics, *serial_regions(plan.source)]})
    return outcome


def _units(
    plan: Plan, card: OperatorCard, configs: list[Config], flags: tuple[str, ...], toolchain: Toolchain
) -> list[_Unit]:
    found: list[_Unit] = []
    for config in configs:
        for group in groups(plan, card, config):
            text = translation_unit(plan, group, config)
            found.append(_Unit(config, group, text, unit_key(text, flags, toolchain.identity)))
    return found


def _entries(
    ctx: JobContext, plan: Plan, units: list[_Unit], cache: UnitCache, toolchain: Toolchain, limits: Limits
) -> dict[str, Entry]:
    """The outcome of every unit by its key, from the cache where it has them."""
    by_key = {unit.key: unit for unit in units}
    entries = {key: entry for key in by_key if (entry := cache.get(key, text_digest(by_key[key].text)))}
    missing = [key for key in by_key if key not in entries]
    if not missing:
        return entries
    with cache.locked(ctx, missing):
        entries |= {key: entry for key in missing if (entry := cache.get(key, text_digest(by_key[key].text)))}
        missing = [key for key in missing if key not in entries]
        if not missing:
            return entries
        ctx.progress(f"compiling {len(missing)} of {len(by_key)} binaries")
        names = {f"unit{number}": key for number, key in enumerate(missing)}
        texts = {name: by_key[key].text for name, key in names.items()}
        built, timed_out = build(ctx, toolchain, texts, plan.options, limits)
        for name, key in names.items():
            entry = _entry(plan, by_key[key], built[name], timed_out, limits)
            if entry.reason == "limit_exceeded":
                entries[key] = entry
            else:
                entries[key] = cache.put(key, entry, built[name].library if entry.reason is None else None)
    return entries


def _entry(plan: Plan, unit: _Unit, built: Built, timed_out: bool, limits: Limits) -> Entry:
    signature = declaration(plan.entry, unit.group.parameters)
    log = "\n".join(part for part in (built.compiler_log, relevant_linker_output(built.linker_log)) if part.strip())
    findings = read_compiler_output(built.compiler_log, plan.source, plan.entry, signature, asdict(limits))
    reason, diagnostics = findings.reason, findings.diagnostics
    if built.library is not None and reason is None:
        linked = read_linker_output(built.linker_log, plan.source, plan.entry, signature)
        reason, diagnostics = linked.reason, linked.diagnostics + diagnostics
    elif built.compiled and reason is None:
        exceeded = read_compiler_output(built.linker_log, plan.source, plan.entry, signature, asdict(limits))
        reason = exceeded.reason or "syntax_error"
        said = next((line for line in built.linker_log.splitlines() if line.strip()), "the linker said nothing")
        diagnostics = exceeded.diagnostics or [Diagnostic(severity="error", message=f"linking failed: {said[:300]}")]
    elif reason is None:
        said = built.compiler_log.strip()[:300] or "the compiler said nothing"
        message = "compiling did not end in time" if timed_out else f"compiling failed: {said}"
        reason = "limit_exceeded" if timed_out else "syntax_error"
        diagnostics = [Diagnostic(severity="error", message=message)]
    return Entry(reason=reason, diagnostics=diagnostics, log=log[:20_000], text=text_digest(unit.text))


def _outcome(plan: Plan, units: list[_Unit], entries: dict[str, Entry], cache: UnitCache, log: str) -> CompileOutcome:
    failed = [unit for unit in units if entries[unit.key].reason is not None]
    left_out = {str(unit.config): (unit.config, entries[unit.key]) for unit in reversed(failed)}
    binaries = [
        Binary(
            path=str(cache.library(unit.key)),
            digest=entries[unit.key].digest,
            config=unit.config,
            variants=[variant.variant_id for variant in unit.group.variants],
            entry=plan.entry,
        )
        for unit in units
        if str(unit.config) not in left_out
    ]
    if not binaries:
        entry = entries[failed[0].key]
        reason = entry.reason or "internal_error"
        return CompileFailed(reason=reason, message=summary(entry.diagnostics), diagnostics=entry.diagnostics, log=log)
    warnings: dict[tuple[int, int, str], Diagnostic] = {}
    for config, entry in left_out.values():
        values = ", ".join(f"{name}={value}" for name, value in config.items())
        first = entry.diagnostics[0]
        text = f"left out {values}, which does not compile: {first.message}"
        warnings[(first.line, first.column, text)] = first.model_copy(update={"severity": "warning", "message": text})
    for unit in units:
        if str(unit.config) not in left_out:
            for one in entries[unit.key].diagnostics:
                warnings.setdefault((one.line, one.column, one.message), one)
    return Compiled(binaries=binaries, diagnostics=list(warnings.values()), log=log)


def _log(toolchain: Toolchain, plan: Plan, units: list[_Unit], entries: dict[str, Entry]) -> str:
    parts = [
        f"compiler: {toolchain.version} ({shlex.join(toolchain.command)})",
        f"compile: {shlex.join((*toolchain.compile_flags, *plan.options))}",
        f"link: {shlex.join(toolchain.link_flags)}",
    ]
    for unit in units:
        entry = entries[unit.key]
        values = ", ".join(f"{name}={value}" for name, value in unit.config.items())
        variants = ", ".join(variant.variant_id for variant in unit.group.variants)
        state = entry.reason or f"ok, sha256 {entry.digest[:16]}"
        parts.append(f"== {values or 'no tunables'} for {variants}: {state}")
        if entry.log.strip():
            parts.append(entry.log.rstrip())
    return "\n".join(parts)[:_LOG_LIMIT] + "\n"
