"""What a candidate's process gives up before any line of the candidate runs. Linux only, through ctypes.

Every step that this machine refuses is reported as a note instead of an error: the judge then says so.
"""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import signal
from dataclasses import dataclass, field

from . import machine_code, seccomp

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWIPC = 0x00020000, 0x04000000, 0x08000000
_CLONE_NEWUSER, _CLONE_NEWPID, _CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
_NAMESPACES = {
    "network": _CLONE_NEWNET,
    "processes": _CLONE_NEWPID,
    "shared memory": _CLONE_NEWIPC,
    "mounts": _CLONE_NEWNS,
    "host name": _CLONE_NEWUTS,
}
_MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 2, 4, 0x4000, 0x40000
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 1, 4, 38, 24
_NOBODY = 65534
_MOST_DESCRIPTORS = 1 << 20
_FOLDER_BYTES = 32 * 1024 * 1024
_CAPSET = {"x86_64": 126, "aarch64": 91}
_LANDLOCK_VERSION_FLAG = 1
_LANDLOCK = (444, 446)
_LANDLOCK_ALL = 0x1FFF
"""Every file-system right of the first Landlock version."""

_SA_SIGINFO, _SA_NODEFER = 4, 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


class _SignalAction(ctypes.Structure):
    """glibc's `struct sigaction`."""

    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_uint64 * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


@dataclass(frozen=True)
class Limits:
    """What a candidate's process may use. Bytes and seconds; memory is counted above what the process starts with."""

    memory_bytes: int = 1 << 30
    file_bytes: int = 1 << 20
    cpu_s: int = 300
    descriptors: int = 16


@dataclass
class Applied:
    """What could not be applied, one short phrase each."""

    notes: list[str] = field(default_factory=list)
    user_namespace: bool = False
    """Whether the process is root only in a namespace of its own."""
    calls_are_named: bool = False
    """Whether a refused system call is written down."""

    def lacks(self, what: str) -> None:
        """Note something that was refused."""
        self.notes.append(what)


def enter_namespaces(applied: Applied) -> None:
    """Leave the namespaces of the host. The next child is the first process of its own process namespace."""
    if os.geteuid() != 0 or _unshare(_all_namespaces()) != 0:
        uid, gid = os.geteuid(), os.getegid()
        if _unshare(_CLONE_NEWUSER) != 0:
            for name, flag in _NAMESPACES.items():
                if _unshare(flag) != 0:
                    applied.lacks(f"{name} not separated")
            return
        applied.user_namespace = True
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {uid} 1")
        _write("/proc/self/gid_map", f"0 {gid} 1")
        for name, flag in _NAMESPACES.items():
            if _unshare(flag) != 0:
                applied.lacks(f"{name} not separated")


def empty_root(folder: str, files: dict[str, bytes], applied: Applied) -> str:
    """Make `folder` an empty file system in memory holding `files`, and the root; returns the path of the files.

    Where that is refused, `folder` itself holds the files and Landlock shuts everything else.
    """
    mounted = (
        _libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None) == 0
        and _libc.mount(
            b"tmpfs", os.fsencode(folder), b"tmpfs", _MS_NOSUID | _MS_NODEV, b"size=%d,mode=755" % _capacity(files)
        )
        == 0
    )
    for name, data in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
        os.chmod(os.path.join(folder, name), 0o755)
    os.chdir(folder)
    if mounted:
        try:
            os.chroot(folder)
            os.chdir("/")
        except OSError:
            pass
        else:
            return "/"
    applied.lacks("file system not hidden" if _landlock(folder) else "file system not closed")
    return folder


def _capacity(files: dict[str, bytes]) -> int:
    return _FOLDER_BYTES + sum(map(len, files.values()))


