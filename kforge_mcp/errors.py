"""The few errors that cross layers. Each message says what failed, why, and what to do next."""


class KForgeError(Exception):
    """Base of every error that this project raises on purpose."""


class UsageError(KForgeError):
    """The call cannot be carried out as it was made; the server shows the text to the model."""


class NotFoundError(UsageError):
    """An id names nothing in this workspace."""


class WorkspaceError(UsageError):
    """The workspace cannot be used: not writable, locked, or written by a newer version."""


class InterpreterError(UsageError):
    """No Python able to run the model was found, or the one named cannot."""


class ToolchainError(UsageError):
    """A compiler or build tool is missing or unusable."""


class RuntimeFailure(KForgeError):
    """The model interpreter answered with an error, died, or did not answer in time.

    `kind` is one of `user_error` (the model's own code failed), `contract` (the request did not fit), `device_lost`
    (the GPU failed the process), `crashed`, `timed_out`, `cancelled`, `internal`; `log` is the path of the process's
    own output, if kept.
    """

    def __init__(self, kind: str, message: str, *, trace: str = "", log: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.trace = trace
        self.log = log


class JobCancelled(KForgeError):
    """The job was cancelled; raised inside the job to unwind it."""
