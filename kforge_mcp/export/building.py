"""Writes a package's folder: Python code, judged binaries, sources, and the operators built against torch."""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kforge_mcp.errors import ToolchainError
from kforge_mcp.export.baseline import Baseline
from kforge_mcp.export.contents import manifest, operators
from kforge_mcp.export.kernels import Kernel
from kforge_mcp.export.rendering import TEMPLATE, operators_source, project_file
from kforge_mcp.records.project import Target

_TARGET_VERSION = "0x020a000000000000"
_TIMEOUT_S = 300


class Run(Protocol):
    """Runs a command to its end, as `JobContext.run` does."""

    def __call__(self, command: Sequence[str], *, cwd: Path, timeout_s: float) -> Any:
        """Returns something with `returncode`, `stderr` and `timed_out`."""
        ...


@dataclass(frozen=True)
class TorchPaths:
    """Where torch's headers and libraries are, as the runtime's `build_paths` answers."""

    include: list[str]
    library: list[str]


def stage(
    folder: Path,
    name: str,
    kernels: list[Kernel],
    *,
    baseline: Baseline,
    compiler: Sequence[str],
    torch: TorchPaths,
    run: Run,
    target: Target = "cpu",
) -> None:
    """Write and build the package `name` into an empty `folder`. Equal inputs give equal bytes.

    The kernels are the very binaries that the judge measured; one more library holds their operators.
    Raises `ToolchainError` with the compiler's words if that does not build.
    """
    packed = operators(kernels)
    package = folder / name
    shutil.copytree(TEMPLATE / "package", package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copyfile(Path(__file__).with_name("wheel.py"), folder / "build_backend.py")
    (folder / "pyproject.toml").write_text(project_file(name))
    for part in ("kernels", "sources"):
        (package / part).mkdir()
    for operator in packed:
        (package / "sources" / operator.source).write_text(operator.kernel.source)
        for binary, file in operator.binaries.items():
            shutil.copyfile(binary, package / file)
    (package / "sources" / "_operators.cpp").write_text(operators_source(name, packed, target))
    build_operators(package, compiler, torch, run)
    libraries = {
        path.relative_to(package).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((*package.glob("*.so"), *(package / "kernels").iterdir()))
    }
    content = manifest(name, packed, libraries, baseline, target)
    (package / "manifest.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


def build_operators(package: Path, compiler: Sequence[str], torch: TorchPaths, run: Run) -> None:
    """Compile `sources/_operators.cpp` to `_operators.so`. Raises `ToolchainError` with the compiler's words."""
    command = [
        *compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-fvisibility-inlines-hidden",
        f"-DTORCH_TARGET_VERSION={_TARGET_VERSION}", "-w",
        *[flag for path in torch.include for flag in ("-isystem", path)],
        # Messages inside torch's headers name their file: the same bytes wherever torch is installed.
        *[f"-ffile-prefix-map={path}=torch" for path in sorted(torch.include, key=len)],
        "sources/_operators.cpp", "-o", "_operators.so",
        *[f"-L{path}" for path in torch.library],
        "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-Wl,--as-needed", "-ldl", "-Wl,--build-id=none", "-s",
    ]  # fmt: skip
    done = run(command, cwd=package, timeout_s=_TIMEOUT_S)
    if done.timed_out or done.returncode != 0:
        what = f"did not end within {_TIMEOUT_S} s" if done.timed_out else str(done.stderr)[-1200:]
        raise ToolchainError(
            f"the package's operators could not be built with {shlex.join(compiler)}: {what}\nSet KFORGE_CXX to a "
            "C++17 compiler that can build against this torch."
        )
