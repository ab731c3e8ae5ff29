"""Which GPUs a CUDA candidate is compiled for."""

from __future__ import annotations

import os
import re
import shutil

from kforge_mcp.compile.cuda.toolchain import Toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import UsageError

DEFAULT = ("sm_80", "sm_90a", "sm_100")
"""Where there is no device: A100, H100 and B200."""
_found: dict[str, list[str]] = {}
"""What nvidia-smi said: it takes longer than a compilation, and devices stay."""
_NAME = re.compile(r"(?P<kind>sm|compute)_(?P<number>\d{2,3})(?P<specific>[af]?)")


def architectures(ctx: JobContext, toolchain: Toolchain) -> tuple[str, ...]:
    """The names in KFORGE_CUDA_ARCH (`sm_90a,compute_80`), else those of this machine's devices, else the defaults.

    `compute_80` is PTX. Raises UsageError for a name that NVRTC does not know.
    """
    named = ctx.environment.get("KFORGE_CUDA_ARCH", "")
    if named:
        return check_architectures([part.strip() for part in named.split(",") if part.strip()], toolchain)
    return tuple(dict.fromkeys(_of_device(capability) for capability in _capabilities(ctx))) or DEFAULT


def check_architectures(names: list[str], toolchain: Toolchain) -> tuple[str, ...]:
    """The names, each once. Raises UsageError for one that NVRTC does not know."""
    known = ", ".join(f"sm_{number}" for number in toolchain.architectures)
    for name in names:
        match = _NAME.fullmatch(name)
        if not match or int(match["number"]) not in toolchain.architectures:
            raise UsageError(
                f"NVRTC {toolchain.nvrtc} knows no architecture {name!r}. It knows {known}, from sm_90 on with an `a` "
                "for what that GPU alone can do; compute_80 and so on is PTX."
            )
    return tuple(dict.fromkeys(names))


def _of_device(capability: str) -> str:
    number = capability.replace(".", "")
    return f"sm_{number}a" if int(number) >= 90 else f"sm_{number}"


def _capabilities(ctx: JobContext) -> list[str]:
    program = shutil.which("nvidia-smi", path=ctx.environment.get("PATH", os.defpath))
    if program is None:
        return []
    if program in _found:
        return _found[program]
    run = ctx.run([program, "--query-gpu=compute_cap", "--format=csv,noheader"], timeout_s=20)
    if run.returncode != 0:
        return []
    _found[program] = re.findall(r"^\d+\.\d+$", run.stdout, re.MULTILINE)
    return _found[program]
