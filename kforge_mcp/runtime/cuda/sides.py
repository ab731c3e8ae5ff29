"""Eager and candidate on the device: calls bound to slots, captured as graphs where possible.

Both sides run in one process and context. A call's inputs are copied into its slot from the referee's image before
it runs; every call goes to one of several slots, so no address is the same from call to call.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..arena import Slot
from ..checks import Finding, same_bits
from ..subject import Subject
from ..values import flatten
from .gpu import Gpu
from .places import Trespass, memory_for, workspace_slot
from .program import LaunchError, Program
from .watch import Deadline

_MOST_SLOTS = 3
_SHARE_RUNS = 3
_LEAST_REPEATS, _MOST_REPEATS, _SOAK_S = 8, 512, 0.02
_SLOT_SHARE = 24
"""All slots of one side of a variant take at most this part of the free memory, as long as there is one."""


class Failed(Exception):
    """The candidate did not do its call; `finding` says what became of it. The context may be lost."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.message)
        self.finding = finding


class Side(Protocol):
    """What is run and timed: eager, a candidate, or eager in a candidate's place."""

    is_candidate: bool

    def place(self, image: torch.Tensor) -> int:
        """Copy an image into one of the slots, chosen at random; returns its number."""
        ...

    def enqueue(self, number: int) -> None:
        """Enqueue the call on a slot. Waits for nothing."""
        ...

    def outputs(self, number: int) -> list[torch.Tensor]:
        """Where the outputs of the call on a slot lie."""
        ...

    def trespass(self, number: int, image: torch.Tensor) -> Finding | None:
        """What a call changed that was not its own."""
        ...


