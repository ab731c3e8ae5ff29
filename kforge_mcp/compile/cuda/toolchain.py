"""Which NVRTC compiles CUDA candidates: the one that fits the model interpreter's torch, else the newest."""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from kforge_mcp.compile.cuda import probe
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError
from kforge_mcp.records.project import Interpreter

SHIMS = Path(__file__).with_name("shims")
_PROBE = Path(probe.__file__)
_NEEDED = ("runtime", "crt")

_lock = threading.Lock()
_seen: dict[str, Toolchain] = {}


@dataclass(frozen=True)
class Toolchain:
    """NVRTC and CUDA's headers as one Python's environment has them. Folders and versions by part; see `probe`."""

    python: str
    nvrtc: str
    """`13.5`; empty if NVRTC cannot be loaded."""
    major: int
    error: str
    folders: dict[str, str]
    versions: dict[str, str]
    architectures: tuple[int, ...] = ()
    """Compute capabilities that NVRTC can compile for, as 90."""

    @property
    def missing(self) -> list[str]:
        """The pip packages that are needed and not there; those of CCCL and the disassembler are not needed by all."""
        parts = [part for part in _NEEDED if not self.folders.get(part)]
        return [probe.wheel(part, self.major) for part in ([] if self.nvrtc else ["nvrtc"]) + parts]

    @property
    def usable(self) -> bool:
        """Whether candidates can be compiled with it."""
        return not self.missing

    @property
    def identity(self) -> str:
        """Equal for toolchains that make equal binaries from equal sources."""
        return json.dumps([self.nvrtc, sorted(self.versions.items()), _shims_digest()])

    @property
    def include_options(self) -> list[str]:
        """Options that name the header folders, kforge's own before those of CUDA."""
        folders = [str(SHIMS), *(self.folders[part] for part in ("runtime", "crt", "cccl") if self.folders.get(part))]
        return [f"-I{folder}" for folder in dict.fromkeys(folders)]


def find_toolchain(ctx: JobContext, interpreter: Interpreter | None = None) -> Toolchain:
    """The toolchain of CUDA's major version that the interpreter's torch was built with, else the newest usable one.

    The server's environment is looked at first, then the interpreter's.

    Raises:
        ToolchainError: none is usable; the message names what to install.
    """
    found = toolchains(ctx, interpreter)
    usable = [one for one in found if one.usable]
    wanted = torch_major(interpreter)
    fitting = [one for one in usable if one.major == wanted]
    if fitting or usable:
        return (fitting or sorted(usable, key=lambda one: one.major, reverse=True))[0]
    first = found[0]
    extra = f"pip install 'kforge-mcp[cu{wanted or 13}]'"
    raise ToolchainError(
        f"CUDA candidates cannot be compiled: {first.python} lacks {', '.join(first.missing)}"
        + (f" ({first.error})" if first.error else "")
        + f". Install them into the server's environment: {extra}"
    )


def toolchains(ctx: JobContext, interpreter: Interpreter | None = None) -> list[Toolchain]:
    """What the server's environment has, and the interpreter's if it is another one."""
    pythons = [sys.executable, *([interpreter.executable] if interpreter else [])]
    return [_look(ctx, python) for python in dict.fromkeys(pythons)]


def torch_major(interpreter: Interpreter | None) -> int:
    """CUDA's major version that torch was built with; 0 for torch without CUDA."""
    version = interpreter.cuda_version if interpreter else ""
    return int(version.split(".")[0]) if version.split(".")[0].isdigit() else 0


def _look(ctx: JobContext, python: str) -> Toolchain:
    with _lock:
        if python in _seen:
            return _seen[python]
    run = ctx.run([python, "-I", str(_PROBE)], timeout_s=60)
    try:
        facts = json.loads(run.stdout)
    except json.JSONDecodeError:
        said = (run.stderr or run.stdout).strip().splitlines()[-1:] or ["it said nothing"]
        return Toolchain(python, "", 13, f"it does not run: {said[0][:200]}", {}, {})
    found = Toolchain(
        python=python,
        nvrtc=facts["nvrtc"],
        major=facts["major"],
        error=facts["error"],
        folders={part: folder for part, (folder, _) in facts["parts"].items()},
        versions={part: version for part, (_, version) in facts["parts"].items()},
        architectures=tuple(facts.get("architectures") or ()),
    )
    # An incomplete environment is looked at again: its owner may be completing it.
    if found.usable:
        with _lock:
            _seen[python] = found
    return found


def _shims_digest() -> str:
    from hashlib import sha256

    digest = sha256()
    for path in sorted(SHIMS.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]
