"""Is a candidate right on one variant, and on which inputs: the same on every target, whatever runs the calls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .checks import Finding
from .examination import adapted, examine
from .hardening import hardened
from .inputs import TRIALS
from .subject import Subject
from .trials import Trials

_FOUND = ("frozen", "varied", "in_range", "oracle")


@dataclass(frozen=True)
class Validated:
    """`subject` is the variant on the inputs that it was found to need: what is timed. `admission` is what was found
    out about them here, None if it was known or something was wrong."""

    subject: Subject
    finding: Finding | None
    admission: dict[str, Any] | None = None


def validate(subject: Subject, known: dict[str, Any], mode: str, trials: Callable[..., Trials]) -> Validated:
    """Run the trials of one variant. `trials` makes them from a subject and the keywords `admit` and `hardness`.

    `known` says of the variant whether it is `admitted`, and what was found out about its inputs if so.
    """
    changed = adapted({**subject.variant, **{name: known[name] for name in _FOUND if name in known}})
    if changed["tensors"] != subject.variant["tensors"] or changed.get("oracle"):
        subject = subject.with_variant(changed)
    hardness = known.get("hardness", "")
    if mode != "judge":
        subject = hardened(subject, hardness)
        return Validated(subject, trials(subject, admit=False).run(TRIALS[2:3]))
    if known["admitted"]:
        run = trials(subject, admit=False, hardness=hardness)
        finding = run.run()
        return Validated(run.subject, finding)
    subject, found = examine(subject)
    run = trials(subject, admit=True)
    finding = None if found.problem else run.run()
    if finding:
        return Validated(subject, finding)
    for text in found.notes:
        subject.note(text)
    uncaught = [found.problem] if found.problem else run.uncaught
    admission = {
        "hardness": run.hardness,
        "frozen": found.frozen,
        "varied": found.varied,
        "in_range": found.in_range,
        "oracle": found.oracle,
        "uncaught": uncaught,
        "notes": list(subject.notes),
    }
    if not uncaught:
        return Validated(run.subject, None, admission)
    what = found.problem or f"the inputs cannot tell eager from {', '.join(uncaught)}, even on harder draws"
    message = f"{subject.label()}: {what}; nothing is claimed on this card"
    return Validated(subject, Finding("weak_oracle", message), admission)
