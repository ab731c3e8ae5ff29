"""Packages for CUDA that run where there is no GPU: their C++ on CPU tensors, over a driver made for tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.candidate.step_binding import kernel_instances
from kforge_mcp.compile.outcome import Binary, KernelResources
from kforge_mcp.export.building import build_operators
from kforge_mcp.export.contents import operators
from kforge_mcp.export.kernels import Kernel, assemble
from kforge_mcp.export.rendering import operators_source
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import VariantVerdict
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Variant
from tests.candidate.cards import make_card

PROLOGUE = """
import ctypes, json, struct, torch
torch.manual_seed(0)
torch.set_grad_enabled(False)
fake = ctypes.CDLL(DRIVER, mode=ctypes.RTLD_GLOBAL)
torch.ops.load_library(LIBRARY)
library = ctypes.CDLL(LIBRARY)
library.kforge_load.restype = ctypes.c_char_p
library.kforge_cloned.restype = ctypes.c_int64
SIZES = {"int64": "q", "int32": "i", "float": "f", "double": "d", "bool": "?"}
launches, expected = [], []

@ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_void_p))
def on_launch(name, config, arguments):
    kinds = expected[len(launches)]["arguments"] if len(launches) < len(expected) else []
    values = []
    for position, argument in enumerate(kinds):
        if argument["kind"] == "scalar":
            form = SIZES[argument["scalar_type"]]
            raw = ctypes.string_at(arguments[position], struct.calcsize(form))
            values.append(struct.unpack(form, raw)[0])
        elif argument["kind"] == "tensor_map":
            values.append(list(struct.unpack("16Q", ctypes.string_at(arguments[position], 128))))
        else:
            values.append(ctypes.c_void_p.from_address(arguments[position]).value or 0)
    launches.append((name.decode(), list(config[:11]), values))
    for kernel in kernels.get(name.decode(), ()):
        kernel(config, [ctypes.c_void_p.from_address(at).value for at in arguments[: len(kinds)]])

kernels = {}
fake.fake_on_launch(on_launch)

def load(card, variant, symbols, device=0):
    failure = library.kforge_load(card, variant, device, LIBRARY.encode(), "\\n".join(symbols).encode())
    return failure.decode() if failure else ""
"""


@dataclass(frozen=True)
class Item:
    """A candidate for one card with one variant, and what it becomes."""

    card: OperatorCard
    plan: Plan
    kernel: Kernel

    @property
    def config(self) -> dict[str, Any]:
        return configurations(self.plan)[0]

    @property
    def symbols(self) -> list[str]:
        return list(self.kernel.variants[0].binaries[0].symbols)


def on_gpu(variant: Variant) -> Variant:
    """The variant with its tensors on the GPU, as capture writes it."""

    def moved(specs: Sequence[TensorSpec]) -> list[TensorSpec]:
        return [spec.model_copy(update={"device": "cuda"}) for spec in specs]

    trees = [{"t": index} for index in range(len(variant.tensors))]
    call = {"args": trees, "kwargs": {}}
    tree = {"t": 0} if len(variant.outputs) == 1 else {"tuple": [{"t": i} for i in range(len(variant.outputs))]}
    moves = {"tensors": moved(variant.tensors), "outputs": moved(variant.outputs)}
    return variant.model_copy(update={**moves, "call": call, "output_tree": tree})


def item(name: str, source: str, *variants: Variant, **options: Any) -> Item:
    """A kernel as `assemble` makes it of a source, with a file of no importance for its binary."""
    card = make_card(*map(on_gpu, variants), name=name)
    plan = parse_plan(source, card, "cuda")
    assert isinstance(plan, Plan), plan.message
    config = configurations(plan)[0]
    resources = [
        KernelResources(kernel=one, symbol=f"_{one.partition('<')[0]}") for one in kernel_instances(plan, config)
    ]
    names = [variant.variant_id for variant in variants]
    binary = Binary(path=__file__, digest="", config=config, variants=names, entry="", arch="sm_90a", kernels=resources)
    shown = [VariantVerdict(variant_id=variant, verdict="faster", speedup=2.0) for variant in names]
    made = assemble(card, plan, config, [binary], candidate_id=name, holdout=shown[0], verdicts=shown, **options)
    assert isinstance(made, Kernel), made
    return Item(card, plan, made)


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The driver made for tests, under the name that packages look for."""
    path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
    source = str(Path(__file__).with_name("driver.cpp"))
    command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", source, "-o", str(path)]
    subprocess.run(command, check=True)
    return path


Session = Callable[[str], str]


@pytest.fixture(scope="session")
def built(toolbox: Any, driver: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[list[Item]], Session]:
    """Builds the operators `gpukernels` of some candidates; the answer runs scripts with them loaded."""

    def build(items: list[Item]) -> Session:
        folder = tmp_path_factory.mktemp("operators")
        (folder / "sources").mkdir()
        packed = operators([one.kernel for one in items])
        text = operators_source("gpukernels", packed, "cuda", device="cpu")
        (folder / "sources" / "_operators.cpp").write_text(text)
        build_operators(folder, ["g++"], toolbox.torch, run)
        names = f"DRIVER = {str(driver)!r}\nLIBRARY = {str(folder / '_operators.so')!r}\n"
        return lambda script: toolbox.python(names + PROLOGUE + script)

    return build


def run(command: Sequence[str], *, cwd: Path, timeout_s: float) -> Any:
    done = subprocess.run(command, cwd=cwd, timeout=timeout_s, capture_output=True, text=True)
    done.timed_out = False  # type: ignore[attr-defined]
    return done


def as_json(value: Any) -> str:
    """A value for a script."""
    return repr(json.loads(json.dumps(value)))
