"""The compiled part: checked against the manifest, loaded once, its operators made known to torch.

Kernels are loaded per device: for the CPU with the library, for a GPU when a model on it is attached.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from ._facts import DTYPES

FOLDER = Path(__file__).resolve().parent
FORMAT = "kforge-package/1"


class UnsupportedError(RuntimeError):
    """This machine or torch cannot run the package's kernels; the message says what is missing."""


@functools.lru_cache(maxsize=1)
def manifest() -> dict[str, Any]:
    """What the package holds, as JSON."""
    content = json.loads((FOLDER / "manifest.json").read_text())
    if content.get("format") != FORMAT:
        raise UnsupportedError(f"manifest.json is of format {content.get('format')!r}, this code reads {FORMAT!r}")
    return content


def namespace() -> str:
    """The package's name, which is its namespace in `torch.ops`."""
    return str(manifest()["name"])


@functools.lru_cache(maxsize=1)
def load() -> ctypes.CDLL:
    """Load the operators and register them; later calls return the same library.

    Raises `UnsupportedError` before anything is loaded that could not run here.
    """
    content = manifest()
    check_machine(content)
    for name, digest in content["libraries"].items():
        found = hashlib.sha256((FOLDER / name).read_bytes()).hexdigest()
        if found != digest:
            raise UnsupportedError(f"{name} is not the file that was packaged: its sha256 is {found}, not {digest}")
    path = str(FOLDER / content["operators"])
    torch.ops.load_library(path)
    library = ctypes.CDLL(path)
    library.kforge_load.restype = ctypes.c_char_p
    library.kforge_cloned.restype = ctypes.c_int64
    for entry in content["cards"]:
        _register_fake(content["name"], entry)
    if content["target"] == "cpu":
        failure = load_kernels(library, 0, lambda kernels: kernels[0])
        if failure:
            raise UnsupportedError(failure)
    return library


def load_kernels(library: ctypes.CDLL, device: int, choose: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> str:
    """Load every variant's kernels on a device; `choose` picks the file. Returns why it cannot be, or nothing."""
    for card, entry in enumerate(manifest()["cards"]):
        for variant, captured in enumerate(entry["variants"]):
            kernel = choose(captured["kernels"])
            path, symbols = str(FOLDER / kernel["file"]), "\n".join(kernel["symbols"])
            failure = library.kforge_load(card, variant, device, path.encode(), symbols.encode())
            if failure:
                return f"{kernel['file']} cannot be loaded: {failure.decode(errors='replace')}"
    return ""


def check_machine(content: dict[str, Any]) -> None:
    """Raises `UnsupportedError` where torch is too old or the processor lacks instructions the kernels use."""
    release = tuple(int(part) for part in str(torch.__version__).split("+")[0].split(".")[:2])
    least = tuple(int(part) for part in content["torch_minimum"].split("."))
    if release < least:
        raise UnsupportedError(f"torch {torch.__version__} is too old: {content['torch_minimum']} or newer is needed")
    system, machine = platform.system(), platform.machine()
    if (system, machine) != ("Linux", content["machine"]):
        raise UnsupportedError(
            f"the kernels were built for Linux on {content['machine']}, this is {system} on {machine}"
        )
    missing = sorted(set(content["cpu_features"]) - processor_features())
    if missing:
        raise UnsupportedError(
            f"the kernels were built for {content['baseline']}, and this processor lacks {', '.join(missing)}: "
            "export the package again on this machine"
        )


def processor_features() -> set[str]:
    """The instruction sets of this processor, as Linux names them."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def _register_fake(name: str, card: dict[str, Any]) -> None:
    def fake(*arguments: Any) -> Any:
        outputs = card["variants"][arguments[-1]]["outputs"]
        like = next(item for item in arguments if item is not None)
        results = [
            like.new_empty_strided(spec["shape"], spec["stride"], dtype=DTYPES[spec["dtype"]]) for spec in outputs
        ]
        return results[0] if len(results) == 1 else tuple(results)

    torch.library.register_fake(f"{name}::{card['operator']}", fake)
