"""The model interpreter: which Python runs the model, found in a fixed order and always named."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from kforge_mcp.engine.processes import RuntimeProcess
from kforge_mcp.errors import InterpreterError, RuntimeFailure
from kforge_mcp.records.project import Interpreter

MINIMUM_TORCH = (2, 10)
_DESCRIBE_TIMEOUT_S = 120


def places(python: str, entry: Path | None, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The places to look, in order, as `(found_by, executable)`; a place that does not apply is left out.

    An explicit `python` is the only place: a named interpreter is never silently replaced by another.
    """
    if python:
        yield "python argument", python
        return
    if environment.get("KFORGE_PYTHON"):
        yield "KFORGE_PYTHON", environment["KFORGE_PYTHON"]
    for folder in (entry, *entry.parents) if entry else ():
        if (folder / ".venv" / "bin" / "python").exists():
            yield "nearest .venv", str(folder / ".venv" / "bin" / "python")
            break
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(variable):
            yield variable, str(Path(environment[variable]) / "bin" / "python")
    yield "server", sys.executable


def find_interpreter(
    python: str,
    entry: Path | None,
    environment: Mapping[str, str] | None = None,
    *,
    folder: str | Path = "",
) -> Interpreter:
    """The first Python in `places` that can import torch, as an absolute path.

    `entry` is the absolute path of the model's file; `environment` (default: this process's) is searched and is what
    the interpreter runs in; relative paths start at `folder`. Raises `InterpreterError` if none can, or if the first
    that can has a torch older than 2.10.
    """
    variables = os.environ if environment is None else environment
    tried: list[str] = []
    for found_by, executable in places(python, entry, variables):
        path = _program(executable, variables, folder)
        if path is None:
            tried.append(f"{executable} ({found_by}): no such program")
            continue
        try:
            answer = _describe(path, variables)
        except RuntimeFailure as failure:
            tried.append(f"{path} ({found_by}): {failure}")
            continue
        interpreter = Interpreter(**{**answer, "executable": path}, found_by=found_by)
        _require_torch(interpreter)
        return interpreter
    raise InterpreterError(
        "no Python that can import torch was found. Tried " + "; ".join(tried) + ". Pass python='/path/to/bin/python' "
        "of the environment that runs the model, or set KFORGE_PYTHON."
    )


def _program(executable: str, environment: Mapping[str, str], folder: str | Path) -> str | None:
    """The absolute path of a program; links are kept, since a virtual environment's Python is one."""
    named = os.path.expanduser(executable)
    if os.path.dirname(named):
        named = os.path.abspath(os.path.join(folder, named))
    return shutil.which(named, path=environment.get("PATH"))


def _require_torch(interpreter: Interpreter) -> None:
    release = interpreter.torch_version.split("+")[0].split(".")
    if tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release[:2]) < MINIMUM_TORCH:
        raise InterpreterError(
            f"{interpreter.executable} (found by {interpreter.found_by}) has torch {interpreter.torch_version}; "
            "torch 2.10 or newer is needed for its stable ABI. Upgrade torch there, or pass python= of another "
            "environment."
        )


def _describe(executable: str, environment: Mapping[str, str]) -> dict[str, str]:
    """What the interpreter says of itself. Not remembered: torch may be installed or upgraded at any time."""
    with tempfile.TemporaryDirectory(prefix="kforge-") as folder:
        log = Path(folder) / "log"
        try:
            with RuntimeProcess(executable, environment=environment, log=log) as process:
                return process.call("describe", {}, timeout_s=_DESCRIBE_TIMEOUT_S)
        except RuntimeFailure as failure:
            printed = log.read_text(errors="replace").split("\n") if log.exists() else []
            words = next((line.strip() for line in reversed(printed) if line.strip()), "")
            raise RuntimeFailure(failure.kind, f"{failure} ({words[:300]})" if words else str(failure)) from failure
