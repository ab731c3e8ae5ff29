"""Is a candidate right on one variant, and on which inputs: the same on every target, whatever runs the calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .checks import Finding
from .hardening import freeze, hardened, repaired
from .inputs import TRIALS
from .subject import Subject
from .trials import Trials


@dataclass(frozen=True)
class Validated:
    """`subject` is the variant on the inputs that it was found to need: what is timed. `admission` is what was found
    out about them here, None if it was known or something was wrong."""

    subject: Subject
    finding: Finding | None
    admission: dict[str, Any] | None = None


def validate(subject: Subject, known: dict[str, Any], mode: str, trials: Callable[..., Trials]) -> Validated:
    """Run the trials of one variant. `trials` makes them from a subject and the keywords `admit` and `hardness`.

    `known` says of the variant whether it is `admitted`, and its `hardness` and `frozen` tensors if so.
    """
    if known.get("frozen"):
        subject = subject.with_variant(freeze(subject.variant, known["frozen"]))
    hardness = known.get("hardness", "")
    if mode != "judge":
        subject = hardened(subject, hardness)
        return Validated(subject, trials(subject, admit=False).run(TRIALS[2:3]))
    if known["admitted"]:
        run = trials(subject, admit=False, hardness=hardness)
        finding = run.run()
        return Validated(run.subject, finding)
    subject, frozen, said = repaired(subject)
    run = trials(subject, admit=True)
    finding = run.run()
    if finding:
        return Validated(subject, finding)
    admission = {
        "hardness": run.hardness,
        "frozen": frozen,
        "uncaught": run.uncaught,
        "notes": [*said, *subject.notes],
    }
    for text in said:
        subject.note(text)
    if not run.uncaught:
        return Validated(run.subject, None, admission)
    message = (
        f"{subject.label()}: the inputs cannot tell eager from {', '.join(run.uncaught)}, even on harder draws; "
        "nothing is claimed on this card"
    )
    return Validated(subject, Finding("weak_oracle", message), admission)
