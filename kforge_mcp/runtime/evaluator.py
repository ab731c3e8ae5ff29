"""The parent of all evaluations: exec'ed, single-threaded, torch imported, no operation run, no device probed.

Each request forks a referee, so that a crash, a hang or a poisoned process costs one evaluation only.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from typing import Any

import torch  # noqa: F401 - forked children must find it imported

from . import framing, sandbox
from .failures import Refusal, as_frame
from .process import die_with_parent
from .referee import Referee
from .reference import import_code

Emit = Callable[[dict[str, Any]], None]


def serve(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Evaluate one candidate, or eager in a candidate's place.

    Answers with the referee's result, or `{"import_in_children": true}` where importing the model's code started
    threads: a process with threads must not fork, and the control plane asks a fresh one.
    """
    if not payload.get("import_in_children"):
        import_code(payload["reference"])
        if _threads() > 1:
            return {"import_in_children": True}
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _referee(payload, theirs)
    theirs.close()
    try:
        return _collect(ours, emit)
    finally:
        ours.close()
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _collect(channel: socket.socket, emit: Emit) -> dict[str, Any]:
    while (message := framing.receive_frame(channel)) is not None:
        if "progress" in message:
            emit({"message": message["progress"]})
        elif "result" in message:
            return message["result"]
        else:
            raise Refusal(message["kind"], message["message"], message["trace"])
    raise Refusal("crashed", "the referee's process ended without a result: eager itself may have crashed")


def _referee(payload: dict[str, Any], channel: socket.socket) -> None:
    """The forked referee's life."""
    die_with_parent()
    sandbox.become_subreaper()
    try:
        referee = Referee(payload, [channel.fileno()], lambda text: framing.send_frame(channel, {"progress": text}))
        framing.send_frame(channel, {"result": referee.run()})
    except Exception as error:  # noqa: BLE001 - the top of the process: the parent must hear of it
        framing.send_frame(channel, as_frame(error))
    finally:
        os._exit(0)


def _threads() -> int:
    return len(os.listdir("/proc/self/task"))
