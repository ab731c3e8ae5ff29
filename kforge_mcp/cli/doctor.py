"""`kforge-mcp doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

from kforge_mcp import __version__
from kforge_mcp.cli.doctor_cuda import cuda_findings
from kforge_mcp.cli.doctor_gpu import gpu_findings
from kforge_mcp.cli.findings import Finding, Level
from kforge_mcp.errors import KForgeError

_NEEDED = (
    "mcp", "pydantic", "structlog", "ninja", "sqlalchemy", "alembic", "dask", "distributed", "scipy", "rich",
    "platformdirs", "numpy", "jinja2", "filelock", "cryptography",
)  # fmt: skip
_LITTLE_SPACE = 2 << 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--workspace", default="", metavar="DIR", help="the workspace to look at")
    parser.add_argument(
        "--python", default="", help="the Python that runs the model (default: found as a capture does)"
    )
    parser.add_argument(
        "--judge", action="store_true", help="try to fool the judge on this machine instead: cheats and honest kernels"
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(options: argparse.Namespace) -> int:
    """Print the findings; 1 if there is a problem, 0 with warnings only."""
    if options.judge:
        from kforge_mcp.cli.doctor_judge import judge_report

        return judge_report(options.python, as_json=options.json)
    findings = [finding for look in _looks(options) for finding in look()]
    if options.json:
        print(json.dumps({"version": __version__, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print(findings)
    return int(any(finding.level == "problem" for finding in findings))


def _print(findings: list[Finding]) -> None:
    marks = {"ok": "ok     ", "warning": "warning", "problem": "PROBLEM"}
    for finding in findings:
        print(f"{marks[finding.level]}  {finding.name}: {finding.detail}")
        if finding.remedy:
            print(f"         -> {finding.remedy}")
    print(
        "\nThe server runs the model's own code and compiles what the agent writes: it is no security boundary. "
        "The model's source text is shown to the agent; captured samples stay in the workspace."
    )


def _looks(options: argparse.Namespace) -> tuple[Callable[[], Iterator[Finding]], ...]:
    return (
        _python,
        _packages,
        lambda: _workspace(options.workspace),
        lambda: _model_interpreter(options.python),
        lambda: _compilers(options.workspace),
        lambda: cuda_findings(options.workspace, options.python),
        lambda: gpu_findings(options.workspace, options.python),
        _sandbox,
    )


def _python() -> Iterator[Finding]:
    detail = f"{platform.python_version()} at {sys.executable}, {platform.system()} {platform.machine()}"
    if platform.system() == "Linux":
        yield Finding("server python", "ok", detail)
    else:
        remedy = "run the server on Linux or in WSL2; other systems reach it over ssh"
        yield Finding("server python", "problem", f"{detail}: jobs run on Linux only", remedy)


def _packages() -> Iterator[Finding]:
    missing, found = [], []
    for name in _NEEDED:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        remedy = f"{sys.executable} -m pip install --force-reinstall kforge-mcp"
        yield Finding("server packages", "problem", f"missing: {', '.join(missing)}", remedy)
    else:
        yield Finding("server packages", "ok", ", ".join(found[:4]) + f" and {len(found) - 4} more")


def _workspace(root: str) -> Iterator[Finding]:
    from kforge_mcp.engine.state import read_state
    from kforge_mcp.store import jobs
    from kforge_mcp.store.workspace import Workspace, default_root

    try:
        workspace = Workspace.open(root or default_root())
    except (KForgeError, OSError) as error:
        remedy = "name another folder with --workspace or KFORGE_WORKSPACE"
        yield Finding("workspace", "problem", str(error), remedy)
        return
    try:
        free = shutil.disk_usage(workspace.root).free
        level: Level = "ok" if free > _LITTLE_SPACE else "warning"
        remedy = "" if level == "ok" else "a capture keeps up to 1 GiB of samples; make room or move the workspace"
        yield Finding("workspace", level, f"{workspace.root}, writable, {free / 1e9:.0f} GB free", remedy)
        with workspace.reading() as session:
            unfinished = len(jobs.unfinished(session))
        state = read_state(workspace.engine_dir)
        how = f"process {state.pid} at {state.address}" if state else "not running; the next job starts it"
        yield Finding("engine", "ok", f"{how}; {unfinished} unfinished jobs")
    finally:
        workspace.close()


def _model_interpreter(python: str) -> Iterator[Finding]:
    from kforge_mcp.engine.interpreter import find_interpreter

    try:
        found = find_interpreter(python, Path.cwd())
    except KForgeError as error:
        yield Finding(
            "model interpreter",
            "problem",
            str(error),
            "run doctor in the model's folder or with --python; without any torch: pip install 'torch>=2.10' there",
        )
        return
    cuda = f"CUDA {found.cuda_version}" if found.cuda_version else "without CUDA"
    detail = (
        f"{found.executable} (found by {found.found_by}), Python {found.python_version}, torch {found.torch_version}"
    )
    yield Finding("model interpreter", "ok", f"{detail}, {cuda}")


def _compilers(root: str) -> Iterator[Finding]:
    from kforge_mcp.compile.toolchain import find_ninja, find_toolchain
    from kforge_mcp.engine.context import JobContext
    from kforge_mcp.store.workspace import Workspace, default_root

    try:
        workspace = Workspace.open(root or default_root())
    except (KForgeError, OSError):
        return
    try:
        with JobContext.standalone(workspace, tool="doctor") as ctx:
            try:
                toolchain = find_toolchain(ctx)
                flags = " ".join(toolchain.baseline)
                yield Finding(
                    "C++ compiler", "ok", f"{' '.join(toolchain.command)}: {toolchain.version} {flags}".strip()
                )
            except KForgeError as error:
                yield Finding("C++ compiler", "problem", str(error), "candidates for the CPU and packages need one")
            try:
                yield Finding("ninja", "ok", find_ninja(ctx))
            except KForgeError as error:
                yield Finding("ninja", "problem", str(error), f"{sys.executable} -m pip install ninja")
    finally:
        workspace.close()


def _sandbox() -> Iterator[Finding]:
    """What holds a CPU candidate in: a network namespace of its own, limits, no rights to gain."""
    unshare = shutil.which("unshare")
    isolated = False
    if unshare:
        try:
            trial = subprocess.run([unshare, "--user", "--net", "true"], capture_output=True, timeout=10, check=False)
            isolated = trial.returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            isolated = False
    groups = Path("/sys/fs/cgroup/cgroup.controllers").exists()
    parts = [
        "a network namespace" if isolated else "no network namespace",
        "cgroup v2" if groups else "no cgroup v2",
    ]
    if isolated:
        yield Finding("sandbox", "ok", ", ".join(parts))
    else:
        remedy = "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1), or judge only code that you trust"
        yield Finding("sandbox", "warning", ", ".join(parts) + ": candidates can reach the network", remedy)
