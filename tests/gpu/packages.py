"""Packages for the GPU at hand, made of given candidates as `export_package` makes them; scripts to run with them."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.export.baseline import device_baseline
from kforge_mcp.export.building import TorchPaths, stage
from kforge_mcp.export.contents import operators
from kforge_mcp.export.kernels import Kernel, assemble
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import VariantVerdict
from tests.export.conftest import Scripts, run

FACTS = """
import json, torch
from torch.utils import cpp_extension
major, minor = torch.cuda.get_device_capability()
arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
properties = torch.cuda.get_device_properties(0)
print(json.dumps([cpp_extension.include_paths(), cpp_extension.library_paths(), arch,
                  properties.multi_processor_count, properties.name]))
"""


@dataclass(frozen=True)
class Gpu:
    """The device and the model interpreter's torch."""

    scripts: Scripts
    torch: TorchPaths
    arch: str
    sm_count: int
    name: str
    python: str

    def run(self, script: str, *paths: Path | str) -> str:
        """Run a script in a process of its own with `paths` importable."""
        return self.scripts.run(script, list(map(str, paths)))


def missing() -> str:
    """Why there is no GPU to run on; empty if there is one. Makes no context."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        return str(error)
    count = ctypes.c_int()
    failed = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    return "" if not failed and count.value else "the driver finds no device"


def open_gpu(folder: Path) -> Gpu:
    """A model interpreter that has imported torch and forks for every script."""
    python = os.environ.get("KFORGE_PYTHON", sys.executable)
    scripts = Scripts(python, folder, environment={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}, strict=False)
    include, library, arch, sm_count, name = json.loads(scripts.run(FACTS, []))
    return Gpu(scripts, TorchPaths(include, library), arch, sm_count, name, python)


def kernel(ctx: JobContext, gpu: Gpu, card: OperatorCard, source: str, *, sha256: str = "", arch: str = "") -> Kernel:
    """A candidate as a kernel to be packaged, as if every variant had been shown to be faster."""
    plan = parse_plan(source, card, "cuda")
    assert isinstance(plan, Plan), plan.message
    config = configurations(plan)[0]
    compiled = compile_candidate(ctx, plan, card, [config], architectures=[arch or gpu.arch])
    assert isinstance(compiled, Compiled), compiled.message
    shown = [VariantVerdict(variant_id=variant.variant_id, verdict="faster", speedup=2.0) for variant in card.variants]
    made = assemble(
        card, plan, config, compiled.binaries,
        candidate_id="cand_gpu", holdout=shown[0], verdicts=shown, sm_count=gpu.sm_count,
    )  # fmt: skip
    assert isinstance(made, Kernel), made
    return replace(made, source_sha256=sha256)


def package(gpu: Gpu, folder: Path, name: str, kernels: Sequence[Kernel], *, nvrtc: str = "12.0") -> list[str]:
    """Stage a package into a new folder; the answer is its operators' names."""
    folder.mkdir(parents=True)
    stage(
        folder, name, list(kernels),
        baseline=device_baseline(nvrtc), compiler=["g++"], torch=gpu.torch, run=run, target="cuda",
    )  # fmt: skip
    return [operator.name for operator in operators(list(kernels))]
