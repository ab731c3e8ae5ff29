"""The warm compiler process: has NVRTC loaded and headers precompiled, and forks once for every compilation.

Run as a program with two arguments, the descriptor of a control socket and the folder of the shim headers. Every
message on it carries the descriptor of one end of a socket pair; the other end sends one line of JSON (a request),
reads one line of JSON (how the forked child ended), and takes the compilation back by closing. The child writes what
NVRTC said into the request's folder.

A request has `prelude` and `text` (the source's two parts, the first of headers only), `options`, `names` (NVRTC name
expressions), `folder`, `pch` (whether to precompile the prelude), and limits: `cpu_s`, `wall_s`, `memory_bytes`,
`file_bytes`. In the folder come to lie `result.json` (`ok`, `status`, `log`, `lowered`) and, if it compiled,
`image.cubin` and `image.ptx`.

Standard library and the NVRTC bindings below cuda-core only (cuda.core itself brings numpy and threads), one thread, no
CUDA context: forking is safe. A precompiled header is readable only in the process that made it and its forks, which
is why this process makes them itself. It ends with whoever holds the control socket, or when idle for long.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any

from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]

IDLE_S = 900.0
PCH_HEAP_BYTES = 1 << 30
"""Address space reserved for a precompiled header; memory is taken as it fills."""
PCH_SETS = 24
PCH_BYTES = 3 << 30
"""Precompiled headers kept: at most so many, and about so many bytes of files. What does not fit compiles without."""
TOO_LARGE = "TOO_LARGE"
"""The status of a compilation whose image has more than `file_bytes`."""
_PR_SET_PDEATHSIG = 1
_TICK_S = 0.5
_SUFFIX = "#pragma nv_hdr_stop\n"


@dataclass
class Compilation:
    """A request, and its forked child once there is one."""

    sock: socket.socket
    received: bytearray = field(default_factory=bytearray)
    request: dict[str, Any] | None = None
    pid: int = 0
    pidfd: int = -1
    deadline: float = 0.0
    timed_out: bool = False


class Headers:
    """Precompiled preludes, by their text and options, as files without a name."""

    def __init__(self) -> None:
        nvrtc.nvrtcSetPCHHeapSize(PCH_HEAP_BYTES)
        self._files: dict[str, int] = {}
        self._bytes = 0

    def path(self, prelude: str, options: list[str]) -> str:
        """The file for a prelude, made if it is new; empty where there is none."""
        key = json.dumps([prelude, options])
        if key not in self._files:
            self._files[key] = self._make(prelude, options)
        number = self._files[key]
        return f"/proc/self/fd/{number}" if number >= 0 else ""

    def _make(self, prelude: str, options: list[str]) -> int:
        if len(self._files) >= PCH_SETS or self._bytes >= PCH_BYTES:
            return -1
        with tempfile.TemporaryDirectory(prefix="kforge-pch-") as folder:
            path = f"{folder}/prelude"
            made = compile_program(prelude + _SUFFIX, [*options, f"--create-pch={path}"], [])
            if not made["ok"] or not made["pch"]:
                return -1
            number = os.open(path, os.O_RDONLY)
        size = os.fstat(number).st_size
        self._bytes += size
        return number


def compile_program(text: str, options: list[str], names: list[str]) -> dict[str, Any]:
    """Compile with NVRTC; the images are bytes."""
    status, program = nvrtc.nvrtcCreateProgram(text.encode(), b"candidate.cu", 0, [], [])
    for name in names:
        nvrtc.nvrtcAddNameExpression(program, name.encode())
    encoded = [option.encode() for option in options]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(encoded), encoded)
    ok = status == nvrtc.nvrtcResult.NVRTC_SUCCESS
    result: dict[str, Any] = {
        "ok": ok,
        "status": status.name,
        "log": _text(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program),
        "lowered": {},
        "pch": nvrtc.nvrtcGetPCHCreateStatus(program)[0] == nvrtc.nvrtcResult.NVRTC_SUCCESS,
    }
    if ok:
        for name in names:
            found, lowered = nvrtc.nvrtcGetLoweredName(program, name.encode())
            result["lowered"][name] = lowered.decode() if found == nvrtc.nvrtcResult.NVRTC_SUCCESS else ""
        result["cubin"] = _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        result["ptx"] = _bytes(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0")
    nvrtc.nvrtcDestroyProgram(program)
    return result


def _bytes(size: Any, read: Any, program: Any) -> bytes:
    status, count = size(program)
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS or not count:
        return b""
    data = b" " * count
    read(program, data)
    return data


def _text(size: Any, read: Any, program: Any) -> str:
    return _bytes(size, read, program).rstrip(b"\0").decode(errors="replace").replace("\0", "")


def run_child(request: dict[str, Any], pch: str) -> None:
    """In the forked child: limits, the compilation, and its outcome into the folder."""
    cpu = max(int(request["cpu_s"]), 1)
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
    # With a precompiled header NVRTC takes its memory from a file that it maps.
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(request["file_bytes"], PCH_HEAP_BYTES),) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + request["memory_bytes"],) * 2)
    text, options = request["prelude"] + request["text"], request["options"]
    if pch:
        text = request["prelude"] + _SUFFIX + request["text"]
        options = [*options, f"--use-pch={pch}", "--pch-messages=false"]
    result = compile_program(text, options, request["names"])
    os.chdir(request["folder"])
    for kind in ("cubin", "ptx"):
        data = result.pop(kind, b"")
        if len(data) > request["file_bytes"]:
            result |= {"ok": False, "status": TOO_LARGE}
        elif data:
            with open(f"image.{kind}", "wb") as file:
                file.write(data)
    with open("result.partial", "w") as file:
        json.dump(result, file)
    os.rename("result.partial", "result.json")


class Parent:
    """The loop: takes requests, forks as many children as there are processors, says how they ended."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.headers = Headers()
        self.active: list[Compilation] = []
        self.parallel = len(os.sched_getaffinity(0))
        self.used = time.monotonic()

    def run(self) -> None:
        """Serve until the control socket closes or nothing was asked for long."""
        while self.active or time.monotonic() - self.used < IDLE_S:
            waiting: list[Any] = [self.control, *(one.sock for one in self.active)]
            pidfds = [one.pidfd for one in self.active if one.pid]
            ready = select.select([*waiting, *pidfds], [], [], _TICK_S if self.active else 30.0)[0]
            if self.control in ready and not self._accept():
                break
            for one in list(self.active):
                if one.sock in ready:
                    self._read(one)
            self._reap()
            self._start()
        for one in list(self.active):
            self._end(one, None)

    def _accept(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self.control, 1, 1)
        self.used = time.monotonic()
        if not message:
            return False
        self.active += [Compilation(socket.socket(fileno=number)) for number in descriptors]
        return True

    def _read(self, one: Compilation) -> None:
        data = one.sock.recv(1 << 20)
        if not data:
            self._end(one, None)
            return
        one.received += data
        if one.request is None and one.received.endswith(b"\n"):
            one.request = json.loads(one.received)

    def _start(self) -> None:
        running = sum(one.pid != 0 for one in self.active)
        for one in self.active:
            if running >= self.parallel or one.pid or one.request is None:
                continue
            pch = self.headers.path(one.request["prelude"], one.request["options"]) if one.request["pch"] else ""
            one.pid = os.fork()
            if one.pid == 0:
                self._be_child(one.request, pch)
            one.pidfd = os.pidfd_open(one.pid)
            one.deadline = time.monotonic() + one.request["wall_s"]
            running += 1

    def _be_child(self, request: dict[str, Any], pch: str) -> None:
        status = 1
        try:
            die_with_parent()
            self.control.close()
            for other in self.active:
                other.sock.close()
            run_child(request, pch)
            status = 0
        except MemoryError:
            status = 3
        finally:
            os._exit(status)

    def _reap(self) -> None:
        for one in [one for one in self.active if one.pid]:
            pid, status, usage = os.wait4(one.pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                one.pid = 0
                os.close(one.pidfd)
                said = {
                    "returncode": code,
                    "timed_out": one.timed_out,
                    "cpu_s": usage.ru_utime + usage.ru_stime,
                    "memory_bytes": usage.ru_maxrss << 10,
                }
                self._end(one, said)
            elif not one.timed_out and time.monotonic() > one.deadline:
                one.timed_out = True
                os.kill(one.pid, signal.SIGKILL)

    def _end(self, one: Compilation, said: dict[str, Any] | None) -> None:
        self.active.remove(one)
        self.used = time.monotonic()
        if one.pid:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
            os.close(one.pidfd)
        if said is not None:
            try:
                one.sock.sendall(json.dumps(said).encode() + b"\n")
            except OSError:
                pass
        one.sock.close()


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    """Serve the control socket named on the command line."""
    die_with_parent()
    # NVRTC looks for `#include "x"` in the current folder first: nothing but the shims is to be found there.
    os.chdir(sys.argv[2])
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    Parent(socket.socket(fileno=int(sys.argv[1]))).run()


if __name__ == "__main__":
    main()
