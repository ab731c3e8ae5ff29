"""The two processes whose calls are timed, seen from the referee: a candidate's, and twins that run eager.

A side waits for orders on a socket. From the end of an order to the next one it is stopped; the time of a call runs
from before it is continued to after it is seen to have stopped, so work before or after it gains nothing.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import struct
import time
import traceback
from collections.abc import Callable
from typing import Any

from .arena import Arena
from .checks import Finding
from .system_calls import name_of

GO, PREPARE, EXPORT, LOAD = b"G", b"P", b"X", b"L"
_TIMEVAL = struct.Struct("ll")
_HEADER = struct.Struct(">cI")
_REPLY_LIMIT = 4096
_OUTPUT_TAIL = 600
_SIGNALS = {
    signal.SIGSYS: ("sandbox_violation", "made a system call that a kernel does not need (files, network, processes)"),
    signal.SIGXFSZ: ("sandbox_violation", "wrote more than the file-size limit"),
    signal.SIGXCPU: ("timed_out", "used more than its processor time"),
    signal.SIGKILL: ("out_of_memory", "was killed, as the kernel does when memory runs out"),
}


class SideError(Exception):
    """A side's process did not do what was asked; `finding` says what became of it."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Side:
    """One process and the memory shared with it. `channel` is the referee's end of its socket."""

    def __init__(
        self, who: str, pid: int, channel: socket.socket, arena: Arena, output: int, memory_bytes: int
    ) -> None:
        self.who = who
        self.pid = pid
        self.arena = arena
        self._channel = channel
        self._output = output
        self._memory_bytes = memory_bytes
        self._started_kb = _resident_kb(pid)
        self._ended = False

    @property
    def is_candidate(self) -> bool:
        """Whether a candidate's code runs in the process; otherwise eager does."""
        return self.who == "candidate"

    @property
    def descriptors(self) -> list[int]:
        """What a process forked later must not hold."""
        return [self._channel.fileno(), self._output]

    def first_answer(self, timeout_s: float) -> bytes:
        """Wait until the side is ready for orders, and stop it. Raises `SideError`."""
        self._deadline(timeout_s)
        length = struct.unpack(">H", self._receive(2))[0]
        text = self._receive(min(length, _REPLY_LIMIT)) if length else b""
        self._halt()
        return text

    def order(self, opcode: bytes, body: Any, timeout_s: float) -> bytes:
        """Have the side do something that is not timed; returns its short answer, and the side is stopped.

        Raises `SideError`.
        """
        self._resume()
        data = json.dumps(body).encode()
        self._deadline(timeout_s)
        self._send(_HEADER.pack(opcode, len(data)) + data)
        answer = self._receive(2)
        length = struct.unpack(">H", answer)[0]
        text = self._receive(min(length, _REPLY_LIMIT)) if length else b""
        self._halt()
        return text

    def go(self, timeout_s: float) -> float:
        """Run the prepared calls; returns seconds by the referee's clock. Raises `SideError`."""
        self._deadline(timeout_s)
        self._require_silence()
        header = _HEADER.pack(GO, 0)
        start = time.perf_counter()
        self._resume()
        self._send(header)
        self._receive(1)
        self._halt()
        return time.perf_counter() - start

    def pin(self, processor: int, processors: set[int]) -> bool:
        """Have the main thread run on this processor and the other threads on any; False where that is not allowed."""
        try:
            for task in os.listdir(f"/proc/{self.pid}/task"):
                os.sched_setaffinity(int(task), {processor} if int(task) == self.pid else processors)
        except OSError:
            return False
        return True

    def threads(self) -> int:
        """Threads that exist in the process."""
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def output(self) -> str:
        """The end of what the process printed."""
        size = os.fstat(self._output).st_size
        return os.pread(self._output, _OUTPUT_TAIL, max(0, size - _OUTPUT_TAIL)).decode(errors="replace").strip()

    def kill(self) -> None:
        """End the process."""
        if not self._ended:
            self._ended = True
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self._channel.close()

    def _resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def _halt(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        _, status, usage = os.wait4(self.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise self._died(status, usage)

    def _deadline(self, seconds: float) -> None:
        whole = int(seconds)
        value = _TIMEVAL.pack(whole, int((seconds - whole) * 1e6))
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
        self._channel.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
        self._seconds = seconds

    def _send(self, data: bytes) -> None:
        try:
            self._channel.sendall(data)
        except BlockingIOError:
            raise self._hangs() from None
        except OSError:
            raise self._reap() from None

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                more = self._channel.recv(count - len(data))
            except BlockingIOError:
                raise self._hangs() from None
            except OSError:
                more = b""
            if not more:
                raise self._reap()
            data += more
        return data

    def _require_silence(self) -> None:
        try:
            waiting = self._channel.recv(1, socket.MSG_DONTWAIT | socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            waiting = b""
        if not waiting:
            raise self._reap()
        self.kill()
        raise self._failed("sandbox_violation", "wrote to the judge's channel unasked")

    def _failed(self, reason: str, what: str) -> SideError:
        """What became of a candidate; of a twin it is the judge's own failure and says nothing of the candidate."""
        if self.is_candidate:
            return SideError(Finding(reason, f"the candidate {what}"))
        return SideError(Finding("internal_error", f"eager's process (the {self.who}) {what} ({reason})"))

    def _hangs(self) -> SideError:
        self.kill()
        return self._failed("timed_out", f"did not return within {self._seconds:g} s")

    def _reap(self) -> SideError:
        """The process closed its channel: it ends, or it is made to."""
        deadline = time.monotonic() + 5
        while time.monotonic() < deadline:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid:
                return self._died(status, usage)
            time.sleep(0.005)
        self.kill()
        return self._failed("sandbox_violation", "closed the judge's channel")

    def _died(self, status: int, usage: resource.struct_rusage) -> SideError:
        self._ended = True
        printed = self.output()
        tail = f"; it printed: {printed[-200:]}" if printed else ""
        exit_status = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        aborted = exit_status == signal.SIGABRT  # see candidate_side
        grown = (usage.ru_maxrss - self._started_kb) * 1024
        swollen = number not in (0, signal.SIGSYS) and grown > 0.8 * self._memory_bytes
        if swollen or ("bad_alloc" in printed and (number or aborted)):
            limit = self._memory_bytes // (1 << 20)
            return self._failed("out_of_memory", f"needed more than {limit} MiB of memory{tail}")
        if exit_status is not None:
            why = ", as after abort() or an exception that left the kernel" if aborted else ""
            return self._failed("crashed", f"ended its process with exit status {exit_status}{why}{tail}")
        if number in _SIGNALS:
            reason, what = _SIGNALS[signal.Signals(number)]
            call = int(self.arena.refused_call) & 0xFFFFFFFF
            if number == signal.SIGSYS and call:
                what = f"made the system call `{name_of(call - 1)}`, which a kernel does not need"
            return self._failed(reason, f"{what}{tail}")
        name = signal.Signals(number).name
        return self._failed("crashed", f"ended with {name}{tail}")


def start(
    who: str,
    body: Callable[[socket.socket, Arena, int], None],
    arena: Arena,
    prepare: Callable[[], None],
    memory_bytes: int,
    close: list[int],
) -> Side:
    """Fork a side. `prepare` runs in an intermediate process that then ends, so that a new process namespace begins
    with the side; `body` is the side's life. Descriptors in `close` are not inherited.
    """
    ours, theirs = socket.socketpair()
    output = os.memfd_create("output")
    read, write = os.pipe()
    between = os.fork()
    if between == 0:
        os.close(read)
        for descriptor in (*close, ours.fileno()):
            os.close(descriptor)
        _live(body, prepare, theirs, arena, output, write)
    os.close(write)
    theirs.close()
    pid = int(os.read(read, 16) or b"0")
    os.close(read)
    os.waitpid(between, 0)
    if pid == 0:
        raise SideError(Finding("internal_error", f"the {who}'s process could not be started"))
    ours.send(b"!")
    return Side(who, pid, ours, arena, output, memory_bytes)


def _live(
    body: Callable[[socket.socket, Arena, int], None],
    prepare: Callable[[], None],
    channel: socket.socket,
    arena: Arena,
    output: int,
    write: int,
) -> None:
    """The rest of the two forked processes' lives; neither returns to the referee's code."""
    status = 1
    try:
        prepare()
        pid = os.fork()
        if pid:
            os.write(write, b"%d" % pid)
        else:
            os.close(write)
            channel.recv(1)
            body(channel, arena, output)
        status = 0
    except Exception:  # noqa: BLE001 - the top of the process: what went wrong belongs in the log
        traceback.print_exc()
    finally:
        os._exit(status)


def read_order(channel: socket.socket) -> tuple[bytes, Any]:
    """In a side: the next order; ends the process when the referee is gone."""
    header = _read_exactly(channel, _HEADER.size)
    opcode, length = _HEADER.unpack(header)
    return opcode, json.loads(_read_exactly(channel, length)) if length else None


def answer(channel: socket.socket, text: str = "") -> None:
    """In a side: report that an order that is not timed has been carried out."""
    data = text.encode()[:_REPLY_LIMIT]
    os.write(channel.fileno(), struct.pack(">H", len(data)) + data)


def done(channel: socket.socket) -> None:
    """In a side: report the end of a timed order."""
    os.write(channel.fileno(), b"D")


def _read_exactly(channel: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = os.read(channel.fileno(), count - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def _resident_kb(pid: int) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024
