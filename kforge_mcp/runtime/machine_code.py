"""The few instructions that must run where Python cannot: in a signal handler, and on every OpenMP thread.

x86-64 only; elsewhere there is none of it, and what it is for is told less exactly.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct

LAST_CALL = 0x6B666F72
"""No system call: the filter ends the process at it, once the handler has written down which was made before."""

_SIGINFO_NUMBER = 24
"""Offset of `si_syscall` in `siginfo_t`."""
_kept: list[mmap.mmap] = []


def available() -> bool:
    """Whether this machine's instructions are known here."""
    return platform.machine() == "x86_64"


def reporter(address: int) -> int:
    """The address of a signal handler for SIGSYS: it writes 1 + the number of the refused system call to `address`,
    32 bits, and ends the process through the filter."""
    return _place(
        b"\x8b\x46" + bytes([_SIGINFO_NUMBER])  # mov eax, [rsi + si_syscall]
        + b"\xff\xc0"  # inc eax
        + b"\x48\xb9" + struct.pack("<Q", address)  # mov rcx, address
        + b"\x89\x01"  # mov [rcx], eax
        + b"\xb8" + struct.pack("<I", LAST_CALL)  # mov eax, LAST_CALL
        + b"\x0f\x05"  # syscall
        + b"\x0f\x0b"  # ud2
    )  # fmt: skip


def control_words_reader() -> int:
    """The address of `void f(uint32_t *words)`, to be called by any number of threads at once: each takes a pair of
    words after the first two by adding 1 to the first, and puts MXCSR and the x87 control word there."""
    return _place(
        b"\xb8\x01\x00\x00\x00"  # mov eax, 1
        b"\xf0\x0f\xc1\x07"  # lock xadd [rdi], eax
        b"\x0f\xae\x5c\xc7\x08"  # stmxcsr [rdi + rax * 8 + 8]
        b"\xd9\x7c\xc7\x0c"  # fnstcw [rdi + rax * 8 + 12]
        b"\xc3"  # ret
    )


def _place(code: bytes) -> int:
    """Executable memory with this code, for the rest of the process's life; 0 where that is refused."""
    page = mmap.mmap(-1, mmap.PAGESIZE)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    _kept.append(page)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(address), mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        return 0
    return address
