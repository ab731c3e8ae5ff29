"""From a candidate's source to jobs for the launcher, and random inputs for them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kforge_mcp.candidate.bound import BoundProgram
from kforge_mcp.candidate.plan import Config, Plan, configurations, parse_plan
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.compile.compiler import Compiled, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.tensor import TensorSpec
from kforge_mcp.records.variant import Variant
from tests.seeds.arrays import TOLERANCE, from_bits, to_bits

ARCHITECTURE = "sm_90a"
SM_COUNT = 132


@dataclass(frozen=True)
class Prepared:
    """One variant of a compiled candidate; `arrays` are the bits of its inputs."""

    variant: Variant
    arrays: list[np.ndarray]
    job: dict[str, Any]


def prepared(
    ctx: JobContext, folder: Path, source: str, card: OperatorCard, *, config: Config | None = None, arch: str = "",
    seed: int = 1,
) -> Iterator[Prepared]:  # fmt: skip
    """Every claimed variant of a candidate under one configuration of its tunables, ready to run."""
    plan = parse_plan(source, card, "cuda")
    assert isinstance(plan, Plan), plan.message
    config = configurations(plan)[0] if config is None else config
    outcome = compile_candidate(ctx, plan, card, [config], architectures=[arch or ARCHITECTURE])
    assert isinstance(outcome, Compiled), f"{outcome.message}\n{outcome.log}"
    for variant in card.variants:
        binary = next((one for one in outcome.binaries if variant.variant_id in one.variants), None)
        if binary is None:
            continue
        bound = bind_steps(plan, variant, config, sm_count=SM_COUNT)
        assert isinstance(bound, BoundProgram), bound.message
        arrays = random_bits(variant, seed)
        place = folder / f"{variant.variant_id}-{len(list(folder.iterdir()))}"
        place.mkdir()
        tensors = []
        for number, (spec, array) in enumerate(zip(variant.tensors, arrays, strict=True)):
            (place / f"in{number}").write_bytes(array.tobytes())
            tensors.append({**spec.model_dump(mode="json"), "file": str(place / f"in{number}")})
        mutated = variant.argument(card.mutates) if plan.inplace else None
        yield Prepared(
            variant,
            arrays,
            {
                "cubin": binary.path,
                "kernels": {kernel.kernel: kernel.symbol for kernel in binary.kernels},
                "bound": bound.as_json(),
                "tensors": tensors,
                "outputs": [spec.model_dump(mode="json") for spec in variant.outputs],
                "overwritten": [mutated.tensors[0]] if mutated else [],
                "folder": str(place),
            },
        )


def random_bits(variant: Variant, seed: int) -> list[np.ndarray]:
    """Ordinary values for each tensor, gaps included; variances are positive, integers are 0 to 39."""
    random = np.random.default_rng(seed)
    found = [_bits(random, spec) for spec in variant.tensors]
    for argument in variant.arguments:
        if argument.name == "running_var":
            index, dtype = argument.tensors[0], variant.tensors[argument.tensors[0]].dtype
            found[index] = to_bits(np.abs(from_bits(found[index], dtype)) + 0.1, dtype)
    return found


def _bits(random: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    count = spec.extent_bytes // spec.itemsize
    if spec.dtype in TOLERANCE:
        return to_bits(random.standard_normal(count) + 0.25, spec.dtype)
    if spec.dtype == "bool":
        return random.integers(0, 2, count, dtype=np.uint8)
    if spec.dtype == "complex64":
        return (random.standard_normal(count) + 1j * random.standard_normal(count)).astype(np.complex64)
    kinds = {"int64": np.int64, "int32": np.int32, "int16": np.int16}
    return random.integers(0, 40, count).astype(kinds.get(spec.dtype, np.uint8))


def bits_of(path: str, spec: TensorSpec) -> np.ndarray:
    """An output's bits as the launcher saved them."""
    kinds = {
        "fp32": np.float32, "fp64": np.float64, "fp16": np.float16, "bf16": np.uint16, "int64": np.int64,
        "int32": np.int32, "complex64": np.complex64, "bool": np.bool_,
    }  # fmt: skip
    return np.frombuffer(Path(path).read_bytes(), dtype=kinds.get(spec.dtype, np.uint8))
