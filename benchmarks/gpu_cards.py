"""Cards and candidates of the GPU benchmark: operators with random inputs on the device, kernels from the seeds."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.base import now
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import DeviceInfo, Interpreter, Project
from kforge_mcp.records.tensor import InputRecipe
from kforge_mcp.records.variant import Variant
from kforge_mcp.seeds.catalogue import seeds_for
from tests.seeds import cuda_cards as families

NORMAL = InputRecipe(kind="quantiles", quantiles=[-3.0, -1.2, -0.7, -0.3, 0.0, 0.3, 0.7, 1.2, 3.0])
GROUP_NORM_SHAPES = [(1, 128, 1024, 1024), (1, 256, 512, 512), (1, 512, 256, 256), (1, 512, 128, 128)]


def torch_card(name: str, *variants: Variant) -> OperatorCard:
    """A card of an operator of `torch.nn.functional`, its calls by keyword in the order of the arguments."""
    made = [_called(variant) for variant in variants]
    reference = {"kind": "torch", "module": "torch.nn.functional", "qualname": name, "imports": [], "sys_path": []}
    card = families.torch_card(name, *made)
    return card.model_copy(update={"reference": reference, "card_id": f"card_{name}_{len(made)}"})


def _called(variant: Variant) -> Variant:
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for position, argument in enumerate(variant.arguments):
        if argument.kind == "tensor":
            tree: dict[str, Any] = {"t": argument.tensors[0]}
        elif argument.kind == "none":
            tree = {"v": None}
        else:
            tree = {"v": argument.value}
        if position == 0:
            args.append(tree)
        else:
            kwargs[argument.name] = tree
    tensors = [
        one.model_copy(update={"recipe": NORMAL, "storage_id": index, "device": "cuda"})
        for index, one in enumerate(variant.tensors)
    ]
    outputs = [
        one.model_copy(update={"storage_id": 100 + index, "device": "cuda"})
        for index, one in enumerate(variant.outputs)
    ]
    call = {"args": args, "kwargs": kwargs, "parameters": {}}
    return variant.model_copy(update={"tensors": tensors, "outputs": outputs, "call": call, "calls": 1})


def softmax_card() -> OperatorCard:
    return torch_card("softmax", families.softmax(1, 8, 512, 512))


def group_norm_card(shapes: list[tuple[int, ...]] = GROUP_NORM_SHAPES) -> OperatorCard:
    variants = [
        families.group_norm(*shape, groups=32, dtype="bf16", variant_id=f"v{index}")
        for index, shape in enumerate(shapes)
    ]
    return torch_card("group_norm", *variants)


def null_cards() -> list[OperatorCard]:
    """Seven operators from 3 us to 4 ms of an H200's time."""
    gelu = families.pointwise(1, 512, 6144, dtype="bf16", approximate="tanh")
    return [
        torch_card("relu", families.pointwise(64, 1024)),
        softmax_card(),
        torch_card("gelu", gelu),
        torch_card("layer_norm", families.layer_norm(2, 4096, 1536, dtype="bf16")).model_copy(
            update={"card_id": "card_layer_norm_large"}
        ),
        torch_card("silu", families.pointwise(32, 256, 56, 56)),
        group_norm_card([(1, 512, 256, 256)]).model_copy(update={"card_id": "card_group_norm_small"}),
        group_norm_card([(1, 128, 1024, 1024)]).model_copy(update={"card_id": "card_group_norm_large"}),
    ]


def candidates(card: OperatorCard) -> Iterator[str]:
    """Distinct sources without end: every seed in every configuration of its tunables, with another constant."""
    sources = [source for seed in seeds_for(card, "cuda") for source in _fixed(seed.source)]
    for number, source in enumerate(itertools.cycle(sources)):
        yield f"{source}\nconstexpr int kforge_candidate = {number};\n"


def _fixed(source: str) -> Iterator[str]:
    """The source under each configuration of its tunables, one value each."""
    lines = re.findall(r"^// ([A-Z_]+) = \[(.*)\]$", source, re.MULTILINE)
    names = [name for name, _ in lines]
    for values in itertools.product(*(text.split(", ") for _, text in lines)):
        fixed = source
        for name, value in zip(names, values, strict=True):
            fixed = re.sub(rf"^// {name} = \[.*\]$", f"// {name} = [{value}]", fixed, flags=re.MULTILINE)
        yield fixed


def device_facts(ctx: JobContext, python: str, folder: Path) -> dict[str, Any]:
    """What the model interpreter says of the first device. Raises SystemExit where there is none."""
    interpreter = Interpreter(executable=python, found_by="bench", python_version="", torch_version="")
    with ctx.runtime(interpreter, log=folder / "facts.log") as process:
        answer = process.call("devices", {}, timeout_s=120.0)
    if not answer["devices"]:
        raise SystemExit(f"no GPU: {answer['error']}")
    return answer["devices"][0]


def project(python: str, folder: Path, facts: dict[str, Any]) -> Project:
    """A project on the device."""
    interpreter = Interpreter(executable=python, found_by="bench", python_version="", torch_version="")
    device = DeviceInfo(
        target="cuda",
        name=facts["name"],
        uuid=facts["uuid"],
        memory_bytes=facts["memory_bytes"],
        arch=facts["architecture"],
        sm_count=facts["sm_count"],
        l2_bytes=facts["l2_bytes"],
    )
    return Project(
        project_id="proj_bench",
        name="bench",
        entry="bench",
        entry_path=str(folder),
        project_dir=str(folder),
        target="cuda",
        interpreter=interpreter,
        device=device,
        workload_us=1000.0,
        created_at=now(),
    )
