"""The model interpreter: which Python runs the model, found in a fixed order and always named."""

from __future__ import annotations

import functools
import os
import shutil
import sys
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
    for folder in entry.parents if entry else ():
        if (folder / ".venv" / "bin" / "python").exists():
            yield "nearest .venv", str(folder / ".venv" / "bin" / "python")
            break
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if environment.get(variable):
            yield variable, str(Path(environment[variable]) / "bin" / "python")
    yield "server", sys.executable


def find_interpreter(python: str, entry: Path | None, environment: Mapping[str, str] | None = None) -> Interpreter:
    """The first Python in `places` that can import torch.

    Raises `InterpreterError` if none can, or if the one found has a torch older than 2.10.
    """
    tried: list[str] = []
    for found_by, executable in places(python, entry, os.environ if environment is None else environment):
        path = shutil.which(executable)
        if path is None:
            tried.append(f"{executable} ({found_by}): no such program")
            continue
        try:
            answer = _describe(path, Path(path).stat().st_mtime_ns)
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


def _require_torch(interpreter: Interpreter) -> None:
    release = interpreter.torch_version.split("+")[0].split(".")
    if tuple(int("".join(filter(str.isdigit, part)) or 0) for part in release[:2]) < MINIMUM_TORCH:
        raise InterpreterError(
            f"{interpreter.executable} (found by {interpreter.found_by}) has torch {interpreter.torch_version}; "
            "torch 2.10 or newer is needed for its stable ABI. Upgrade torch there, or pass python= of another "
            "environment."
        )


@functools.lru_cache(maxsize=32)
def _describe(executable: str, modified_ns: int) -> dict[str, str]:
    with RuntimeProcess(executable) as process:
        return process.call("describe", {}, timeout_s=_DESCRIBE_TIMEOUT_S)
