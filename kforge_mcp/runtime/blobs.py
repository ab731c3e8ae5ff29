"""The workspace's content-addressed blobs, read and written from the model interpreter."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def path(root: str, digest: str) -> Path:
    """Where the blob of a SHA-256 hex digest lies."""
    return Path(root, digest[:2], digest[2:])


def write(root: str, data: bytes | bytearray) -> str:
    """Store bytes and return their digest; a blob appears whole or not at all."""
    digest = hashlib.sha256(data).hexdigest()
    target = path(root, digest)
    try:
        # Its age starts anew, so that no sweep takes it before a record names it.
        os.utime(target)
    except FileNotFoundError:
        pass
    else:
        return digest
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".tmp-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return digest


def read(root: str, digest: str) -> bytes:
    """The bytes of a blob. Raises `FileNotFoundError`."""
    return path(root, digest).read_bytes()
