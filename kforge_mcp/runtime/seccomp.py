"""A system-call filter in classic BPF: what a candidate's process may still ask of the kernel.

Everything that is not listed ends the process with SIGSYS: at once, or through a handler that writes down which call
it was. See seccomp(2); offsets are those of `struct seccomp_data`.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import signal
import struct

from .machine_code import LAST_CALL

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_COMMON: dict[str, tuple[int, int]] = {
    # name: (x86_64, aarch64)
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "pread64": (17, 67), "sched_yield": (24, 124),
    "mremap": (25, 216), "madvise": (28, 233), "nanosleep": (35, 101), "getpid": (39, 172), "clone": (56, 220),
    "exit": (60, 93), "uname": (63, 160), "gettimeofday": (96, 169), "sysinfo": (99, 179),
    "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98), "sched_getaffinity": (204, 123),
    "set_tid_address": (218, 96), "restart_syscall": (219, 128), "clock_gettime": (228, 113),
    "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "exit_group": (231, 94), "tgkill": (234, 131),
    "openat": (257, 56), "newfstatat": (262, 79), "set_robust_list": (273, 99), "getcpu": (309, 168),
    "getrandom": (318, 278), "membarrier": (324, 283), "rseq": (334, 293), "clone3": (435, 435),
    "ioctl": (16, 29), "prctl": (157, 167), "sched_setaffinity": (203, 122), "get_mempolicy": (239, 236),
    "mbind": (237, 235), "prlimit64": (302, 261), "kill": (62, 129), "futex_waitv": (449, 449),
    "seccomp": (317, 277),
}  # fmt: skip

_ALLOWED = (
    "read", "close", "fstat", "lseek", "mmap", "mprotect", "munmap", "brk", "rt_sigprocmask",
    "rt_sigreturn", "pread64", "sched_yield", "mremap", "madvise", "nanosleep", "getpid", "exit", "uname",
    "gettimeofday", "sysinfo", "sigaltstack", "gettid", "futex", "sched_getaffinity", "set_tid_address",
    "restart_syscall", "clock_gettime", "clock_getres", "clock_nanosleep", "exit_group", "newfstatat",
    "set_robust_list", "getcpu", "getrandom", "membarrier", "rseq", "futex_waitv",
)  # fmt: skip
_REFUSED = {"clone3": errno.ENOSYS, "ioctl": errno.ENOTTY} | dict.fromkeys(
    ("prctl", "sched_setaffinity", "get_mempolicy", "mbind", "prlimit64"), errno.EPERM
)
"""Asked by run-time libraries in good faith: they get an error and go on (clone3 falls back to clone)."""

_LOAD, _JUMP_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _TRAP, _ERRNO, _KILL = 0x7FFF0000, 0x00030000, 0x00050000, 0x80000000
_NUMBER, _ARCHITECTURE = 0, 4
_CLONE_THREAD = 0x00010000
_WRITING = 0o3 | 0o100 | 0o1000 | 0o20000000
"""O_ACCMODE, O_CREAT, O_TRUNC and O_TMPFILE."""
_SECCOMP_SET_MODE_FILTER = 1

Instruction = tuple[int, int, int, int]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _argument(index: int) -> int:
    return 16 + 8 * index


def _number(name: str) -> int:
    return _COMMON[name][0 if platform.machine() == "x86_64" else 1]


def candidate_filter(channel: int, own_pid: int, *, may_open: bool, handled: bool = False) -> list[Instruction]:
    """The filter of a candidate's process: threads, memory, futexes, and its own three descriptors.

    `may_open` allows opening for reading, which the dynamic loader needs; a second filter without it follows the
    loading, and the stricter of the two holds. `handled`: SIGSYS has a handler, which is told of a refused call, ends
    the process with `LAST_CALL`, and can be replaced no more.
    """
    refuse = _TRAP if handled else _KILL
    body: list[Instruction] = [(_LOAD, 0, 0, _NUMBER), *_if(LAST_CALL, [(_RETURN, 0, 0, _KILL)])]
    handler = [(_LOAD, 0, 0, _argument(0)), (_JUMP_EQUAL, 0, 1, signal.SIGSYS), (_RETURN, 0, 0, _KILL)]
    body += _if_number("rt_sigaction", [*handler, (_RETURN, 0, 0, _ALLOW)])
    for name in _ALLOWED:
        body += _if_number(name, [(_RETURN, 0, 0, _ALLOW)])
    for name, error in _REFUSED.items():
        body += _if_number(name, [(_RETURN, 0, 0, _ERRNO | error)])
    thread, own, channels = (_CLONE_THREAD,), (own_pid,), (1, 2, channel)
    body += _if_number("clone", [(_LOAD, 0, 0, _argument(0)), *_when(_JUMP_SET, thread, refuse)])
    for name in ("tgkill", "kill"):
        body += _if_number(name, [(_LOAD, 0, 0, _argument(0)), *_when(_JUMP_EQUAL, own, refuse)])
    body += _if_number("write", [(_LOAD, 0, 0, _argument(0)), *_when(_JUMP_EQUAL, channels, refuse)])
    if may_open:
        body += _if_number("seccomp", [(_RETURN, 0, 0, _ALLOW)])
        opening = [(_LOAD, 0, 0, _argument(2)), (_JUMP_SET, 0, 1, _WRITING), (_RETURN, 0, 0, refuse)]
        body += _if_number("openat", [*opening, (_RETURN, 0, 0, _ALLOW)])
    return _with_architecture([*body, (_RETURN, 0, 0, refuse)])


def twin_filter() -> list[Instruction]:
    """A filter as long as a candidate's that allows everything: both sides pay alike for a system call."""
    body: list[Instruction] = [(_LOAD, 0, 0, _NUMBER)]
    for name in ("rt_sigaction", *_ALLOWED, *_REFUSED):
        body += _if_number(name, [(_RETURN, 0, 0, _ALLOW)])
    return _with_architecture([*body, (_RETURN, 0, 0, _ALLOW)])


def install(program: list[Instruction]) -> str:
    """Install a filter for this thread and its descendants; returns what went wrong, or an empty text.

    `no_new_privs` must be set already.
    """
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return f"no system-call filter for {machine}"
    packed = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    code = ctypes.create_string_buffer(packed, len(packed))
    header = _Program(len(program), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(_number("seccomp"), _SECCOMP_SET_MODE_FILTER, 0, ctypes.byref(header)) != 0:
        return f"no system-call filter (seccomp: errno {ctypes.get_errno()})"
    return ""


def _if_number(name: str, body: list[Instruction]) -> list[Instruction]:
    return _if(_number(name), body)


def _if(number: int, body: list[Instruction]) -> list[Instruction]:
    return [(_JUMP_EQUAL, 0, len(body), number), *body]


def _when(jump: int, values: tuple[int, ...], otherwise: int) -> list[Instruction]:
    """Allow if the loaded argument is, or has the bits of, one of these values."""
    checks: list[Instruction] = []
    for value in values:
        checks += [(jump, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*checks, (_RETURN, 0, 0, otherwise)]


def _with_architecture(body: list[Instruction]) -> list[Instruction]:
    architecture = _ARCHITECTURES.get(platform.machine(), 0)
    check: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
    ]
    return check + body
