"""Where NVIDIA's tools are: the checker and the profiler, on PATH, in a toolkit, or in wheels."""

from __future__ import annotations

import glob
import os
import shutil
import sys
from pathlib import Path

from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.project import Interpreter

CHECKER = "compute-sanitizer"
PROFILER = "ncu"
_PACKAGES = {CHECKER: "nvidia-cuda-sanitizer-api"}
"""Wheels that have a tool."""
_OWN_FOLDERS = ("/opt/nvidia/nsight-compute/*",)
"""Where Nsight Compute puts itself."""


def find_tool(ctx: JobContext, name: str, interpreter: Interpreter | None = None) -> str:
    """The path of `CHECKER` or `PROFILER`; empty if it is nowhere."""
    environment = ctx.environment
    found = shutil.which(name, path=environment.get("PATH", os.defpath))
    if found:
        return found
    homes = [environment.get("CUDA_HOME", ""), environment.get("CUDA_PATH", ""), "/usr/local/cuda"]
    patterns = [f"{home}/{folder}/{name}" for home in homes if home for folder in ("bin", name)]
    pythons = [sys.executable, *([interpreter.executable] if interpreter else [])]
    patterns += [f"{Path(python).parent.parent}/lib/python*/site-packages/nvidia/*/bin/{name}" for python in pythons]
    patterns += [f"{folder}/{name}" for folder in _OWN_FOLDERS]
    for pattern in patterns:
        for path in sorted(glob.glob(pattern), reverse=True):
            if os.path.isfile(path) and os.access(path, os.R_OK):
                return path
    return ""


def missing(name: str) -> str:
    """What to say of a tool that is nowhere."""
    package = _PACKAGES.get(name)
    remedy = f"pip install {package}, or a CUDA toolkit" if package else "install a CUDA toolkit or Nsight Compute"
    return f"{name} was found neither on PATH nor in a CUDA toolkit or wheel; {remedy} to have it"
