"""Errors that the runtime answers with instead of a result."""

from __future__ import annotations

import traceback
from typing import Any


class Refusal(Exception):
    """A request that cannot be carried out.

    `kind`: `user_error` (the model's own code failed), `contract`, or `device_lost` (the GPU no longer answers this
    process, another may go on; the message names the variant whose proof it was).
    """

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace


def as_frame(error: Exception) -> dict[str, Any]:
    """What the other end is told of an error that is being handled: of a kind of its own, or `internal`."""
    if isinstance(error, Refusal):
        return {"kind": error.kind, "message": str(error), "trace": error.trace}
    message = f"{type(error).__name__}: {error}"
    return {"kind": "internal", "message": message, "trace": traceback.format_exc()}
