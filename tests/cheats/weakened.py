"""A judge with checks taken out: `python weakened.py RUNTIME_MAIN FD PARENT`, for the tests of this folder alone.

Stands in for the model interpreter, serves like the runtime's own process, and takes from each request the names of
the checks that this evaluation does without. Nothing of the product knows of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from typing import Any


def _module(name: str) -> Any:
    return importlib.import_module(f"kforge_runtime.{name}")


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _poison() -> None:
    """Memory that already holds the right result, as an allocator gives it back after the reference ran."""
    trials = _module("trials").Trials
    call = trials._call

    def stale(self: Any, image: Any) -> Any:
        subject = self._subject
        outputs = subject.eager([view.clone() for view in subject.inputs_of(image)])
        for place, output in zip(subject.slot.outputs, outputs, strict=True):
            place.view(image).copy_(output)
        return call(self, image)

    trials._call = stale


def _fresh_inputs() -> None:
    trials = _module("trials").Trials
    draw, kept = trials._image, []

    def repeated(self: Any, drawn: Any) -> Any:
        if not kept:
            kept.append(draw(self, drawn))
        image = kept[0].clone()
        self._subject.fresh.renew_surroundings(image)
        return image

    trials._image = repeated


def _fresh_parameters() -> None:
    inputs = _module("inputs")
    draw = inputs.draw_recipe

    def initial(spec: Any, *rest: Any, **how: Any) -> Any:
        drawn = draw(spec, *rest, **how)
        return drawn.fill_(1.0) if len(spec["shape"]) == 1 else drawn

    inputs.draw_recipe = initial


def _trials(kept: Callable[[int], bool]) -> None:
    trials, names = _module("trials"), _module("inputs").TRIALS
    run = trials.Trials._run

    def fewer(self: Any, asked: Any, circumstance: str) -> Any:
        return run(self, [name for name in asked if kept(names.index(name) + 1)], circumstance)

    trials.Trials._run = fewer


class _Whole:
    """Blocks that do not tell styles apart."""

    def parts(self, shape: Any) -> list[tuple[str, None]]:
        return [("all", None)]

    result_parts = parts


def _blocks() -> None:
    inner = _module("checks").check
    for name in ("trials", "pairs", "admission"):
        _module(name).check = lambda outputs, expected, blocks: inner(outputs, expected, _Whole())


def _rmse() -> None:
    checks = _module("checks")
    checks.multiple = lambda numel: float("inf")


def _elements() -> None:
    checks = _module("checks")
    rms = checks.row_rms
    checks.row_rms = lambda values, calls=0: rms(values, calls) + float("inf")


def _timed_values() -> None:
    fresh = _module("freshness").FreshInputs
    compose, kept = fresh.compose, {}

    def repeated(self: Any, image: Any) -> Any:
        if id(self) not in kept:
            blocks = compose(self, image)
            kept[id(self)] = (image.clone(), blocks)
        image.copy_(kept[id(self)][0])
        self.renew_surroundings(image)
        return kept[id(self)][1]

    fresh.compose = repeated


def _stop() -> None:
    """A side that is given time to finish what it left undone, instead of being stopped when it reports its end."""
    _module("sides").Side._halt = lambda self: time.sleep(0.05)


def _threads() -> None:
    _module("sides").Side.threads = lambda self: 0


def _floating_point() -> None:
    for name in ("trials", "pairs", "referee"):
        module = _module(name)
        check = module.process_changed
        module.process_changed = lambda side, policy, state, original, check=check: check(side, policy, "", "")


def _filter() -> None:
    _module("seccomp").install = lambda program: ""


def _root() -> None:
    def seen(folder: str, files: dict[str, bytes], applied: Any) -> str:
        for name, data in files.items():
            with open(f"{folder}/{name}", "wb") as file:
                file.write(data)
        return folder

    _module("sandbox").empty_root = seen


def _booleans() -> None:
    _module("checks").plain_bytes = _module("batch").plain_bytes = lambda tensor: tensor


def _set(module: str, path: str, value: Any) -> Callable[[], None]:
    def apply() -> None:
        *owners, name = path.split(".")
        owner = _module(module)
        for one in owners:
            owner = getattr(owner, one)
        setattr(owner, name, value)

    return apply


CHECKS: dict[str, Callable[[], Any]] = {
    "poison": _poison,
    "two runs": _set("trials", "same_bits", lambda one, other: True),
    "what earlier calls left": _set("freshness", "FreshInputs.left_behind", lambda self, memory: []),
    "poison of any bits": _set("freshness", "_half_wild", lambda values, generator: values),
    "guard zones": _set("batch", "_guards_changed", _nothing),
    "memory far away": _set("arena", "Arena.touched", lambda self: b""),
    "inputs unchanged": _set("batch", "_inputs_changed", _nothing),
    "threads": _threads,
    "floating-point state": _floating_point,
    "process stopped": _stop,
    "root mean square": _rmse,
    "every element": _elements,
    "blocks of one style": _blocks,
    "places of NaN": _set("checks", "check_nonfinite", _nothing),
    "booleans as bytes": _booleans,
    "fresh inputs": _fresh_inputs,
    "fresh parameters": _fresh_parameters,
    "stress": lambda: _trials(lambda number: number not in (3, 4)),
    "infinities and NaN": lambda: _trials(lambda number: number != 5),
    "addresses that vary": _set("batch", "_JITTER", 1),
    "timed values that never repeat": _timed_values,
    "timed positions": _set("fingerprint", "Fingerprints._positions", _nothing),
    "timed projections": _set("fingerprint", "Fingerprints._projections", _nothing),
    "chosen timed calls": _set("chosen", "Chosen.check", _nothing),
    "admission": _set("admission", "Admission.undecided", []),
    "uncaught": _set("admission", "Admission.uncaught", lambda self: []),
    "system-call filter": _filter,
    "empty root": _root,
    "privileges given up": _set("sandbox", "give_up_privileges", _nothing),
    "namespace of processes": lambda: _module("sandbox")._NAMESPACES.pop("processes"),
    "scrubbed environment": _set("sandbox", "scrub_environment", _nothing),
    "closed descriptors": _set("sandbox", "keep_descriptors", _nothing),
    "limits": _set("sandbox", "limit", _nothing),
}


def main() -> None:
    spec = importlib.util.spec_from_file_location("runtime_main", sys.argv[1])
    assert spec is not None and spec.loader is not None
    runtime = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runtime)
    runtime.become_package()
    evaluator = _module("evaluator")
    referee = evaluator.Referee

    def weakened(request: dict[str, Any], close: list[int], progress: Any) -> Any:
        for name in request["without"]:
            CHECKS[name]()
        return referee(request, close, progress)

    evaluator.Referee = weakened
    sys.argv = sys.argv[1:]
    runtime.main()


if __name__ == "__main__":
    main()
