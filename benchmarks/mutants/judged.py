"""Judges mutants inside the model interpreter: `python judged.py JOB`, the results as JSON lines.

Every mutant runs in a forked child that has the judge's trials, timed calls and checks, but no sandbox: the same code
decides, without what costs a second per candidate. A child that crashes or does not end has rejected its mutant.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

_RUNTIME = Path(__file__).resolve().parents[2] / "kforge_mcp" / "runtime"
_CALL_CPU_S = 0.2
"""Processor time that a call may take: ten thousand times what it needs."""
_SCHEDULE = {"pairs": 4, "first_stage": 4, "warm_up": 0, "null": False}
_STYLE_ROUNDS = 2
_SECONDS = 1.0
"""What every batch is said to take: long enough that a batch has one call."""


def _runtime() -> SimpleNamespace:
    """The runtime's modules, under the name that the product gives the package."""
    spec = importlib.util.spec_from_file_location(
        "kforge_runtime", _RUNTIME / "__init__.py", submodule_search_locations=[str(_RUNTIME)]
    )
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules["kforge_runtime"] = package
    spec.loader.exec_module(package)
    names = (
        "arena", "batch", "candidate_side", "checks", "inputs", "pairs", "reference", "sides", "subject", "tensors",
        "trials", "values",
    )  # fmt: skip
    return SimpleNamespace(**{name: importlib.import_module(f"kforge_runtime.{name}") for name in names})


rt = _runtime()
heldout = importlib.util.module_from_spec(
    spec := importlib.util.spec_from_file_location("heldout", Path(__file__).with_name("heldout.py"))  # type: ignore[arg-type]
)
spec.loader.exec_module(heldout)  # type: ignore[union-attr]


class DirectSide:
    """Stands for `runtime.sides.Side` of a candidate: the function is called in this process."""

    is_candidate = True

    def __init__(self, arena: Any, function: Any) -> None:
        self.arena = arena
        self._functions = [function]
        self._calls: list[Any] = []

    def order(self, opcode: bytes, body: Any, timeout_s: float) -> bytes:
        """Take the calls; answer with the floating-point environment."""
        self._calls = [rt.candidate_side._bind(self._functions, self.arena, call) for call in body or []]
        return rt.candidate_side.floating_point_state().encode()

    def go(self, timeout_s: float) -> float:
        """Make the calls."""
        signal.setitimer(signal.ITIMER_VIRTUAL, _CALL_CPU_S)
        for function, arguments in self._calls:
            function(*arguments)
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return _SECONDS

    def pin(self, processor: int, processors: set[int]) -> bool:
        """Nothing is timed here."""
        return True

    def threads(self) -> int:
        """One: a mutant starts none."""
        return 1


class DirectTwin:
    """Stands for the side that runs eager."""

    is_candidate = False

    def __init__(self, arena: Any, subject: Any) -> None:
        self.arena = arena
        self._subject = subject
        self._memories: list[torch.Tensor] = []

    def order(self, opcode: bytes, body: Any, timeout_s: float) -> bytes:
        """Take the calls, or lay out the results of those made."""
        slot = self._subject.slot
        if opcode == rt.sides.PREPARE:
            self._memories = [self.arena.slot(call["start"], slot) for call in body]
        elif opcode == rt.sides.EXPORT:
            for memory in self._memories:
                results = self._subject.eager([place.view(memory) for place in slot.inputs])
                for result, place in zip(results, slot.outputs, strict=True):
                    place.view(memory).copy_(result)
        return b""

    def go(self, timeout_s: float) -> float:
        """Nothing is timed here."""
        return _SECONDS

    def pin(self, processor: int, processors: set[int]) -> bool:
        """Nothing is timed here."""
        return True


