"""Errors that the runtime answers with instead of a result."""

from __future__ import annotations


class Refusal(Exception):
    """A request that cannot be carried out.

    `kind`: `user_error` (the model's own code failed), `contract`, or `device_lost` (the GPU no longer answers this
    process, another may go on; the message names the variant whose proof it was).
    """

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace
