"""Small hand-made cards of plain functions, with the project they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kforge_mcp.records.base import now
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, DeviceInfo, Interpreter, Project
from kforge_mcp.records.tensor import InputRecipe, TensorSpec
from kforge_mcp.records.variant import Argument, Variant

SOURCES = {
    "rms_norm": """
def rms_norm(x, weight, eps):
    wide = x.to(torch.float32)
    wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)
""",
    "softmax": """
def softmax(x):
    return torch.softmax(x, -1)
""",
    "layer_norm": """
def layer_norm(x, weight, bias, eps):
    return torch.nn.functional.layer_norm(x, x.shape[-1:], weight, bias, eps)
""",
    "relu": """
def relu(x):
    return torch.relu(x)
""",
    "argmax": """
def argmax(x):
    return x.argmax(-1)
""",
    "add_in_place": """
def add_in_place(x, y):
    return x.add_(y)
""",
    "threaded": """
import threading
import time

threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()

def threaded(x):
    return torch.relu(x)
""",
    "pick_rows": """
def pick_rows(x, rows):
    return x[rows] * 2
""",
    "nearly_one": """
def nearly_one(x):
    return 1 + 1e-7 * torch.tanh(x)
""",
}
NORMAL = InputRecipe(kind="quantiles", quantiles=[-3.0, -1.2, -0.7, -0.3, 0.0, 0.3, 0.7, 1.2, 3.0])


@dataclass(frozen=True)
class Tensor:
    """One argument: a contiguous tensor."""

    name: str
    shape: tuple[int, ...]
    role: Any = "input"
    dtype: Any = "fp32"
    recipe: InputRecipe = NORMAL


@dataclass(frozen=True)
class Make:
    """What a card is made of: `constants` are passed by position after the tensors."""

    function: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[tuple[int, ...], ...]
    constants: dict[str, float | int | bool] = field(default_factory=dict)
    out_dtype: Any = "fp32"


def spec(shape: tuple[int, ...], dtype: Any, storage_id: int, recipe: InputRecipe | None = None) -> TensorSpec:
    """A contiguous tensor."""
    stride: list[int] = []
    step = 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    return TensorSpec(dtype=dtype, shape=list(shape), stride=stride, storage_id=storage_id, recipe=recipe)


def variant(make: Make, variant_id: str = "v1", calls: int = 1) -> Variant:
    """The variant of one call."""
    tensors = [spec(t.shape, t.dtype, index, t.recipe) for index, t in enumerate(make.tensors)]
    arguments = [
        Argument(name=t.name, kind="tensor", role=t.role, tensors=[index]) for index, t in enumerate(make.tensors)
    ]
    arguments += [
        Argument(name=name, kind="constant", role="constant", value=value) for name, value in make.constants.items()
    ]
    trees = [{"t": index} for index in range(len(tensors))] + [{"v": value} for value in make.constants.values()]
    return Variant(
        variant_id=variant_id,
        tensors=tensors,
        arguments=arguments,
        outputs=[spec(shape, make.out_dtype, 100 + index) for index, shape in enumerate(make.outputs)],
        call={"args": trees, "kwargs": {}, "parameters": {}},
        calls=calls,
        eager_us=50.0,
        speed_of_light_us=0.5,
    )


def card(folder: Path, makes: list[Make]) -> OperatorCard:
    """A function card whose code is written to a file in `folder`."""
    name = makes[0].function
    module = f"user_{name}"
    path = folder / f"{module}.py"
    path.write_text("import torch\n\n" + SOURCES[name])
    reference = {
        "kind": "function",
        "module": module,
        "qualname": name,
        "imports": [{"name": module, "path": str(path)}],
        "sys_path": [],
    }
    variants = [variant(make, f"v{index + 1}") for index, make in enumerate(makes)]
    return OperatorCard(
        card_id=f"card_{name}",
        project_id="proj_test",
        level="function",
        name=name,
        qualified_name=f"{module}:{name}",
        eligible=True,
        calls=len(variants),
        eager_us=50.0,
        share=0.5,
        gain_ceiling=1.5,
        worth_it=True,
        variants=variants,
        reference=reference,
    )


def project(python: str, folder: Path, *, ceilings: Ceilings | None = None) -> Project:
    """A project on the CPU with two threads at most."""
    interpreter = Interpreter(executable=python, found_by="test", python_version="", torch_version="")
    return Project(
        project_id="proj_test",
        name="test",
        entry="test",
        entry_path=str(folder),
        project_dir=str(folder),
        target="cpu",
        interpreter=interpreter,
        device=DeviceInfo(target="cpu", name="test", threads=2, ceilings=ceilings),
        workload_us=1000.0,
        created_at=now(),
    )


RMS_NORM = Make(
    "rms_norm", (Tensor("x", (64, 256)), Tensor("weight", (256,), "parameter")), ((64, 256),), {"eps": 1e-6}
)
SOFTMAX = Make("softmax", (Tensor("x", (32, 300)),), ((32, 300),))
LAYER_NORM = Make(
    "layer_norm",
    (Tensor("x", (64, 256)), Tensor("weight", (256,), "parameter"), Tensor("bias", (256,), "parameter")),
    ((64, 256),),
    {"eps": 1e-5},
)
RELU = Make("relu", (Tensor("x", (64, 100)),), ((64, 100),))
ARGMAX = Make("argmax", (Tensor("x", (64, 100)),), ((64,),), out_dtype="int64")
ADD_IN_PLACE = Make("add_in_place", (Tensor("x", (64, 64)), Tensor("y", (64, 64))), ((64, 64),))
THREADED = Make("threaded", (Tensor("x", (64, 100)),), ((64, 100),))
NEARLY_ONE = Make("nearly_one", (Tensor("x", (64, 64)),), ((64, 64),))
