"""Job functions that the engine tests submit; the engine finds this module through PYTHONPATH."""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import UsageError
from kforge_mcp.records.project import Interpreter


def echo(ctx: JobContext, **arguments: Any) -> dict[str, Any]:
    marked = {name: value for name, value in ctx.environment.items() if name.startswith("KFORGE_MARK")}
    return {"arguments": arguments, "engine": os.getpid(), "cwd": ctx.job.cwd, "marked": marked}


def gate(ctx: JobContext, folder: str, name: str = "gate") -> dict[str, Any]:
    """Say that the attempt started, then wait until the file `open` is there."""
    Path(folder, f"{name}.started.{ctx.job.attempt}").touch()
    ctx.progress("waiting at the gate", 0.5)
    while not Path(folder, "open").exists():
        ctx.check_cancelled()
        time.sleep(0.01)
    return {"attempt": ctx.job.attempt, "engine": os.getpid()}


def hang(ctx: JobContext, folder: str) -> dict[str, Any]:
    """Run a command that starts another one and never ends."""
    script = f"sleep 1000 & echo $! > {folder}/grandchild; echo $$ > {folder}/child; wait"
    ctx.run(["sh", "-c", script], timeout_s=1000)
    return {}


def retried_hang(ctx: JobContext, folder: str) -> dict[str, Any]:
    """Hang in the first attempt, end in the next."""
    return hang(ctx, folder) if ctx.job.attempt == 1 else {"attempt": ctx.job.attempt}


def runtime(ctx: JobContext, folder: str) -> dict[str, Any]:
    """Keep a runtime process of this Python in the first attempt, end in the next."""
    if ctx.job.attempt > 1:
        return {"attempt": ctx.job.attempt}
    python = Interpreter(executable=sys.executable, found_by="server", python_version="", torch_version="")
    with ctx.runtime(python) as process:
        Path(folder, "child").write_text(str(process.process.pid))
        return gate(ctx, folder)


def refuse(ctx: JobContext) -> dict[str, Any]:
    raise UsageError("the entry cannot be imported")


def fail(ctx: JobContext) -> dict[str, Any]:
    raise ZeroDivisionError("of the job")


def leave(ctx: JobContext) -> dict[str, Any]:
    sys.exit(3)


def text(ctx: JobContext) -> Any:
    return "no dict"


def no_json(ctx: JobContext) -> dict[str, Any]:
    return {"value": object()}


def nan(ctx: JobContext) -> dict[str, Any]:
    return {"value": float("nan")}


def kill_engine(ctx: JobContext) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def scratch(ctx: JobContext) -> dict[str, Any]:
    folder = ctx.scratch()
    (folder / "file").write_text("data")
    return {"folder": str(folder)}


def scratch_of_the_dead(ctx: JobContext) -> dict[str, Any]:
    """Take a scratch folder and the engine down in the first attempt; say what lies there in the next."""
    folder = ctx.scratch()
    if ctx.job.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"own": folder.name, "found": sorted(path.name for path in ctx.workspace.scratch_dir.iterdir())}
