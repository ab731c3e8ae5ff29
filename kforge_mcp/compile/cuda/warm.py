"""The client of the warm compiler process: starts it, asks it for compilations, and starts it again if it is gone."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from kforge_mcp.compile.build import Limits
from kforge_mcp.compile.cuda.toolchain import SHIMS, Toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.processes import how_it_ended, kill_group, spawn
from kforge_mcp.errors import RuntimeFailure

PARENT = Path(__file__).with_name("warm_parent.py")
_TICK_S = 0.1
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "TMPDIR", "CUDA_HOME", "CUDA_PATH", "CONDA_PREFIX")

_lock = threading.Lock()
_parents: dict[str, WarmCompiler] = {}


@dataclass(frozen=True)
class Request:
    """One compilation. `pch`: whether the headers of the prelude are worth precompiling."""

    prelude: str
    text: str
    options: list[str]
    names: list[str]
    pch: bool


@dataclass(frozen=True)
class Answer:
    """How a compilation ended. `log` is NVRTC's own; `failure` is set where it did not get that far."""

    ok: bool
    log: str = ""
    status: str = ""
    lowered: dict[str, str] = field(default_factory=dict)
    cubin: bytes = b""
    ptx: str = ""
    folder: Path | None = None
    """Where `image.cubin` and `image.ptx` lie, as far as there are such."""
    failure: str = ""
    """`timed_out`, or how the process ended: `signal SIGXCPU`."""
    cpu_s: float = 0.0
    memory_bytes: int = 0


def compile_program(ctx: JobContext, toolchain: Toolchain, request: Request, limits: Limits) -> Answer:
    """Compile in a fork of the warm process. Its images lie in a scratch folder of the job.

    Raises:
        JobCancelled: the job was cancelled; the compilation is gone.
        RuntimeFailure: the warm process cannot be started.
    """
    folder = ctx.scratch()
    for attempt in range(3):
        # A prelude that brings the parent down, say for want of memory, is not precompiled again.
        asked = {**asdict(request), **asdict(limits), "folder": str(folder), "wall_s": 2 * limits.cpu_s + 30}
        asked["pch"] = request.pch and bool(request.prelude) and attempt < 2
        said = _parent(toolchain).ask(ctx, asked)
        if said is not None:
            return _answer(folder, said)
    raise RuntimeFailure("crashed", f"the CUDA compiler process of {toolchain.python} does not stay up")


def _answer(folder: Path, said: dict[str, Any]) -> Answer:
    usage = {"cpu_s": said["cpu_s"], "memory_bytes": said["memory_bytes"]}
    try:
        result = json.loads((folder / "result.json").read_text())
    except FileNotFoundError:
        failure = "timed_out" if said["timed_out"] else how_it_ended(said["returncode"])
        return Answer(ok=False, failure=failure, **usage)
    cubin, ptx = folder / "image.cubin", folder / "image.ptx"
    return Answer(
        ok=result["ok"],
        log=result["log"],
        status=result["status"],
        lowered=result["lowered"],
        cubin=cubin.read_bytes() if cubin.exists() else b"",
        ptx=ptx.read_text(errors="replace").replace("\0", "") if ptx.exists() else "",
        folder=folder,
        **usage,
    )


class WarmCompiler:
    """One warm process. It ends with this process, or by itself when idle."""

    def __init__(self, toolchain: Toolchain) -> None:
        ours, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            self.process = spawn(
                [toolchain.python, "-I", str(PARENT), str(theirs.fileno()), str(SHIMS)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={**environment, "LC_ALL": "C"},
                pass_fds=[theirs.fileno()],
            )
        except OSError as error:
            ours.close()
            raise RuntimeFailure("crashed", f"cannot start {toolchain.python}: {error}") from error
        finally:
            theirs.close()
        self._control = ours
        self._sending = threading.Lock()
        self.lost = False

    def ask(self, ctx: JobContext, request: dict[str, Any]) -> dict[str, Any] | None:
        """How the compilation's process ended; None if the warm process is gone. Raises JobCancelled."""
        ours, theirs = socket.socketpair()
        with ours:
            try:
                with theirs, self._sending:
                    socket.send_fds(self._control, [b"c"], [theirs.fileno()])
                ours.sendall(json.dumps(request).encode() + b"\n")
                return self._wait(ctx, ours)
            except OSError:
                self.close()
                return None

    def _wait(self, ctx: JobContext, ours: socket.socket) -> dict[str, Any] | None:
        received = b""
        while not received.endswith(b"\n"):
            ctx.check_cancelled()
            if not select.select([ours], [], [], _TICK_S)[0]:
                continue
            data = ours.recv(1 << 16)
            if not data:
                self.close()
                return None
            received += data
        return json.loads(received)

    def close(self) -> None:
        """End the process; safe to repeat."""
        with self._sending:
            if not self.lost:
                self.lost = True
                self._control.close()
                kill_group(self.process)


def _parent(toolchain: Toolchain) -> WarmCompiler:
    with _lock:
        parent = _parents.get(toolchain.python)
        if parent is None or parent.lost:
            parent = _parents[toolchain.python] = WarmCompiler(toolchain)
        return parent


def close_all() -> None:
    """End all warm processes of this process; the next compilation starts one."""
    with _lock:
        for parent in _parents.values():
            parent.close()
        _parents.clear()
