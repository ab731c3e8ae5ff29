"""What a shut-in process can still do. Each attack runs in a process of its own, shut in as a candidate is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.runtime import sandbox

_FRAME = """
import ctypes, json, mmap, os, signal, socket, sys, threading
from kforge_mcp.runtime import sandbox
from kforge_mcp.runtime.system_calls import name_of
folder, user, attack = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if user:
    os.chmod(folder, 0o777)
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
applied = sandbox.Applied()
sandbox.enter_namespaces(applied)
shared = mmap.mmap(-1, 4096)
word = ctypes.c_uint32.from_buffer(shared)
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    libc = ctypes.CDLL(None, use_errno=True)
    if len(sys.argv) > 4:
        os.dup2(int(sys.argv[4]), 1)
    code = compile(attack, "attack", "exec")
    sandbox.report_refused_call(ctypes.addressof(word), applied)
    sandbox.limit(sandbox.Limits(memory_bytes=256 << 20, file_bytes=1 << 16), applied)
    sandbox.empty_root(folder, {"library": b"x"}, applied)
    sandbox.scrub_environment()
    sandbox.give_up_privileges(applied)
    sandbox.keep_descriptors({0, 1, 2, write})
    os.write(write, json.dumps(applied.notes).encode().ljust(4096))
    sandbox.filter_calls(write, applied, may_open=True)
    sandbox.filter_calls(write, applied, may_open=False)
    try:
        exec(code)
    except BaseException as error:
        os.write(2, type(error).__name__.encode())
        os._exit(7)
    os._exit(0)
