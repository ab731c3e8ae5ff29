"""The life of a candidate's process: shut in, load the shared object, call it when told to.

Nothing here is trusted by the referee once the candidate's first line has run.
"""

from __future__ import annotations

import contextlib
import ctypes
import ctypes.util
import os
import re
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import machine_code, sandbox
from .allocation import keep_memory
from .arena import Arena
from .scalars import SCALARS
from .sides import EXPORT, GO, LOAD, PREPARE, answer, done, read_order

_LIBM = ctypes.CDLL("libm.so.6")
_OPENMP = re.compile(r"(/\S*/lib(?:gomp|omp|iomp5)[^/]*\.so[^/\s]*)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Library:
    """A shared object's bytes and the function that it exports."""

    data: bytes
    entry: str


def live(
    channel: socket.socket,
    arena: Arena,
    output: int,
    *,
    libraries: list[Library],
    folder: str,
    threads: int,
    limits: sandbox.Limits,
    applied: sandbox.Applied,
) -> None:
    """Serve orders until the referee is gone. The first answer lists what could not be applied, one per line."""
    keep_memory()
    team = share_openmp(threads)
    read_all = control_words_of_team(team, threads, applied)
    sandbox.report_refused_call(arena.refused_call.data_ptr(), applied)
    path = _shut_in(channel.fileno(), output, libraries, folder, limits, applied)
    functions: list[Any] = []
    calls: list[tuple[Any, list[Any]]] = []
    answer(channel, "\n".join(applied.notes))
    while True:
        opcode, body = read_order(channel)
        if opcode == GO:
            for function, arguments in calls:
                function(*arguments)
            done(channel)
        elif opcode == PREPARE:
            calls = [_bind(functions, arena, call) for call in body]
            answer(channel, floating_point_state() if body else read_all())
        elif opcode == LOAD:
            problem = _load(functions, libraries, path)
            sandbox.filter_calls(channel.fileno(), applied, may_open=False)
            answer(channel, problem)
        elif opcode == EXPORT:
            answer(channel)


def share_openmp(threads: int) -> list[ctypes.CDLL]:
    """Make torch's own OpenMP run-time visible to shared objects loaded later, with a team of this size; returns it.

    Not through `torch.set_num_threads`, which also starts a thread pool that the candidate would be blamed for.
    """
    with open("/proc/self/maps") as file:
        loaded = set(_OPENMP.findall(file.read()))
    shared = [ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in sorted(loaded)]
    for library in shared:
        library.omp_set_num_threads(threads)
    for name in ("libstdc++.so.6", "libgcc_s.so.1", "libm.so.6"):
        with contextlib.suppress(OSError):
            ctypes.CDLL(name)
    return shared


def control_words_of_team(openmp: list[ctypes.CDLL], threads: int, applied: sandbox.Applied) -> Callable[[], str]:
    """A function that reads the floating-point state of every thread of the OpenMP teams: the states that differ,
    separated by `;`. The calling thread's alone where this machine does not allow more, which is noted."""
    read = machine_code.control_words_reader() if machine_code.available() else 0
    teams = [library for library in openmp if hasattr(library, "GOMP_parallel")]
    if not read or len(teams) < len(openmp):
        applied.lacks("floating-point modes of other threads not checked")
        return floating_point_state

    def states() -> str:
        found = [floating_point_state()]
        for team in teams:
            words = (ctypes.c_uint32 * (2 * threads + 2))()
            team.GOMP_parallel(ctypes.c_void_p(read), words, threads, 0)
            found += [_state(words[2 * i + 3], words[2 * i + 2]) for i in range(words[0])]
        return ";".join(dict.fromkeys(found))

    return states


def floating_point_state() -> str:
    """Rounding, denormal and exception-mask bits of this thread, as text."""
    environment = (ctypes.c_uint32 * 16)()
    _LIBM.fegetenv(environment)
    if os.uname().machine == "x86_64":
        return _state(environment[0], environment[7])
    return f"{environment[0]:#x}"


def _state(x87: int, mxcsr: int) -> str:
    """The control words without their status bits."""
    return f"{x87 & 0xFFFF:#x}/{mxcsr & 0xFFC0:#x}"


def _shut_in(
    channel: int,
    output: int,
    libraries: list[Library],
    folder: str,
    limits: sandbox.Limits,
    applied: sandbox.Applied,
) -> str:
    nothing = os.open("/dev/null", os.O_RDONLY)
    for number, source in ((0, nothing), (1, output), (2, output)):
        os.dup2(source, number)
    sandbox.limit(limits, applied)
    path = sandbox.empty_root(folder, {_name(i): library.data for i, library in enumerate(libraries)}, applied)
    sandbox.scrub_environment()
    # The first process of a namespace has no default action for signals: without a handler, abort() would go on to
    # an illegal instruction and look like a wild pointer. With `_exit` as its handler the status is SIGABRT's number.
    libc = ctypes.CDLL(None)
    libc.signal(signal.SIGABRT, libc._exit)
    sandbox.give_up_privileges(applied)
    sandbox.keep_descriptors({0, 1, 2, channel})
    sandbox.filter_calls(channel, applied, may_open=True)
    return path


def _name(index: int) -> str:
    return f"candidate{index}.so"


def _load(functions: list[Any], libraries: list[Library], path: str) -> str:
    for index, library in enumerate(libraries):
        try:
            loaded = ctypes.CDLL(os.path.join(path, _name(index)), mode=os.RTLD_NOW)
            function = getattr(loaded, library.entry)
        except (OSError, AttributeError) as error:
            return str(error)
        function.restype = None
        functions.append(function)
    return ""


def _bind(functions: list[Any], arena: Arena, call: dict[str, Any]) -> tuple[Any, list[Any]]:
    base = arena.memory.data_ptr()
    arguments: list[Any] = []
    for kind, value in call["arguments"]:
        if kind == "pointer":
            arguments.append(ctypes.c_void_p(base + value))
        elif kind == "null":
            arguments.append(ctypes.c_void_p(None))
        else:
            arguments.append(SCALARS[kind](value))
    return functions[call["library"]], arguments