def give_up_privileges(applied: Applied) -> None:
    """Become nobody where the process is root, and drop every capability."""
    for capability in range(64):
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    if os.getuid() == 0 and not applied.user_namespace:
        try:
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
        except OSError:
            applied.lacks("user not changed")
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    none = (ctypes.c_uint32 * 6)()
    number = _CAPSET.get(platform.machine())
    if number is None or _libc.syscall(number, header, none) != 0:
        applied.lacks("capabilities kept")
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        applied.lacks("privileges can be regained")
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def limit(limits: Limits, applied: Applied) -> None:
    """Set resource limits; memory above the present size of the address space."""
    bounds = {
        resource.RLIMIT_AS: address_space() + limits.memory_bytes,
        resource.RLIMIT_FSIZE: limits.file_bytes,
        resource.RLIMIT_CPU: limits.cpu_s,
        resource.RLIMIT_NOFILE: limits.descriptors,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_MSGQUEUE: 0,
    }
    for which, bound in bounds.items():
        try:
            resource.setrlimit(which, (bound, bound))
        except (OSError, ValueError):
            applied.lacks(f"resource limit {which} not set")


def address_space() -> int:
    """Bytes of virtual memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def scrub_environment() -> None:
    """Overwrite and remove every environment variable, in the process's own memory too."""
    environment = ctypes.POINTER(ctypes.c_char_p).in_dll(_libc, "environ")
    pointers = ctypes.cast(environment, ctypes.POINTER(ctypes.c_void_p))
    index = 0
    while pointers and pointers[index]:
        ctypes.memset(pointers[index], 0, len(ctypes.string_at(pointers[index])))
        index += 1
    _libc.clearenv()
    os.environ._data.clear()  # type: ignore[attr-defined]


def keep_descriptors(keep: set[int]) -> None:
    """Close every descriptor but these, also those above a limit that was set after they were opened."""
    start = 0
    for descriptor in sorted(keep):
        if descriptor > start:  # an empty range closes everything in some versions of Python
            os.closerange(start, descriptor)
        start = descriptor + 1
    os.closerange(start, _MOST_DESCRIPTORS)


def report_refused_call(address: int, applied: Applied) -> None:
    """Have a refused system call written down at `address` (see `Arena.refused_call`) before it ends the process."""
    handler = machine_code.reporter(address) if machine_code.available() else 0
    if handler:
        action = _SignalAction(handler=handler, flags=_SA_SIGINFO | _SA_NODEFER)
        applied.calls_are_named = _libc.sigaction(signal.SIGSYS, ctypes.byref(action), None) == 0


def filter_calls(channel: int, applied: Applied, *, may_open: bool) -> None:
    """Install the candidate's system-call filter."""
    rules = seccomp.candidate_filter(channel, os.getpid(), may_open=may_open, handled=applied.calls_are_named)
    problem = seccomp.install(rules)
    if problem and problem not in applied.notes:
        applied.lacks(problem)


def like_a_candidate() -> None:
    """What the twin shares with a candidate's process and what costs time: the filter, without its refusals."""
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0:
        seccomp.install(seccomp.twin_filter())
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def become_subreaper() -> None:
    """Adopt grandchildren whose parent has ended."""
    _libc.prctl(36, 1, 0, 0, 0)


def _all_namespaces() -> int:
    flags = 0
    for flag in _NAMESPACES.values():
        flags |= flag
    return flags


def _unshare(flags: int) -> int:
    return _libc.unshare(flags)


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        pass


def _landlock(folder: str) -> bool:
    """Deny every file outside `folder` to this process. See landlock(7)."""
    create, restrict = _LANDLOCK
    if _libc.syscall(create, None, 0, _LANDLOCK_VERSION_FLAG) < 1:
        return False
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    handled = ctypes.c_uint64(_LANDLOCK_ALL)
    ruleset = _libc.syscall(create, ctypes.byref(handled), ctypes.sizeof(handled), 0)
    if ruleset < 0:
        return False
    parent = os.open(folder, os.O_PATH | os.O_CLOEXEC)

    class Beneath(ctypes.Structure):
        _pack_ = 1
        _fields_ = [("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32)]

    rule = Beneath(0b1101, parent)
    added = _libc.syscall(445, ruleset, 1, ctypes.byref(rule), 0) == 0
    held = added and _libc.syscall(restrict, ruleset, 0) == 0
    os.close(parent)
    os.close(ruleset)
    return held