_, status = os.waitpid(pid, 0)
notes = json.loads(os.read(read, 4096))
print(json.dumps({"status": status, "notes": notes, "call": name_of(word.value - 1) if word.value else ""}))
"""

KILLED = signal.SIGSYS
FORBIDDEN = {
    "opens a file": ("os.open('/etc/passwd', os.O_RDONLY)", "openat"),
    "opens a file by the old call": ("libc.syscall(2, b'/etc/passwd', 0)", "open"),
    "opens a file by the new call": ("libc.syscall(437, -100, b'/etc/passwd', 0, 0)", "openat2"),
    "opens a file of a folder that it might have kept": ("os.open('passwd', os.O_RDONLY, dir_fd=5)", "openat"),
    "opens itself through /proc": ("os.open('/proc/self/mem', os.O_RDWR)", "openat"),
    "opens another process through /proc": ("os.open('/proc/1/environ', os.O_RDONLY)", "openat"),
    "opens its standard output anew": ("os.open('/proc/self/fd/1', os.O_WRONLY)", "openat"),
    "reads where a link leads": ("os.readlink('/proc/self/exe')", "readlink"),
    "lists the root": ("os.listdir('/')", "openat"),
    "makes a symbolic link": ("os.symlink('/etc', 'link')", "symlink"),
    "makes a hard link": ("os.link('library', 'other')", "link"),
    "makes a folder": ("os.mkdir('folder')", "mkdir"),
    "makes a named pipe": ("os.mkfifo('pipe')", "mknodat"),
    "renames its own library": ("os.rename('library', 'other')", "rename"),
    "removes its own library": ("os.unlink('library')", "unlink"),
    "grows a file it might have kept": ("os.ftruncate(1, 1 << 30)", "ftruncate"),
    "reserves disk space": ("os.posix_fallocate(1, 0, 1 << 30)", "fallocate"),
    "watches files": ("libc.inotify_init1(0)", "inotify_init1"),
    "opens a socket": ("socket.socket()", "socket"),
    "makes a pair of sockets": ("socket.socketpair()", "socketpair"),
    "sends a message with descriptors": ("libc.sendmsg(0, 0, 0)", "sendmsg"),
    "receives descriptors": ("libc.recvmsg(0, 0, 0)", "recvmsg"),
    "makes a pipe": ("os.pipe()", "pipe2"),
    "makes an event": ("libc.eventfd(0, 0)", "eventfd2"),
    "forks": ("os.fork()", "clone"),
    "forks by the old call": ("libc.syscall(57)", "fork"),
    "forks and borrows the memory": ("libc.syscall(58)", "vfork"),
    "clones without a thread": ("libc.syscall(56, 17, 0, 0, 0, 0)", "clone"),
    "runs a program": ("os.execv('/bin/true', ['true'])", "execve"),
    "runs a program by descriptor": ("libc.syscall(322, 3, b'', 0, 0, 0x1000)", "execveat"),
    "signals its parent": ("os.kill(os.getppid() or 2, 9)", "getppid"),
    "signals everybody": ("os.kill(-1, 9)", "kill"),
    "signals its group": ("os.kill(0, 9)", "kill"),
    "signals a neighbour": ("os.kill(os.getpid() + 1, 9)", "kill"),
    "signals a neighbour's thread": ("libc.syscall(234, os.getpid() + 1, os.getpid() + 1, 9)", "tgkill"),
    "signals a thread by the old call": ("libc.syscall(200, 1, 9)", "tkill"),
    "queues a signal": ("libc.syscall(129, 1, 9, 0)", "rt_sigqueueinfo"),
    "takes hold of a process": ("libc.syscall(434, 1, 0)", "pidfd_open"),
    "takes another process's descriptor": ("libc.syscall(438, 3, 1, 0)", "pidfd_getfd"),
    "makes shared memory by number": ("libc.shmget(1, 4096, 0o1600)", "shmget"),
    "attaches the shared memory of others": ("libc.shmat(0, None, 0)", "shmat"),
    "opens shared memory by name": ("os.open('/dev/shm/other', os.O_RDWR)", "openat"),
    "uses a semaphore of others": ("libc.semget(1, 1, 0)", "semget"),
    "opens a message queue": ("libc.syscall(240, b'queue', 0, 0, 0)", "mq_open"),
    "makes a memory file": ("os.memfd_create('x')", "memfd_create"),
    "makes secret memory": ("libc.syscall(447, 0)", "memfd_secret"),
    "reads another process's memory": ("libc.process_vm_readv(1, 0, 0, 0, 0, 0)", "process_vm_readv"),
    "writes another process's memory": ("libc.process_vm_writev(1, 0, 0, 0, 0, 0)", "process_vm_writev"),
    "traces": ("libc.ptrace(16, 1, 0, 0)", "ptrace"),
    "mounts": ("libc.mount(b'x', b'/', b'tmpfs', 0, None)", "mount"),
    "opens a mount": ("libc.syscall(428, -100, b'/', 0)", "open_tree"),
    "leaves its root": ("os.chroot('.')", "chroot"),
    "enters a namespace": ("libc.setns(1, 0)", "setns"),
    "makes namespaces": ("libc.unshare(0x10000000)", "unshare"),
    "becomes root": ("os.setuid(0)", "setuid"),
    "raises its own limits": ("libc.syscall(160, 7, 0)", "setrlimit"),
    "raises its own priority": ("os.setpriority(os.PRIO_PROCESS, 0, -20)", "setpriority"),
    "takes the processor for itself": (
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "sched_setscheduler",
    ),
    "duplicates a descriptor": ("libc.dup(1)", "dup"),
    "duplicates descriptors until none are left": ("for i in range(4096): libc.fcntl(1, 0, i)", "fcntl"),
    "writes to a descriptor that is not its own": ("os.write(9, b'x')", "write"),
    "writes by vectors": ("os.writev(1, [b'x'])", "writev"),
    "writes at a place": ("os.pwrite(1, b'x', 0)", "pwrite64"),
    "copies between descriptors": ("os.sendfile(1, 0, 0, 10)", "sendfile"),
    "loads a kernel program": ("libc.syscall(321, 0, 0, 0)", "bpf"),
    "counts events": ("libc.syscall(298, 0, 0, -1, -1, 0)", "perf_event_open"),
    "handles its own page faults": ("libc.syscall(323, 0)", "userfaultfd"),
    "asks the key ring": ("libc.syscall(250, 0, 0)", "keyctl"),
    "asks for asynchronous input": ("libc.syscall(425, 1, 0)", "io_uring_setup"),
    "sets a timer": ("signal.setitimer(signal.ITIMER_REAL, 1)", "setitimer"),
    "filters its own calls": ("libc.syscall(317, 1, 0, 0)", "seccomp"),
    "uses the 32-bit table of calls": ("libc.syscall(0x40000000 + 41, 2, 1, 0)", "number 41 of the 32-bit table"),
    "makes a call that there is not": ("libc.syscall(1000)", "number 1000"),
}


def _run(tmp_path: Path, attack: str, user: int = 0, output: int | None = None) -> dict[str, Any]:
    root = str(Path(__file__).resolve().parents[2])
    more = [] if output is None else [str(output)]
    answer = subprocess.run(
        [sys.executable, "-c", _FRAME, str(tmp_path), str(user), attack, *more],
        capture_output=True,
        text=True,
        timeout=60,
        pass_fds=() if output is None else (output,),
        env={"PYTHONPATH": root, "SECRET": "do not tell"},
        check=False,
    )
    assert answer.stdout, answer.stderr
    return {**json.loads(answer.stdout), "error": answer.stderr}


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers of system calls in the attacks are of x86-64")
@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_a_kernel_does_not_need_ends_the_process(tmp_path: Path, name: str) -> None:
    attack, call = FORBIDDEN[name]
    answer = _run(tmp_path, attack)
    assert os.WIFSIGNALED(answer["status"]), answer
    assert os.WTERMSIG(answer["status"]) == KILLED, answer
    assert answer["call"] == call, answer


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="elsewhere refused calls are not named")
@pytest.mark.parametrize(
    "evasion",
    [
        "signal.signal(signal.SIGSYS, signal.SIG_IGN)",
        "signal.signal(signal.SIGSYS, lambda *rest: None)",
        "libc.signal(signal.SIGSYS, 0)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSYS})",
        "libc.syscall(13, 31, 0, 0, 8)",
    ],
)
def test_no_handler_keeps_a_process_alive_that_was_refused(tmp_path: Path, evasion: str) -> None:
    attack = f"{evasion}\ntry:\n    os.open('/etc/passwd', os.O_RDONLY)\nexcept OSError:\n    pass\nos._exit(3)"
    answer = _run(tmp_path, attack)
    assert os.WIFSIGNALED(answer["status"]) and os.WTERMSIG(answer["status"]) == KILLED, answer


def test_a_refused_call_of_another_thread_ends_the_process_too(tmp_path: Path) -> None:
    attack = "thread = threading.Thread(target=lambda: os.open('/etc/passwd', 0)); thread.start(); thread.join()"
    answer = _run(tmp_path, attack)
    assert os.WIFSIGNALED(answer["status"]) and os.WTERMSIG(answer["status"]) == KILLED, answer
    assert answer["call"] in ("openat", ""), answer


def test_inherited_descriptors_are_closed(tmp_path: Path) -> None:
    attack = (
        "alive = []\n"
        "for number in range(3, 4096):\n"
        "    try:\n        os.fstat(number); alive.append(number)\n"
        "    except OSError:\n        pass\n"
        "assert alive == [write], alive"
    )
    answer = _run(tmp_path, attack)
    assert answer["status"] == 0, answer


def test_output_without_end_is_cut_off(tmp_path: Path) -> None:
    attack = "while True: os.write(1, b'all tests passed ' * 1000)"
    with (tmp_path / "printed").open("wb") as printed:
        answer = _run(tmp_path, attack, output=printed.fileno())
    assert answer["status"] == 7 << 8 and "OSError" in answer["error"], answer
    assert (tmp_path / "printed").stat().st_size <= 1 << 16


def test_threads_memory_and_clocks_are_allowed(tmp_path: Path) -> None:
    attack = (
        "import time\n"
        "found = []\n"
        "thread = threading.Thread(target=lambda: found.append(sum(range(1000))))\n"
        "thread.start(); thread.join()\n"
        "assert found and bytearray(1 << 20) and time.time() > 0\n"
        "os.write(1, b'')\n"
    )
    answer = _run(tmp_path, attack)
    assert answer["status"] == 0, answer


def test_memory_ends_at_the_limit(tmp_path: Path) -> None:
    answer = _run(tmp_path, "held = [bytearray(1 << 24) for _ in range(64)]")
    assert answer["status"] == 7 << 8 and "MemoryError" in answer["error"], answer


def test_the_environment_is_gone(tmp_path: Path) -> None:
    attack = "assert not os.environ and libc.getenv(b'SECRET') == 0"
    assert _run(tmp_path, attack)["status"] == 0


def test_everything_could_be_applied_or_is_listed(tmp_path: Path) -> None:
    known = ("not separated", "not hidden", "not closed", "not changed", "kept", "regained", "not set", "filter")
    for note in _run(tmp_path, "pass")["notes"]:
        assert any(word in note for word in known), note


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else to try it")
def test_it_holds_without_root_too(tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents):
        if parent.name.startswith("pytest-"):
            parent.chmod(0o755)
    answer = _run(tmp_path, "os.open('/etc/passwd', os.O_RDONLY)", user=12345)
    assert os.WIFSIGNALED(answer["status"]) and os.WTERMSIG(answer["status"]) == KILLED, answer


def test_where_the_file_system_cannot_be_hidden_it_is_closed(tmp_path: Path) -> None:
    (tmp_path / "inside").write_text("x")
    script = (
        "import sys\n"
        "from kforge_mcp.runtime import sandbox\n"
        "held = sandbox._landlock(sys.argv[1])\n"
        "inside = open(sys.argv[1] + '/inside').read()\n"
        "try:\n    open('/etc/passwd'); outside = 'open'\n"
        "except PermissionError:\n    outside = 'closed'\n"
        "print(held, inside, outside)\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    command = [sys.executable, "-c", script, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": root}, check=True)
    if answer.stdout.startswith("False"):
        pytest.skip("this kernel has no Landlock")
    assert answer.stdout == "True x closed\n"


def test_descriptors_above_a_later_limit_are_closed_too() -> None:
    """The socket to the control plane had a number above the limit on descriptors, which was set before closing."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.dup2(read, 200)
        sandbox.limit(sandbox.Limits(memory_bytes=1 << 30), sandbox.Applied())
        sandbox.keep_descriptors({0, 1, 2, write})
        try:
            os.fstat(200)
        except OSError:
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    os.close(read)
    os.close(write)
    assert status == 0
