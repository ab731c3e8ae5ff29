"""What `kforge-mcp doctor` says of compiling CUDA candidates: toolchain, headers, and whether they fit together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kforge_mcp.cli.findings import Finding
from kforge_mcp.errors import KForgeError

if TYPE_CHECKING:
    from kforge_mcp.compile.cuda.toolchain import Toolchain
    from kforge_mcp.records.project import Interpreter

_OPTIONAL = {
    "cccl": "kernels that include cub/ or cuda/ do not compile",
    "nvdisasm": "get_candidate(part='sass') has no disassembler",
}


def cuda_findings(root: str, python: str) -> Iterator[Finding]:
    """Findings about the CUDA toolchain for the workspace's captures and the model interpreter."""
    from kforge_mcp.compile.cuda.toolchain import find_toolchain, toolchains
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.engine.interpreter import find_interpreter
    from kforge_mcp.store.workspace import Workspace, default_root

    try:
        workspace = Workspace.open(root or default_root())
    except (KForgeError, OSError):
        return
    interpreter: Interpreter | None = None
    try:
        interpreter = find_interpreter(python, Path.cwd())
    except KForgeError:
        pass
    try:
        with JobContext.standalone(workspace, tool="doctor") as ctx:
            try:
                chosen = find_toolchain(ctx, interpreter)
            except KForgeError as error:
                first = toolchains(ctx, interpreter)[0]
                remedy = f"{first.python} -m pip install {' '.join(first.missing)}"
                yield Finding("CUDA compiler", "warning", str(error), remedy)
                return
            yield from toolchain_findings(chosen, interpreter)
    finally:
        workspace.close()


def toolchain_findings(chosen: Toolchain, interpreter: Interpreter | None) -> Iterator[Finding]:
    """Findings about a toolchain that can be used: its fit to torch, its headers and its disassembler."""
    from kforge_mcp.compile.cuda.probe import wheel
    from kforge_mcp.compile.cuda.toolchain import torch_major

    detail = f"NVRTC {chosen.nvrtc} of {chosen.python}, headers {chosen.versions.get('runtime', '')}"
    wanted = torch_major(interpreter)
    runtime = chosen.versions.get("runtime", "")
    if wanted and wanted != chosen.major:
        assert interpreter is not None
        said = f"{detail}; torch of {interpreter.executable} was built with CUDA {interpreter.cuda_version}"
        remedy = (
            f"pip install 'kforge-mcp[cu{wanted}]' for the server: a driver for CUDA {wanted} may refuse "
            f"code of CUDA {chosen.major}"
        )
        yield Finding("CUDA compiler", "warning", said, remedy)
    elif _release(chosen.nvrtc) != _release(runtime) and runtime[:1].isdigit():
        package = wheel("runtime", chosen.major)
        names = (f"'{name}=={chosen.nvrtc}.*'" for name in (package, wheel("crt", chosen.major)))
        remedy = f"{chosen.python} -m pip install {' '.join(names)}"
        yield Finding("CUDA compiler", "warning", f"{detail}: compiler and headers are of different releases", remedy)
    else:
        yield Finding("CUDA compiler", "ok", detail)
    for part, effect in _OPTIONAL.items():
        if not chosen.folders.get(part):
            package = wheel(part, chosen.major)
            yield Finding(f"CUDA {part}", "warning", effect, f"{chosen.python} -m pip install {package}")


def _release(version: str) -> str:
    """`13.5` of `13.5.37`."""
    return ".".join(version.split(".")[:2])
