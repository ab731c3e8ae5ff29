"""In-model acceptance: the captured workload with a package attached against without, in one process.

One round runs every arrangement once, in random order: the plain model twice (the second is the A/A run), the model
with the package twice, and with each kernel switched off alone. Every run with the package has a clock around the
calls of each card, kernel or original, so that a kernel's effect is seen where it happens.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import importlib.util
import inspect
import random
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

from . import acceptance_graph, acceptance_outputs, flags
from .acceptance_clock import Clock, DeviceTime, HostTime
from .entry import Workload, load_workload
from .failures import Refusal
from .reference import import_code

Emit = Callable[[dict[str, Any]], None]
_SHORTEST_RUN_S = 0.005


def accept(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """`{"stage": "identify", "cards"}` or `{"stage": "measure", ...}`; see `identify` and `measure`."""
    return {"identify": identify, "measure": measure}[payload["stage"]](payload, emit)


def identify(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """The digest of the source of each card's class or function, as the package compares it when it is attached.

    `cards` are `{"card_id", "qualified_name", "reference"}`; the answer maps card_id to a digest, empty where there
    is no source.
    """
    return {"digests": {card["card_id"]: _digest(card) for card in payload["cards"]}}


def _digest(card: dict[str, Any]) -> str:
    import_code(card["reference"])
    module, _, path = card["qualified_name"].partition(":")
    try:
        target: Any = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
        text = textwrap.dedent(inspect.getsource(target))
    except (ImportError, AttributeError, OSError, TypeError):
        return ""
    return hashlib.sha256(text.encode()).hexdigest()


def measure(payload: dict[str, Any], emit: Emit) -> dict[str, Any]:
    """Run the workload with and without a package and return raw times and the comparison of outputs.

    Payload: `entry`, `project_dir`, `package` (the folder to import from), `name`, `cards` (their names), `flags`,
    `seed`, `budget_s`, `least_rounds`, `most_rounds`, `device` (`cpu` or `cuda`), and `graphs`: whether to measure
    under CUDA graphs too. The number of rounds follows from the first runs' time alone.
    Times are microseconds of one run of the workload. Raises `Refusal` if the user's model or the package fails.
    """
    workload = load_workload(payload["entry"], payload["project_dir"])
    flags.apply(payload.get("flags", {}))
    package = import_package(payload["package"], payload["name"])
    on_gpu = payload.get("device", "cpu") == "cuda"
    bench = Bench(workload, package, payload["cards"], payload["seed"], DeviceTime() if on_gpu else HostTime())
    emit({"message": "comparing outputs"})
    outputs = bench.compare_outputs()
    arrangements = ["without", "without_again", "with", "with_again", *(f"off:{card}" for card in payload["cards"])]
    warm = [bench.run(name)["total_us"] / 1e6 for name in arrangements]
    repeats = max(1, round(_SHORTEST_RUN_S / max(min(warm), 1e-6)))
    count = int(payload["budget_s"] / max(sum(warm) * repeats, 1e-6))
    count = min(max(count, payload["least_rounds"]), payload["most_rounds"])
    order = random.Random(payload["seed"])
    rounds = []
    for number in range(count):
        emit({"message": f"in-model round {number + 1} of {count}", "fraction": number / count})
        shuffled = order.sample(arrangements, len(arrangements))
        gc.collect()
        rounds.append({"order": shuffled, "runs": {name: bench.run(name, repeats) for name in shuffled}})
    graphs = None
    if payload.get("graphs"):
        emit({"message": "in-model rounds under CUDA graphs", "fraction": 1.0})
        graphs = bench.under_graphs(count)
    return {
        "graphs": graphs,
        "rounds": rounds,
        "repeats": repeats,
        "threads": torch.get_num_threads(),
        "torch_version": str(torch.__version__),
        "outputs": outputs,
        "attached": bench.attached,
        "served": bench.served(),
        "package_us": statistics.median(item["runs"]["with"]["total_us"] for item in rounds),
    }


def import_package(folder: str, name: str) -> ModuleType:
    """Import a package from a folder that goes first on the path. Raises `Refusal` if the name is taken."""
    importlib.invalidate_caches()
    if name in sys.modules or importlib.util.find_spec(name) is not None:
        raise Refusal("contract", f"a module {name!r} exists in the model's environment: choose another package name")
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    return importlib.import_module(name)


class Bench:
    """One workload and one package, run in the arrangements that `measure` names."""

    def __init__(self, workload: Workload, package: ModuleType, cards: list[str], seed: int, time_of: HostTime) -> None:
        self._time = time_of
        self._workload = workload
        self._package = package
        self._points = importlib.import_module(f"{package.__name__}._attach").points
        self._cards = cards
        self._seed = seed
        self._counted: dict[str, Any] = {}
        with self._attached():
            self.attached = {
                "modules": dict(self._report.modules),
                "functions": {card: list(places) for card, places in self._report.functions.items()},
                "left_alone": dict(self._report.left_alone),
            }

    def run(self, arrangement: str, repeats: int = 1) -> dict[str, Any]:
        """Times of `repeats` runs: `total_us` of one end to end, `cards` with what each card's clock saw in all."""
        if arrangement.startswith("without"):
            return {"total_us": self._timed(repeats), "cards": {}}
        clocks = {card: Clock(self._time) for card in self._cards}
        off = arrangement.partition("off:")[2]
        with self._attached():
            with self._clocks(clocks, off):
                total = self._timed(repeats)
            if not self._time.free:
                # The host, which may set the pace, must not pay for clocks that the plain model does not have.
                with self._switched(off):
                    total = self._timed(repeats)
        return {"total_us": total, "cards": {card: clock.answer() for card, clock in clocks.items()}}

    def compare_outputs(self) -> dict[str, Any]:
        """Outputs with the package against those without, held against the float64 oracle where there is one."""
        eager = self._results()
        before = self._package.stats()
        with self._attached():
            packaged = self._results()
        self._counted = _difference(self._package.stats(), before)
        self._measure = acceptance_outputs.Yardstick(eager, self._results, self._perturbed)
        answer = self._measure.compare(packaged)
        if not answer["equal"]:
            answer["equal_without"] = [
                card for card in self._cards if self._measure.compare(self._switched_off(card))["equal"]
            ]
        return answer

    def under_graphs(self, rounds: int) -> dict[str, Any]:
        """The same under CUDA graphs, without clocks around calls; see `acceptance_graph.measure`."""
        return acceptance_graph.measure(
            self._workload, self._cards, self._arranged, self._measure, rounds=rounds, seed=self._seed
        )

    @contextmanager
    def _arranged(self, name: str) -> Iterator[None]:
        torch.manual_seed(self._seed)
        if name == "without":
            yield
            return
        with self._attached(), self._switched(name.partition("off:")[2]):
            yield

    def _switched_off(self, card: str) -> list[torch.Tensor]:
        with self._arranged(f"off:{card}"):
            return self._results()

    def served(self) -> dict[str, Any]:
        """What the package counted in one run of the workload, by card."""
        return self._counted

    def _results(self) -> list[torch.Tensor]:
        torch.manual_seed(self._seed)
        return acceptance_outputs.tensors_of(self._workload.run())

    def _perturbed(self, relative: float) -> list[torch.Tensor]:
        """The plain model's outputs when each card's results are off by a random relative error of this size."""
        noise = torch.Generator().manual_seed(self._seed)

        def disturb(function: Callable[..., Any]) -> Callable[..., Any]:
            def disturbed(*args: Any, **kwargs: Any) -> Any:
                return acceptance_outputs.disturb(function(*args, **kwargs), relative, noise)

            return disturbed

        with self._attached(), self._replaced({point: disturb(point.original) for point in self._points()}):
            return self._results()

    def _timed(self, repeats: int) -> float:
        """Microseconds of one run; the copies of the calls are made before the clock starts."""
        torch.manual_seed(self._seed)
        prepared = [self._workload.prepare() for _ in range(repeats)]
        self._time.settle()
        start = time.perf_counter_ns()
        for calls in prepared:
            self._workload.execute(calls)
        self._time.settle()
        return (time.perf_counter_ns() - start) / 1e3 / repeats

    @contextmanager
    def _attached(self) -> Iterator[None]:
        self._report = self._package.attach(self._workload.model)
        try:
            yield
        finally:
            self._package.detach()

    @contextmanager
    def _clocks(self, clocks: dict[str, Clock], off: str) -> Iterator[None]:
        chosen = {point: point.original if point.card == off else point.dispatch for point in self._points()}
        with self._replaced({point: clocks[point.card].around(function) for point, function in chosen.items()}):
            yield

    @contextmanager
    def _switched(self, off: str) -> Iterator[None]:
        with self._replaced({point: point.original for point in self._points() if point.card == off}):
            yield

    @contextmanager
    def _replaced(self, functions: dict[Any, Callable[..., Any]]) -> Iterator[None]:
        for point, function in functions.items():
            setattr(point.holder, point.attribute, function)
        try:
            yield
        finally:
            for point in functions:
                setattr(point.holder, point.attribute, point.dispatch)


def _difference(after: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    counted = {}
    for card, now in after.items():
        then = before.get(card, {"hits": 0, "misses": {}})
        misses = {reason: count - then["misses"].get(reason, 0) for reason, count in now["misses"].items()}
        counted[card] = {
            "hits": now["hits"] - then["hits"],
            "misses": {reason: count for reason, count in misses.items() if count},
        }
    return counted
