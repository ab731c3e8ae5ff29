"""Runs ninja on a folder of translation units, each compiled and linked by itself under limits."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kforge_mcp.compile.toolchain import Toolchain, find_ninja
from kforge_mcp.engine.context import JobContext

_LOG_LIMIT = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one compiler process may use."""

    cpu_s: float = 45.0
    memory_bytes: int = 2 << 30
    file_bytes: int = 128 << 20


@dataclass(frozen=True)
class Built:
    """One unit after ninja ran. `library` is None where compiling or linking failed; logs are what both printed."""

    library: Path | None
    compiler_log: str
    linker_log: str
    compiled: bool


def build(
    ctx: JobContext, toolchain: Toolchain, units: Mapping[str, str], options: Sequence[str], limits: Limits
) -> tuple[dict[str, Built], bool]:
    """Compile translation units by name in parallel; also returns whether the time ran out.

    Raises:
        ToolchainError: ninja is missing.
        JobCancelled: the job was cancelled; ninja and its compilers are gone.
    """
    folder = ctx.scratch()
    for name, text in units.items():
        (folder / f"{name}.cpp").write_text(text)
    (folder / "build.ninja").write_text(_ninja_file(toolchain, list(units), options, limits))
    parallel = len(os.sched_getaffinity(0))
    time_s = 60 + limits.cpu_s * 2 * (len(units) + parallel - 1) // parallel
    environment = {**ctx.environment, "LC_ALL": "C", "TMPDIR": str(folder)}
    command = [find_ninja(ctx), "-k", "0", "-j", str(parallel), "--quiet"]
    run = ctx.run(command, cwd=folder, env=environment, timeout_s=time_s)
    built: dict[str, Built] = {}
    for name in units:
        library = folder / f"{name}.so"
        compiler_log = _read(folder / f"{name}.compile.log")
        built[name] = Built(
            library if library.exists() else None,
            compiler_log or ("" if library.exists() else run.stdout[-2000:]),
            _read(folder / f"{name}.link.log"),
            (folder / f"{name}.o").exists(),
        )
    return built, run.timed_out


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_LOG_LIMIT).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _ninja_file(toolchain: Toolchain, names: Sequence[str], options: Sequence[str], limits: Limits) -> str:
    compiler = shlex.join(toolchain.command)
    seconds = max(int(limits.cpu_s), 1)
    # The soft limit's signal has a name in the compiler's message; the hard one's does not.
    guard = f"ulimit -H -t {seconds + 5}; ulimit -S -t {seconds}; ulimit -v {limits.memory_bytes >> 10}; "
    guard += f"ulimit -f {limits.file_bytes >> 9}; ulimit -c 0; "
    compile_command = f"{guard}{compiler} {shlex.join((*toolchain.compile_flags, *options))} -c $in -o $out"
    link_command = f"{guard}{compiler} $in -o $out {shlex.join(toolchain.link_flags)}"
    rules = [
        "ninja_required_version = 1.5",
        "rule compile",
        f"  command = {_escaped(compile_command)} 2> $log",
        "rule link",
        f"  command = {_escaped(link_command)} 2> $log",
    ]
    for name in names:
        rules += [
            f"build {name}.o: compile {name}.cpp",
            f"  log = {name}.compile.log",
            f"build {name}.so: link {name}.o",
            f"  log = {name}.link.log",
        ]
    return "\n".join([*rules, ""])


def _escaped(command: str) -> str:
    """For ninja a dollar sign is its own; only the variables of this module are."""
    for variable in ("in", "out"):
        command = command.replace(f"${variable}", f"\0{variable}")
    return command.replace("$", "$$").replace("\0", "$")
