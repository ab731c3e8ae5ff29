"""Says what an environment has for compiling CUDA: run as a program by its Python, prints JSON. Standard library only.

Each part is looked for in the wheels of NVIDIA first, then in a CUDA toolkit (`CUDA_HOME`, `/usr/local/cuda`).
"""

from __future__ import annotations

import glob
import importlib.metadata
import json
import os
import sys

PARTS = {
    "runtime": ("nvidia-cuda-runtime", "cuda_fp16.h"),
    "crt": ("nvidia-cuda-crt", "crt/host_defines.h"),
    "cccl": ("nvidia-cuda-cccl", "cub/version.cuh"),
    "nvrtc": ("nvidia-cuda-nvrtc", "libnvrtc.so*"),
    "nvdisasm": ("nvidia-cuda-nvdisasm", "nvdisasm"),
}
"""The wheel of a part, and a file that tells where it is."""
_CUDA_12 = {"crt": "nvidia-cuda-nvcc"}
"""Wheels that had another name for CUDA 12."""
_TOOLKIT = ("include", "include/cccl", "targets/x86_64-linux/include", "lib64", "bin")


def wheel(part: str, major: int) -> str:
    """The name of the wheel that holds a part for a CUDA version."""
    name = PARTS[part][0]
    if major >= 13 or part == "nvdisasm":
        return name
    return _CUDA_12.get(part, name) + "-cu12"


def place(part: str, major: int) -> tuple[str, str]:
    """The folder of a part and the version it comes in; empty texts if it is nowhere."""
    pattern = PARTS[part][1]
    for name in dict.fromkeys((wheel(part, major), PARTS[part][0])):
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        stem = pattern.rstrip("*")
        for file in distribution.files or ():
            if f"/{stem}" in f"/{file}" and (pattern.endswith("*") or str(file).endswith(f"/{stem}")):
                path = str(distribution.locate_file(file))
                if os.path.exists(path):
                    return os.path.realpath(path[: path.rindex(f"/{stem}")]), distribution.version
    for home in (os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"):
        for folder in _TOOLKIT if home else ():
            if glob.glob(f"{home}/{folder}/{pattern}"):
                return os.path.realpath(f"{home}/{folder}"), f"toolkit {home}"
    return "", ""


def main() -> None:
    """Print what there is, or why NVRTC cannot be used."""
    facts: dict[str, object] = {"python": sys.executable, "nvrtc": "", "error": "", "parts": {}}
    major = 13
    try:
        from cuda.bindings import nvrtc  # pyright: ignore[reportAttributeAccessIssue]

        _, major, minor = nvrtc.nvrtcVersion()
        facts["nvrtc"] = f"{major}.{minor}"
        _, facts["architectures"] = nvrtc.nvrtcGetSupportedArchs()
    except Exception as error:  # noqa: BLE001 - a missing library surfaces as whatever the loader raises
        facts["error"] = f"{type(error).__name__}: {error}".splitlines()[0]
        try:
            major = int(importlib.metadata.version("cuda-bindings").split(".")[0])
        except importlib.metadata.PackageNotFoundError:
            pass
    facts["major"] = major
    facts["parts"] = {part: place(part, major) for part in PARTS}
    sys.stdout.write(json.dumps(facts))


if __name__ == "__main__":
    main()