class Judge:
    """One kernel's operator, with its honest form for comparison."""

    def __init__(self, job: dict[str, Any]) -> None:
        variant = job["variant"]
        self.variant = variant
        self.slot = rt.arena.place_call(variant, variant["workspaces"])
        self.reference = rt.reference.load_reference(job["reference"], "")
        self.bound = rt.batch.Bound(0, self.slot, 0, rt.batch.bind_arguments(variant["bound"], self.slot), {})
        self.policy = rt.trials.Policy(1, 10.0, False)
        self.dtypes = [rt.tensors.DTYPES[spec["dtype"]] for spec in variant["tensors"]]

    def judge(self, function: Any) -> Any:
        """The judge's first finding: trials, then timed calls."""
        subject = self._subject()
        side = self._side(function)
        state = rt.candidate_side.floating_point_state()
        finding = rt.trials.Trials(subject, side, self.policy, state, admit=False).run()
        if finding is None:
            twin = DirectTwin(self._arena(), subject)
            timing = rt.pairs.Timing(subject, twin, side, twin, self.policy, state)
            outcome = timing.run(rt.pairs.Schedule(**_SCHEDULE), lambda done: None)
            finding = outcome if isinstance(outcome, rt.checks.Finding) else None
        return finding

    def tell(self, honest: Any, function: Any, seed: int) -> Iterator[str]:
        """Held-out inputs on which the honest kernel is right and the mutant is not, with what is wrong."""
        subject = self._subject()
        side, right = self._side(function), self._side(honest)
        for round_ in range(_STYLE_ROUNDS):
            for name, tensors in heldout.draws(self.variant, self.dtypes, seed + round_):
                blocks = rt.inputs.Blocks(rt.inputs.BlockAxis(), (name,), (0,))
                image = subject.fresh.image()
                subject.fresh.place_values(image, tensors)
                subject.fresh.renew_surroundings(image)
                try:
                    known = subject.expect(image, blocks)
                except (RuntimeError, ValueError, IndexError):
                    continue
                own = self._call(right, image)
                if rt.checks.check(own, known, blocks):
                    continue
                outputs = [_nearer(c, h) for c, h in zip(self._call(side, image), own, strict=True)]
                finding = rt.checks.check(outputs, known, blocks)
                if finding:
                    yield f"{name}: {finding.message}"

    def _subject(self) -> Any:
        return rt.subject.Subject(0, self.variant, self.slot, self.bound, self.reference, "")

    def _arena(self) -> Any:
        return rt.arena.Arena(rt.batch.arena_bytes([self.slot], [rt.pairs.most_calls(self.slot.size)]))

    def _side(self, function: Any) -> DirectSide:
        return DirectSide(self._arena(), function)

    def _call(self, side: DirectSide, image: torch.Tensor) -> list[torch.Tensor]:
        batch = rt.batch.Batch(side, self.bound, 1, random.Random(), 10.0)
        batch.prepare()
        batch.run([image])
        return [tensor.clone() for tensor in batch.outputs()[0]]


def _nearer(c: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Halfway to the honest result: what is still wrong there is beyond twice the tolerance, and no matter of which
    values happened to be drawn."""
    if not c.is_floating_point():
        return c
    middle = (h.double() + (c.double() - h.double()) / 2).to(c.dtype)
    return torch.where(torch.isfinite(c) & torch.isfinite(h), middle, c)


def judged(judge: Judge, honest: Any, function: Any, seed: int) -> dict[str, Any]:
    """What became of one mutant, found out in a child."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            finding = judge.judge(function)
            said = {"rejected": finding.reason, "message": finding.message} if finding else {"rejected": ""}
            os.write(write, (json.dumps(said) + "\n").encode())
            if finding is None:
                told = next(judge.tell(honest, function, seed), "")
                os.write(write, (json.dumps({"told": told}) + "\n").encode())
        except Exception as error:  # noqa: BLE001 - the top of the process
            os.write(write, (json.dumps({"error": f"{type(error).__name__}: {error}"}) + "\n").encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        lines = [json.loads(line) for line in pipe.read().splitlines()]
    _, status = os.waitpid(pid, 0)
    result = {key: value for line in lines for key, value in line.items()}
    if os.WIFSIGNALED(status):
        number = signal.Signals(os.WTERMSIG(status)).name
        if "rejected" not in result:
            result |= {"rejected": "timed_out" if number == "SIGVTALRM" else "crashed", "message": number}
        elif "told" not in result:
            result["told"] = f"crashed on a held-out input: {number}"
    elif not lines:
        result |= {"rejected": "crashed", "message": "the process ended"}
    return result


def run(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What became of every mutant of a kernel, the honest kernel itself first as number 0."""
    judge = Judge(job)
    honest = _function(job["honest"], "honest")
    judge.judge(honest)  # What is loaded at the first call is loaded before the children are forked.
    yield {"number": 0, **judged(judge, honest, honest, job["seed"])}
    for unit in job["units"]:
        for number in unit["numbers"]:
            yield {"number": number, **judged(judge, honest, _function(unit["path"], number), job["seed"] + number)}


def _function(path: str, name: Any) -> Any:
    function = getattr(ctypes.CDLL(path), f"kernel_{name}")
    function.restype = None
    return function


def main() -> None:
    torch.set_num_threads(1)
    for result in run(json.loads(Path(sys.argv[1]).read_text())):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
