"""Content-addressed files: a blob's name is the SHA-256 of its bytes, so equal contents are stored once."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kforge_mcp.errors import NotFoundError, WorkspaceError

_DIGEST = re.compile(r"[0-9a-f]{64}")
_TEMPORARY = ".tmp-"
_CHUNK = 1 << 20
GRACE_S = 3600.0
"""A blob younger than this is never swept: its record may be about to be committed."""


class BlobStore:
    """Blobs below `root`, as `<first two hex digits>/<the other 62>`.

    A blob is written to a temporary name, flushed to disk and renamed, and only then may a record name it: a crash
    leaves at worst a blob that nothing refers to, which `sweep` removes.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, digest: str) -> Path:
        """Where the blob is or would be. Raises `NotFoundError` if `digest` is no digest."""
        if not _DIGEST.fullmatch(digest):
            raise NotFoundError(f"{digest!r} is no blob digest (64 hexadecimal digits)")
        return self.root / digest[:2] / digest[2:]

    def has(self, digest: str) -> bool:
        """Whether the blob is stored."""
        return self.path(digest).is_file()

    def get(self, digest: str) -> bytes:
        """The blob's bytes. Raises `NotFoundError`."""
        try:
            return self.path(digest).read_bytes()
        except FileNotFoundError:
            raise NotFoundError(f"blob {digest} is not in this workspace; was it swept or copied partly?") from None

    def put(self, data: bytes) -> str:
        """Store bytes and return their digest. Raises `WorkspaceError` if the disk refuses."""
        digest = hashlib.sha256(data).hexdigest()
        if self._touched(digest):
            return digest
        with self._writing(digest) as file:
            file.write(data)
        return digest

    def put_file(self, path: str | Path, move: bool = False) -> str:
        """Store a file's contents and return their digest; with `move` the file is gone afterwards."""
        with open(path, "rb") as source:
            digest = hashlib.file_digest(source, "sha256").hexdigest()
            if not self._touched(digest):
                source.seek(0)
                with self._writing(digest) as file:
                    shutil.copyfileobj(source, file, _CHUNK)
        if move:
            os.unlink(path)
        return digest

    def sweep(self, referenced: set[str]) -> int:
        """Remove blobs that are not `referenced` and leftovers of crashes, both only when older than an hour.

        Returns the number of files removed.
        """
        removed = 0
        limit = time.time() - GRACE_S
        for file in self.root.glob("??/*"):
            if file.parent.name + file.name in referenced:
                continue
            try:
                removed += _remove_if_older(file, limit)
            except FileNotFoundError:
                continue
        return removed

    def _touched(self, digest: str) -> bool:
        """Whether the blob exists; if so its age starts anew, so that no sweep takes it before its record comes."""
        try:
            os.utime(self.path(digest))
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _writing(self, digest: str) -> Iterator[BinaryIO]:
        target = self.path(digest)
        temporary = target.with_name(_TEMPORARY + secrets.token_hex(8))
        try:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with open(temporary, "xb", opener=_private) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
            _sync_folder(target.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise WorkspaceError(f"cannot store a blob in {self.root}: {error.strerror or error}") from error


def _remove_if_older(file: Path, limit: float) -> bool:
    if file.stat().st_mtime >= limit:
        return False
    aside = file.with_name(_TEMPORARY + secrets.token_hex(8))
    os.rename(file, aside)
    if aside.stat().st_mtime >= limit:
        # Somebody stored the same content between the two looks, and is about to commit a record of it.
        os.rename(aside, file)
        return False
    aside.unlink()
    return True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` outlast a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
