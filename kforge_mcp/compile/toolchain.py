"""Which C++ compiler is used, what it is, and with which flags."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError

PACKAGES = (
    "install one: `apt install g++` (Debian, Ubuntu), `dnf install gcc-c++` (Fedora, RHEL), `zypper install gcc-c++` "
    "(openSUSE), `pacman -S gcc` (Arch), `apk add g++` (Alpine), `conda install gxx` (conda); "
    "or set KFORGE_CXX to a g++ or clang++"
)
_SANITIZERS = (
    "-O1", "-g", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-fno-sanitize=vptr",
    "-fno-sanitize-recover=undefined",
)  # fmt: skip
_V3 = frozenset({"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"})


@dataclass(frozen=True)
class Toolchain:
    """A usable C++ compiler. `version` is its own first line."""

    command: tuple[str, ...]
    kind: Literal["gcc", "clang"]
    version: str
    baseline: tuple[str, ...]
    """The flags that choose the instruction set."""
    sanitized: bool = False
    """Whether binaries check their own memory accesses and undefined behaviour: slow, and never timed or exported."""

    @property
    def identity(self) -> str:
        """Equal for toolchains that make equal binaries from equal sources."""
        return f"{shlex.join(self.command)}\n{self.version}\n{shlex.join(self.baseline)}" + (
            "\nsanitized" if self.sanitized else ""
        )

    @property
    def openmp(self) -> str:
        """clang's parallel regions call a run-time of its own, with threads beside those of torch: they stay serial."""
        return "-fopenmp" if self.kind == "gcc" else "-fopenmp-simd"

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """Flags of every compilation, before the candidate's own options.

        errno and floating-point traps cannot be observed through the contract and their upkeep hinders
        vectorisation, so both are off; values are as IEEE 754 has them, with fused multiply-add.
        """
        checks = _SANITIZERS if self.sanitized else ()
        limits = ("-fmax-errors=20",) if self.kind == "gcc" else ("-ferror-limit=20",)
        return (
            "-std=c++17", "-O3", "-fPIC", self.openmp, "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
            "-ffp-contract=fast", *self.baseline, "-Wall", "-Wno-unknown-pragmas", "-fmessage-length=0",
            "-ftemplate-backtrace-limit=6", *limits, *checks,
        )  # fmt: skip

    @property
    def link_flags(self) -> tuple[str, ...]:
        """Flags of every link.

        No OpenMP library is linked: the symbols resolve from the one that torch has loaded, so that eager and
        candidate share threads. The candidate's options are not passed: -ffast-math at the link would flush denormals
        in the whole process. Without symbols and build id, equal sources give equal bytes. A sanitized binary keeps its
        symbols, for its reports, and takes the sanitizers from the process (see `sanitizer_libraries`).
        """
        return (
            "-shared", *(() if self.sanitized else ("-s",)), "-Wl,--build-id=none", "-Wl,--as-needed",
            "-Wl,--no-undefined", "-Wl,--warn-unresolved-symbols", "-lm",
        )  # fmt: skip


def find_toolchain(ctx: JobContext) -> Toolchain:
    """The compiler named by KFORGE_CXX, else g++, else clang++.

    Raises:
        ToolchainError: there is none, or the one named does not run.
    """
    environment = ctx.environment
    path = environment.get("PATH", os.defpath)
    named = shlex.split(environment.get("KFORGE_CXX", ""))
    if named:
        if not shutil.which(named[0], path=path):
            raise ToolchainError(f"KFORGE_CXX names {named[0]}, which is no program; {PACKAGES}")
        return _probe(ctx, tuple(named), environment)
    for name in ("g++", "clang++"):
        found = shutil.which(name, path=path)
        if found:
            return _probe(ctx, (found,), environment)
    raise ToolchainError(f"no C++ compiler on PATH (looked for g++ and clang++): {PACKAGES}")


def _probe(ctx: JobContext, command: tuple[str, ...], environment: Mapping[str, str]) -> Toolchain:
    run = ctx.run([*command, "--version"], env={**environment, "LC_ALL": "C"}, timeout_s=30)
    first = (run.stdout.strip().splitlines() or [""])[0]
    if run.returncode != 0 or not first:
        said = (run.stderr or run.stdout).strip()[:300]
        raise ToolchainError(f"{shlex.join(command)} --version failed ({said or 'it said nothing'}); {PACKAGES}")
    return Toolchain(command, "clang" if "clang" in first else "gcc", first, baseline())


def baseline(cpuinfo: Path = Path("/proc/cpuinfo"), machine: str = platform.machine()) -> tuple[str, ...]:
    """The instruction set for candidates: x86-64-v3 where this processor has it, else x86-64-v2; none elsewhere."""
    if machine not in ("x86_64", "AMD64"):
        return ()
    try:
        text = cpuinfo.read_text()
    except OSError:
        text = ""
    line = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return ("-march=x86-64-v3",) if set(line.split()) >= _V3 else ("-march=x86-64-v2",)


def sanitizer_libraries(ctx: JobContext, toolchain: Toolchain) -> list[str]:
    """What LD_PRELOAD has to name in the process that loads a sanitized binary. Raises ToolchainError.

    The process removes LD_PRELOAD from its environment at once: clang's run-time starts llvm-symbolizer to name lines,
    and that hangs if it inherits it.
    """
    # clang's library for addresses has the other checks in it.
    clang = (f"libclang_rt.asan-{platform.machine()}.so",)
    found = []
    for name in ("libasan.so", "libubsan.so") if toolchain.kind == "gcc" else clang:
        run = ctx.run([*toolchain.command, f"-print-file-name={name}"], timeout_s=30)
        path = run.stdout.strip()
        if not Path(path).is_absolute():
            raise ToolchainError(f"{shlex.join(toolchain.command)} has no {name}; install its sanitizer libraries")
        found.append(os.path.realpath(path))
    return found


def find_ninja(ctx: JobContext) -> str:
    """The ninja of this environment's package, else one on PATH. Raises ToolchainError."""
    try:
        import ninja

        packaged = Path(ninja.BIN_DIR) / "ninja"
        if packaged.exists():
            return str(packaged)
    except ImportError:
        pass
    found = shutil.which("ninja", path=ctx.environment.get("PATH", os.defpath))
    if not found:
        raise ToolchainError("ninja was not found: `pip install ninja` into the server's environment")
    return found
