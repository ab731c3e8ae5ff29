"""What `kforge-mcp doctor` says of the GPUs, who else uses them, and NVIDIA's tools for kernels."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kforge_mcp.cli.findings import Finding
from kforge_mcp.errors import KForgeError

if TYPE_CHECKING:
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.records.project import Interpreter

_TIMEOUT_S = 60.0


def gpu_findings(root: str, python: str) -> Iterator[Finding]:
    """Findings about the devices as the model interpreter's process sees them."""
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.engine.interpreter import find_interpreter
    from kforge_mcp.store.workspace import Workspace, default_root

    try:
        workspace = Workspace.open(root or default_root())
        interpreter = find_interpreter(python, Path.cwd())
    except (KForgeError, OSError):
        yield Finding("GPU", "warning", "not looked at: there is no model interpreter", "see model interpreter")
        return
    try:
        with JobContext.standalone(workspace, tool="doctor") as ctx:
            try:
                with ctx.runtime(interpreter) as process:
                    answer = process.call("devices", {}, timeout_s=_TIMEOUT_S)
            except KForgeError as error:
                yield Finding("GPU", "warning", f"looking for GPUs failed: {error}", "see whether the driver is loaded")
                return
            yield from device_findings(answer, interpreter)
            if answer["devices"]:
                yield from tool_findings(ctx, interpreter)
    finally:
        workspace.close()


def device_findings(answer: dict[str, Any], interpreter: Interpreter) -> Iterator[Finding]:
    """Findings about each device; `answer` is that of the runtime's `devices`."""
    if not answer["devices"]:
        detail = f"none: {answer['error']}. Captures, searches and exports run for the CPU"
        yield Finding("GPU", "ok", f"{detail}; candidates for CUDA are compiled only")
        return
    for device in answer["devices"]:
        detail = (
            f"{device['name']} ({device['uuid']}), {device['architecture']}, {device['sm_count']} multiprocessors, "
            f"{device['free_bytes'] >> 20} of {device['memory_bytes'] >> 20} MiB free, driver {device['driver']} for "
            f"CUDA {device['cuda']}"
        )
        if device["others"]:
            remedy = "timing answers device_busy while another process computes there: end it or wait for it"
            yield Finding("GPU", "warning", f"{detail}; {device['others']}", remedy)
        elif device["others_unknown"]:
            yield Finding("GPU", "ok", f"{detail}; other processes on it cannot be told: {device['others_unknown']}")
        else:
            yield Finding("GPU", "ok", detail)
    if not interpreter.cuda_version:
        detail = f"torch {interpreter.torch_version} of {interpreter.executable} is built without CUDA: it sees no GPU"
        yield Finding("torch for CUDA", "warning", detail, "install torch's CUDA build into the model's environment")


def tool_findings(ctx: JobContext, interpreter: Interpreter) -> Iterator[Finding]:
    """Findings about the checker and the profiler, which candidates do not need but are better with."""
    from kforge_mcp.compile.cuda.tools import CHECKER, PROFILER, find_tool, missing

    effects = {CHECKER: "no memory and race check before an export", PROFILER: "profiles have no hardware counters"}
    for name, effect in effects.items():
        path = find_tool(ctx, name, interpreter)
        if path:
            yield Finding(name, "ok", path)
        else:
            yield Finding(name, "warning", effect, missing(name))
