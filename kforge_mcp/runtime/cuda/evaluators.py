"""The parent of all evaluations on a CUDA device: exec'ed, torch imported, no operation run, no device probed.

It forks children ahead of need. Each makes a context of its own, prepares itself for the card that was judged last,
then takes one candidate, answers and ends: a lost context, a hang or a crash costs that child only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import framing
from ..failures import Refusal, as_frame
from ..process import die_with_parent
from ..reference import import_code
from .gpu import Unavailable
from .referee import CudaReferee
from .watch import Deadline, Stage

Emit = Callable[[dict[str, Any]], None]
MOST_CHILDREN = 6
_TICK_S = 0.05
_PROGRESS_S = 0.25
_PREPARE_TIMEOUT_S = 600.0


@dataclass
class Child:
    """A process that prepares itself for the card `key`, or is ready for a candidate."""

    key: str
    pid: int
    channel: socket.socket
    deadline: Deadline
    begun: float = field(default_factory=time.monotonic)

    def end(self) -> None:
        """Kill and reap it; safe to repeat."""
        if self.pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0
            self.channel.close()
            self.deadline.close()

    @property
    def alive(self) -> bool:
        """Whether it still runs; a spare may have failed while it prepared itself."""
        ended, _ = os.waitpid(self.pid, os.WNOHANG) if self.pid else (1, 0)
        if ended:
            self.pid = 0
            self.channel.close()
            self.deadline.close()
        return not ended


class Parent:
    """Keeps the children of this process."""

    def __init__(self, lock_path: str) -> None:
        self._stage = Stage(lock_path)
        self.children: list[Child] = []
        """Ready, or getting ready, for a candidate."""

    def evaluate(self, payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
        """Evaluate one candidate, with the device's lock held.

        Answers with the referee's result, or `{"import_in_children": true}` as `runtime/evaluator.py` does.
        """
        card = payload["card"]
        if not payload.get("import_in_children"):
            import_code(card["reference"])
            if len(os.listdir("/proc/self/task")) > 1:
                return {"import_in_children": True}
        key = hashlib.sha256(json.dumps(card, sort_keys=True).encode()).hexdigest()
        begun = time.monotonic()
        self._stage.begin(lambda: _tell_waiting(emit))
        alone = time.monotonic()
        child = self._take(key) or self._fork(key, card)
        # Where another is ready, the next one is forked when this evaluation is over, so as not to hold it up.
        pressing = not any(other.key == key for other in self.children)
        try:
            framing.send_frame(child.channel, payload["request"])
            if pressing:
                self._stock(key, card, payload["spares"])
            result = self._collect(child, emit)
        except OSError:
            result = self._ended(child)
        finally:
            child.end()
            self._stock(key, card, payload["spares"])
            self._stage.end()
        return {**result, "evaluation_s": time.monotonic() - alone, "lock_s": alone - begun}

    def _take(self, key: str) -> Child | None:
        """The oldest living child for a card."""
        self.children = [child for child in self.children if child.alive]
        for child in self.children:
            if child.key == key:
                self.children.remove(child)
                return child
        return None

    def _stock(self, key: str, card: dict[str, Any], spares: int) -> None:
        """Fork what is missing of the spares for this card; those of cards judged longer ago make room."""
        missing = spares - sum(child.key == key for child in self.children)
        others = [child for child in self.children if child.key != key]
        for child in others[: max(0, len(self.children) + missing - MOST_CHILDREN)]:
            self.children.remove(child)
            child.end()
        self._stage.settle()
        for _ in range(missing):
            self.children.append(self._fork(key, card))

    def _fork(self, key: str, card: dict[str, Any]) -> Child:
        ours, theirs = socket.socketpair()
        deadline = Deadline()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in self.children:
                other.channel.close()
            _live(card, theirs, self._stage, deadline)
        theirs.close()
        return Child(key, pid, ours, deadline)

    def _collect(self, child: Child, emit: Emit) -> dict[str, Any]:
        until = time.monotonic() + _PREPARE_TIMEOUT_S
        while True:
            if not select.select([child.channel], [], [], _TICK_S)[0]:
                if child.deadline.passed():
                    return _found("timed_out", "the candidate did not end in time: it was killed with its process")
                if time.monotonic() > until:
                    raise Refusal("timed_out", f"an evaluation did not end within {_PREPARE_TIMEOUT_S:g} s")
                continue
            message = framing.receive_frame(child.channel)
            if message is None:
                return self._ended(child)
            if "progress" in message:
                emit({"message": message["progress"]})
            elif "result" in message:
                return message["result"]
            else:
                raise Refusal(message["kind"], message["message"], message["trace"])

    def _ended(self, child: Child) -> dict[str, Any]:
        _, status = os.waitpid(child.pid, 0)
        child.pid = 0
        child.channel.close()
        child.deadline.close()
        number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        how = signal.Signals(number).name if number else f"exit status {os.WEXITSTATUS(status)}"
        raise Refusal("crashed", f"the evaluation's process ended without a result ({how})")


_parents: list[Parent] = []
_told = [0.0]


def serve(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Evaluate one candidate, or eager in a candidate's place, in a child that was forked ahead of need."""
    if not _parents:
        _parents.append(Parent(payload["lock"]))
    return _parents[0].evaluate(payload, emit)


def _live(card: dict[str, Any], channel: socket.socket, stage: Stage, deadline: Deadline) -> None:
    """The life of a child."""
    die_with_parent()
    told = 0.0

    def progress(text: str) -> None:
        nonlocal told
        if time.monotonic() - told > _PROGRESS_S:
            told = time.monotonic()
            framing.send_frame(channel, {"progress": text})

    try:
        referee = CudaReferee(card, deadline)
        steps = referee.prepare()
        more = True
        while more:
            assigned = bool(select.select([channel], [], [], 0)[0])
            with stage.step(assigned) as may:
                if may:
                    more = next(steps, steps) is not steps
        request = framing.receive_frame(channel)
        if request is not None:
            result = referee.judge(request, stage.time_alone, progress)
            framing.send_frame(channel, {"result": result})
    except Unavailable as missing:
        if framing.receive_frame(channel) is not None:
            framing.send_frame(channel, {"result": _found("target_unavailable", f"not judged: {missing}")})
    except Exception as error:  # noqa: BLE001 - the top of the process: the parent must hear of it
        with contextlib.suppress(OSError):
            framing.send_frame(channel, as_frame(error))
    finally:
        os._exit(0)


def _tell_waiting(emit: Emit) -> None:
    now = time.monotonic()
    if now - _told[0] > 1.0:
        _told[0] = now
        emit({"message": "waiting for the device, which another kforge job is timing on"})


def _found(reason: str, message: str) -> dict[str, Any]:
    return {
        "finding": {"reason": reason, "message": message},
        "valid": False,
        "variants": {},
        "admissions": {},
        "variant_notes": {},
        "notes": [],
        "printed": "",
        "device_s": 0.0,
        "stages": {},
    }
