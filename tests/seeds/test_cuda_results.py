"""CUDA seeds against a float64 reference, their threads run in lockstep on the CPU by `lockstep.h`."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import numpy as np
import pytest

from kforge_mcp.candidate.bound import BoundArgument, BoundLaunch, BoundProgram
from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.candidate.signature import Group, groups
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.compile.cuda.source import cuda_program
from kforge_mcp.compile.source import CONTRACT_FILE
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.variant import Variant
from kforge_mcp.seeds.catalogue import seeds_for
from tests.seeds.arrays import TOLERANCE, as_shaped, from_bits, to_bits
from tests.seeds.cuda_cards import CARDS
from tests.seeds.references import reference

_SCALARS = {"int64": np.int64, "float": np.float32, "double": np.float64, "bool": np.bool_}


def built(plan: Plan, card: OperatorCard, group: Group, config: dict[str, int | float | bool | str], folder: Path):
    """The candidate as a library of functions `run_<step>(addresses of arguments, sizes)`."""
    text = cuda_program(plan, card, group, config).text.split(f'#line 1 "{CONTRACT_FILE}"')[0]
    for launch in group.launches:
        passed = ", ".join(f"*({one.type}*)arguments[{n}]" for n, one in enumerate(launch.parameters))
        body = f"lockstep::launch(sizes, [=] {{ {launch.kernel}({passed}); }});"
        text += f'extern "C" void run_{launch.step}(void** arguments, unsigned* sizes) {{ {body} }}\n'
    source, library = folder / "seed.cpp", folder / "seed.so"
    source.write_text(f'#include "lockstep.h"\n{text}')
    flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{Path(__file__).parent}"]
    subprocess.run(["g++", *flags, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


def run(library: ctypes.CDLL, program: BoundProgram, tensors: list[np.ndarray], outputs: list[np.ndarray]) -> None:
    """Everything the program does; calls are of `aten::linear`."""
    spaces = [np.full(space.size_bytes, 0xFF, np.uint8) for space in program.workspaces]
    middles = [np.zeros(middle.size_bytes // 2, np.uint16) for middle in program.intermediates]
    memory = {"tensor": tensors, "output": outputs, "workspace": spaces, "intermediate": middles}
    shapes = {middle.name: middle.shape for middle in program.intermediates}

    def value(argument: BoundArgument) -> np.ndarray:
        if argument.kind == "scalar":
            return np.array([_SCALARS[argument.scalar_type](argument.value)])  # pyright: ignore[reportArgumentType]
        return np.array([memory[argument.kind][argument.index].ctypes.data], np.uint64)

    for step in program.steps:
        if isinstance(step, BoundLaunch):
            values = [value(argument) for argument in step.arguments]
            addresses = (ctypes.c_void_p * len(values))(*(one.ctypes.data for one in values))
            getattr(library, f"run_{step.step}")(addresses, (ctypes.c_uint * 6)(*step.grid, *step.block))
            continue
        x, weight = (from_bits(memory[one.kind][one.index], "bf16") for one in step.arguments[:2])
        target = step.outputs[0]
        columns = shapes[target.name][-1] if target.name in shapes else weight.size // shapes["gated"][-1]
        width = weight.size // columns
        product = x.reshape(-1, width) @ weight.reshape(columns, width).T
        memory[target.kind][target.index][:] = to_bits(product, "bf16").reshape(-1)


def filled(variant: Variant) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    found = []
    for spec in variant.tensors:
        count = spec.extent_bytes // spec.itemsize
        floating = spec.dtype in TOLERANCE
        found.append(
            to_bits(random.standard_normal(count) + 0.25, spec.dtype) if floating else random.integers(0, 40, count)
        )
    for argument in variant.arguments:
        if argument.name == "running_var":
            index, dtype = argument.tensors[0], variant.tensors[argument.tensors[0]].dtype
            found[index] = to_bits(np.abs(from_bits(found[index], dtype)) + 0.1, dtype)
    return found


@pytest.mark.parametrize("family", CARDS)
def test_a_cuda_seed_gives_what_the_operator_gives(family: str, tmp_path: Path) -> None:
    card = CARDS[family][0]
    for seed in seeds_for(card, "cuda"):
        plan = parse_plan(seed.source, card, "cuda")
        assert isinstance(plan, Plan)
        config = configurations(plan)[0]
        for number, group in enumerate(groups(plan, card, config)):
            folder = tmp_path / f"{seed.name}{number}"
            folder.mkdir()
            library = built(plan, card, group, config, folder)
            for variant in group.variants:
                check(family, card, plan, variant, config, library)


def check(
    family: str, card: OperatorCard, plan: Plan, variant: Variant, config: dict[str, int | float | bool | str],
    library: ctypes.CDLL,
) -> None:  # fmt: skip
    tensors = filled(variant)
    inputs: dict[str, np.ndarray] = {}
    for argument in variant.arguments:
        for index in argument.tensors:
            spec = variant.tensors[index]
            floating = spec.dtype in TOLERANCE
            shaped = as_shaped(tensors[index], spec)
            inputs[argument.name] = from_bits(shaped, spec.dtype) if floating else shaped.astype(np.float64)
    expected = reference(family, card, variant, inputs)
    outputs = [to_bits(np.full(spec.extent_bytes // spec.itemsize, np.nan), spec.dtype) for spec in variant.outputs]
    program = bind_steps(plan, variant, config)
    assert isinstance(program, BoundProgram)
    run(library, program, tensors, outputs)
    results = tensors[:1] if plan.inplace else outputs
    for flat, spec, wanted in zip(results, variant.outputs, expected, strict=True):
        found = from_bits(as_shaped(flat, spec), spec.dtype)
        error = np.sqrt(np.mean((found - wanted) ** 2)) / np.sqrt(np.mean(wanted**2))
        assert error <= 1.5 * TOLERANCE[spec.dtype], (variant.variant_id, spec.dtype, error)
