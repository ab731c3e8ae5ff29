"""Errors that the runtime answers with instead of a result."""

from __future__ import annotations


class Refusal(Exception):
    """A request that cannot be carried out. `kind`: `user_error` (the model's own code failed) or `contract`."""

    def __init__(self, kind: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace
