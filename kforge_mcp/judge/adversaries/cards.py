"""Small hand-made cards of plain functions, with the project they belong to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kforge_mcp.records.base import now
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, DeviceInfo, Interpreter, Project
from kforge_mcp.records.tensor import ITEMSIZE, InputRecipe, TensorSpec
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
    "group_norm": """
def group_norm(x, weight, bias, groups, eps):
    return torch.nn.functional.group_norm(x, groups, weight, bias, eps)
""",
    "gelu_tanh": """
def gelu_tanh(x):
    return torch.nn.functional.gelu(x, approximate="tanh")
""",
    "sigmoid": """
def sigmoid(x):
    return torch.sigmoid(x)
""",
    "tanh": """
def tanh(x):
    return torch.tanh(x)
""",
    "silu_mul": """
def silu_mul(gate, up):
    return torch.nn.functional.silu(gate) * up
""",
    "add": """
def add(x, y):
    return x + y
""",
    "row_sum": """
def row_sum(x):
    return x.sum(-1)
""",
    "row_max": """
def row_max(x):
    found = x.max(-1)
    return found.values, found.indices
""",
    "relu_variance": """
def relu_variance(x):
    return torch.relu(x), x.var(-1)
""",
    "less": """
def less(x, y):
    return x < y
""",
    "count_positive": """
def count_positive(x):
    return (x > 0).sum(-1)
""",
    "quantize": """
def quantize(x, scale):
    return torch.clamp(torch.round(x * scale), -128, 127).to(torch.int8)
""",
    "scan": """
def scan(x):
    return x.cumsum(-1)
""",
    "linear": """
def linear(x, weight):
    return torch.nn.functional.linear(x, weight)
""",
    "gather": """
def gather(table, index):
    return table[index]
""",
    "causal_softmax": """
def causal_softmax(scores):
    size = scores.shape[-1]
    hidden = torch.ones(size, size, dtype=torch.bool, device=scores.device).triu(1)
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), -1)
""",
    "ones": """
def ones(x):
    return x.new_ones(16)
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
    """One argument; contiguous without `stride`. `offset` is that of its storage, in elements."""

    name: str
    shape: tuple[int, ...]
    role: Any = "input"
    dtype: Any = "fp32"
    recipe: InputRecipe = NORMAL
    stride: tuple[int, ...] = ()
    offset: int = 0


@dataclass(frozen=True)
class Make:
    """What a card is made of: `constants` are passed by position after the tensors. `out_dtypes` and `out_strides`
    are those of each output, where they are not all `out_dtype` and contiguous."""

    function: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[tuple[int, ...], ...]
    constants: dict[str, float | int | bool] = field(default_factory=dict)
    out_dtype: Any = "fp32"
    out_dtypes: tuple[Any, ...] = ()
    out_strides: tuple[tuple[int, ...], ...] = ()
    mutates: str = ""


def spec(
    shape: tuple[int, ...],
    dtype: Any,
    storage_id: int,
    recipe: InputRecipe | None = None,
    *,
    stride: tuple[int, ...] = (),
    offset: int = 0,
) -> TensorSpec:
    """A tensor, contiguous without `stride`; its address modulo 64 is that of its offset in an aligned storage."""
    steps: list[int] = list(stride)
    step = 1
    for size in reversed(shape if not stride else ()):
        steps.insert(0, step)
        step *= size
    return TensorSpec(
        dtype=dtype,
        shape=list(shape),
        stride=steps,
        storage_id=storage_id,
        recipe=recipe,
        storage_offset=offset,
        alignment=offset * ITEMSIZE[dtype] % 64,
    )


def variant(make: Make, variant_id: str = "v1", calls: int = 1) -> Variant:
    """The variant of one call."""
    tensors = [
        spec(t.shape, t.dtype, index, t.recipe, stride=t.stride, offset=t.offset)
        for index, t in enumerate(make.tensors)
    ]
    dtypes = make.out_dtypes or (make.out_dtype,) * len(make.outputs)
    strides = make.out_strides or ((),) * len(make.outputs)
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
        outputs=[
            spec(shape, dtype, 100 + index, stride=stride)
            for index, (shape, dtype, stride) in enumerate(zip(make.outputs, dtypes, strides, strict=True))
        ],
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
        mutates=makes[0].mutates,
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
ADD_IN_PLACE = Make("add_in_place", (Tensor("x", (64, 64)), Tensor("y", (64, 64))), ((64, 64),), mutates="x")
THREADED = Make("threaded", (Tensor("x", (64, 100)),), ((64, 100),))
NEARLY_ONE = Make("nearly_one", (Tensor("x", (64, 64)),), ((64, 64),))
