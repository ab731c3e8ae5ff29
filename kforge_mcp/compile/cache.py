"""Compiled units by content: equal text, flags and compiler compile once, also when asked for at the same time."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import Field, ValidationError

from kforge_mcp.candidate.tokens import tokens
from kforge_mcp.compile.outcome import KernelResources
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.base import Record
from kforge_mcp.records.result import Diagnostic, Reason

_LOCK_TICK_S = 0.1


class Entry(Record):
    """The outcome of one unit: a library by its digest, or the reason why there is none."""

    digest: str = ""
    reason: Reason | None = None
    diagnostics: list[Diagnostic] = Field(default_factory=list)
    log: str = ""
    kernels: list[KernelResources] = Field(default_factory=list)
    text: str = ""
    """Digest of the exact text, comments and line ends included."""


def unit_key(text: str, flags: Iterable[str], identity: str) -> str:
    """The key of a translation unit under flags and a compiler: of its tokens, whatever its comments and layout."""
    return hashlib.sha256(json.dumps([list(tokens(text)), list(flags), identity]).encode()).hexdigest()


def text_digest(text: str) -> str:
    """The digest of a unit's exact text."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class UnitCache:
    """A folder of compiled units. Files appear by rename, so a reader never sees half of one."""

    folder: Path
    suffix: str = ".so"

    def library(self, key: str) -> Path:
        """Where the library of a unit is, or would be."""
        return self.folder / key[:2] / f"{key}{self.suffix}"

    def get(self, key: str, text: str = "") -> Entry | None:
        """The outcome of a unit, or None if it is unknown or its library has changed on disk.

        An outcome with diagnostics serves only the exact `text` (its digest) that it names lines of.
        """
        try:
            entry = Entry.model_validate_json((self.folder / key[:2] / f"{key}.json").read_bytes())
            if entry.digest and file_digest(self.library(key)) != entry.digest:
                return None
            if text and entry.diagnostics and entry.text != text:
                return None
        except (FileNotFoundError, ValidationError):
            return None
        return entry

    def put(self, key: str, entry: Entry, library: Path | None) -> Entry:
        """Keep an outcome; the library is copied in and its digest filled in."""
        place = self.library(key)
        place.parent.mkdir(parents=True, exist_ok=True)
        if library is not None:
            partial = place.with_suffix(f".{os.getpid()}.partial")
            shutil.copyfile(library, partial)
            partial.chmod(0o500)
            entry = entry.model_copy(update={"digest": file_digest(partial)})
            partial.replace(place)
        partial = place.with_suffix(f".{os.getpid()}.partial")
        partial.write_text(entry.model_dump_json())
        partial.replace(place.with_suffix(".json"))
        return entry

    @contextmanager
    def locked(self, ctx: JobContext, keys: Iterable[str]) -> Iterator[None]:
        """Hold units against other processes and threads. Raises JobCancelled while waiting."""
        locks = self.folder / "locks"
        locks.mkdir(parents=True, exist_ok=True)
        with ExitStack() as held:
            for key in sorted(set(keys)):
                lock = FileLock(locks / f"{key}.lock")
                while True:
                    try:
                        held.enter_context(lock.acquire(timeout=_LOCK_TICK_S))
                        break
                    except Timeout:
                        ctx.progress("waiting for the same source to be compiled by another job")
            yield


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