def slots_for(gpu: Gpu, slot: Slot, dice: random.Random) -> list[torch.Tensor]:
    """Memory for the slots of one side."""
    free, _ = gpu.memory()
    count = max(1, min(_MOST_SLOTS, free // (_SLOT_SHARE * slot.size)))
    return [memory_for(slot, gpu.device, dice) for _ in range(count)]


@dataclass
class _EagerCall:
    run: Callable[[], None]
    result: list[torch.Tensor]


class EagerSide:
    """Eager on slots of its own. Without graphs it is bound anew before each call, outside of the timed part."""

    is_candidate = False

    def __init__(
        self, gpu: Gpu, subject: Subject, memories: Sequence[torch.Tensor], image: torch.Tensor, dice: random.Random
    ) -> None:
        self._subject = subject
        self._memories = memories
        self._dice = dice
        self._calls: list[_EagerCall] | None = []
        pool = gpu.pool()
        for memory in memories:
            memory.copy_(image)
            call = self._bound(memory)
            call()
            captured = gpu.capture(call, pool)
            if captured is None:
                self._calls = None
                break
            self._calls.append(_EagerCall(captured[0], flatten(captured[1])))
        self._latest: Any = None

    @property
    def is_captured(self) -> bool:
        """Whether the calls are CUDA graphs."""
        return self._calls is not None

    def drop_graphs(self) -> None:
        """Launch the calls one by one from now on, as a side does that cannot be captured."""
        self._calls = None

    def place(self, image: torch.Tensor) -> int:
        """Copy an image into one of the slots, chosen at random; returns its number."""
        number = self._dice.randrange(len(self._memories))
        # Eager's outputs lie elsewhere, so those places are left alone.
        size = self._subject.slot.input_bytes
        self._memories[number][:size].copy_(image[:size])
        if self._calls is None:
            self._call = self._bound(self._memories[number])
        return number

    def enqueue(self, number: int) -> None:
        """Enqueue the call on a slot."""
        if self._calls is not None:
            self._calls[number].run()
        else:
            self._latest = self._call()

    def outputs(self, number: int) -> list[torch.Tensor]:
        """Where the outputs of the call on a slot lie."""
        return flatten(self._latest) if self._calls is None else self._calls[number].result

    def overwrite(self, number: int) -> None:
        """Destroy the outputs of a call, so that nobody finds them."""
        for tensor in self.outputs(number):
            if tensor.numel() and all(tensor.stride()):
                tensor.zero_()
        self._latest = None

    def trespass(self, number: int, image: torch.Tensor) -> Finding | None:
        """What the call on a slot changed that was not its own."""
        return None

    def _bound(self, memory: torch.Tensor) -> Callable[[], Any]:
        tensors = self._subject.inputs_of(memory)
        call = self._subject.reference.bind(tensors, self._subject.variant["call"])

        def run() -> Any:
            with torch.no_grad():
                return call()

        return run


class CandidateSide:
    """A candidate's program on slots, its workspaces in guarded memory of their own.

    Raises `Failed` if it cannot be loaded or exceeds a limit of the device.
    """

    is_candidate = True
    latest: torch.Tensor
    """The slot of the last call that was not timed."""

    def __init__(
        self,
        gpu: Gpu,
        subject: Subject,
        memories: Sequence[torch.Tensor],
        program: Program,
        workspaces: Sequence[dict[str, Any]],
        dice: random.Random,
        deadline: Deadline,
        call_timeout_s: float,
    ) -> None:
        self._gpu = gpu
        self._subject = subject
        self._memories = memories
        self._program = program
        self._dice = dice
        self._deadline = deadline
        self._timeout_s = call_timeout_s
        self._in_place: dict[int, int] = subject.bound.in_place
        self._trespass = Trespass(subject.slot, self._in_place)
        self._scratch_slot = workspace_slot(workspaces)
        self._scratch_trespass = Trespass(self._scratch_slot, {}) if workspaces else None
        self._scratch = memory_for(self._scratch_slot, gpu.device, dice)
        self._scratch_image = torch.empty_like(self._scratch)
        self._graphs: list[Callable[[], None]] | None = None

    def capture(self) -> bool:
        """Capture the calls as graphs, after they have run once; False where that is not possible."""
        pool = self._gpu.pool()
        graphs: list[Callable[[], None]] = []
        for number in range(len(self._memories)):
            captured = self._gpu.capture(lambda number=number: self._run(number), pool)
            if captured is None:
                return False
            graphs.append(captured[0])
        self._graphs = graphs
        return True

    def place(self, image: torch.Tensor, *, renew: bool = True) -> int:
        """Copy an image into one of the slots, chosen at random; returns its number. Without `renew` workspaces hold
        what the last call left there."""
        number = self._dice.randrange(len(self._memories))
        self._memories[number].copy_(image)
        if self._scratch_trespass:
            if renew:
                self._scratch_image.random_(0, 256)
                self._scratch.copy_(self._scratch_image)
            else:
                self._scratch_image.copy_(self._scratch)
        return number

    def enqueue(self, number: int) -> None:
        """Enqueue the call on a slot."""
        if self._graphs is not None:
            self._graphs[number]()
            return
        try:
            self._run(number)
        except LaunchError as error:
            raise Failed(error.finding) from error

    def once(self, image: torch.Tensor, *, stepwise: bool, renew: bool) -> list[torch.Tensor] | Finding:
        """One call that is not timed: its outputs, copied, or what is wrong with it."""
        number = self.place(image, renew=renew)
        self.latest = self._memories[number]
        self._gpu.synchronize()
        with self._deadline.within(self._timeout_s):
            try:
                if stepwise:
                    self._program.run_stepwise(*self._tensors(number))
                else:
                    self._run(number)
                    self._program.settle()
            except LaunchError as error:
                return error.finding
        return self.trespass(number, image) or [tensor.clone() for tensor in self.outputs(number)]

    def outputs(self, number: int) -> list[torch.Tensor]:
        """Where the outputs of the call on a slot lie."""
        memory, slot = self._memories[number], self._subject.slot
        places = [
            slot.inputs[self._in_place[i]] if i in self._in_place else place for i, place in enumerate(slot.outputs)
        ]
        return [place.view(memory) for place in places]

    def trespass(self, number: int, image: torch.Tensor) -> Finding | None:
        """What the call on a slot changed that was not its own."""
        finding = self._trespass.find(self._memories[number], image)
        if finding is None and self._scratch_trespass:
            finding = self._scratch_trespass.find(self._scratch, self._scratch_image)
        return finding

    def soak(self, image: torch.Tensor) -> Finding | None:
        """Call it many times in a row on the same memory, with nothing in between: the last output must equal the
        first. What a call leaves in shared memory or in a workspace must not change another one."""
        if self._in_place:
            return None
        number = self.place(image)
        try:
            with self._deadline.within(self._timeout_s):
                start = time.perf_counter()
                self._run(number)
                self._program.settle()
                seconds = time.perf_counter() - start
            first = [tensor.clone() for tensor in self.outputs(number)]
            count = max(_LEAST_REPEATS, min(_MOST_REPEATS, int(_SOAK_S / max(seconds, 1e-6))))
            with self._deadline.within(self._timeout_s + count * 10 * seconds):
                for _ in range(count):
                    self._run(number)
                for place, tensor in zip(self._subject.slot.outputs, self.outputs(number), strict=True):
                    tensor.copy_(place.view(image))
                self._run(number)
                self._program.settle()
        except LaunchError as error:
            return error.finding.during(f"{self._subject.label()}, many calls in a row")
        if all(same_bits(one, other) for one, other in zip(first, self.outputs(number), strict=True)):
            return None
        return Finding(
            "nondeterministic",
            f"{self._subject.label()}: after {count} calls in a row on the same memory the result differs from the "
            "first: something outlives a call, such as shared memory that is read before it is written",
        )

    def own_share(self, image: torch.Tensor) -> float:
        """Part of the device time in launches; the rest is in operators that the program calls between them."""
        kinds = self._program.kinds
        if "call" not in kinds or "launch" not in kinds:
            return 0.0 if "call" in kinds else 1.0
        shares: list[float] = []
        for _ in range(_SHARE_RUNS):
            tensors = self._tensors(self.place(image))
            seconds = self._gpu.time_steps(
                lambda after, tensors=tensors: self._program.run(*tensors, after_step=after), len(kinds)
            )
            own = sum(spent for kind, spent in zip(kinds, seconds, strict=True) if kind == "launch")
            shares.append(own / max(sum(seconds), 1e-12))
        return statistics.median(shares)

    def _run(self, number: int) -> None:
        self._program.run(*self._tensors(number))

    def _tensors(self, number: int) -> tuple[list[torch.Tensor], list[torch.Tensor], list[torch.Tensor]]:
        inputs = self._subject.inputs_of(self._memories[number])
        spaces = [place.view(self._scratch) for place in self._scratch_slot.workspaces]
        return inputs, self.outputs(number), spaces


class StandIn(EagerSide):
    """Eager in a candidate's place: on the candidate's slots, checked and timed alike."""

    latest: torch.Tensor
    """The slot of the last call that was not timed."""

    def once(self, image: torch.Tensor, *, stepwise: bool, renew: bool) -> list[torch.Tensor] | Finding:
        """One call that is not timed; its outputs, copied."""
        number = self.place(image)
        self.latest = self._memories[number]
        self.enqueue(number)
        return [tensor.clone() for tensor in self.outputs(number)]
