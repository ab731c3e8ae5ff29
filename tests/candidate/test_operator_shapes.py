"""The shape rules of callable operators agree with torch's meta device."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.candidate.evaluation import TensorValue, dense_strides
from kforge_mcp.candidate.operator_shapes import Unfit
from kforge_mcp.candidate.operators import OPERATORS, results
from kforge_mcp.records.tensor import ITEMSIZE

SIZES = (1, 2, 3, 4, 6)
CASES = 300


def tensor(*shape: int, dtype: str = "fp32") -> TensorValue:
    return TensorValue(dtype, shape, dense_strides(shape), ITEMSIZE[dtype])


def draw(name: str, random_: random.Random) -> list[Any]:
    """Arguments that mostly fit together: in one case of three a size is replaced by another."""

    def size() -> int:
        return random_.choice(SIZES)

    def lead(most: int = 2) -> list[int]:
        return [size() for _ in range(random_.randint(0, most))]

    def some(*shape: int, dtype: str = "fp32") -> TensorValue:
        sizes = list(shape)
        if sizes and random_.random() < 0.15:
            sizes[random_.randrange(len(sizes))] = size()
        if random_.random() < 0.04:
            sizes = sizes[1:]
        return tensor(*sizes, dtype=dtype)

    m, n, k, b, h = size(), size(), size(), size(), size()
    match name:
        case "linear":
            return [some(*lead(), m, k), some(n, k), random_.choice([None, some(n)])][: random_.choice([2, 3])]
        case "matmul":
            batch = lead()
            one = random_.choice([[k], [m, k], [*batch, m, k]])
            other = random_.choice([[k], [k, n], [*[random_.choice([1, one]) for one in batch], k, n]])
            return [some(*one), some(*other)]
        case "bmm":
            return [some(b, m, k), some(b, k, n)]
        case "addmm":
            added = random_.choice([[n], [m, n], [1, n], [1], []])
            return [some(*added), some(m, k), some(k, n), 0.5, 2][: random_.choice([3, 4, 5])]
        case "convolution":
            spatial, groups = random_.randint(1, 3), random_.choice([1, 1, 2])
            inner, outer, transposed = groups * size(), groups * size(), random_.random() < 0.4
            weight = [inner, outer // groups] if transposed else [outer, inner // groups]
            kernel = [random_.randint(1, 3) for _ in range(spatial)]

            def ints(low: int, high: int) -> tuple[int, ...]:
                return tuple(random_.randint(low, high) for _ in range(random_.choice([1, spatial])))

            extra = ints(0, 1) if transposed else (0,) * spatial
            bias = random_.choice([None, some(outer)])
            images = some(b, inner, *[size() + 2 for _ in range(spatial)])
            sizes = [ints(1, 3), ints(0, 2), ints(1, 2)]
            return [images, some(*weight, *kernel), bias, *sizes, transposed, extra, groups]
        case "scaled_dot_product_attention":
            heads = h * random_.choice([1, 2])
            grouped = heads != h
            mask = random_.choice([None, some(m, n), some(b, 1, m, n), some(m, n, dtype="bool")])
            causal = mask is None and random_.random() < 0.5
            query, keys, values = some(b, heads, m, k), some(b, h, n, k), some(b, h, n, k + 1)
            return [query, keys, values, mask, 0.0, causal, random_.choice([None, 0.5]), grouped]
        case "topk":
            return [some(*lead(), m, n), random_.randint(0, n), random_.randint(-3, 2), True, False]
        case "sort":
            return [some(*lead(), m, n), random_.randint(-3, 2), True][: random_.choice([1, 2, 3])]
        case _:
            return [
                some(m, n),
                some(*lead(), dtype=random_.choice(["int64", "int32", "fp32"])),
                random_.choice([-1, 0]),
            ]


def _json(value: Any) -> Any:
    return {"dtype": value.dtype, "shape": value.shape} if isinstance(value, TensorValue) else value


Cases = dict[str, list[tuple[list[Any], Any]]]
LAX = {"linear", "addmm", "convolution", "scaled_dot_product_attention", "sort"}
"""Operators of which the meta device accepts calls that a GPU refuses, such as a dimension out of range."""
NAMES = [name.removeprefix("aten::") for name in OPERATORS]


def _request(name: str, case: list[Any]) -> tuple[str, list[Any], dict[str, Any]]:
    slots = list(zip(OPERATORS[f"aten::{name}"].slots, case, strict=False))
    keywords = {slot.name: value for slot, value in slots if slot.keyword}
    return f"aten::{name}", [_json(value) for slot, value in slots if not slot.keyword], keywords


@pytest.fixture(scope="module")
def cases(model_python: str) -> Cases:
    """Argument lists of every operator with what torch says of them, from one process."""
    drawn = {name: [draw(name, random.Random(f"{name} {seed}")) for seed in range(CASES)] for name in NAMES}
    requests = [_request(name, case) for name, some in drawn.items() for case in some]
    script = Path(__file__).with_name("meta_device.py")
    run = subprocess.run(
        [model_python, str(script)], input=json.dumps(requests), capture_output=True, text=True, check=True
    )
    answers = iter(json.loads(run.stdout))
    return {name: [(case, next(answers)) for case in some] for name, some in drawn.items()}


@pytest.mark.parametrize("name", NAMES)
def test_what_a_shape_rule_accepts_has_the_meta_device_s_result(
    name: str, cases: dict[str, list[tuple[list[Any], Any]]]
) -> None:
    differences, accepted = [], 0
    for case, torch_says in cases[name]:
        try:
            ours: Any = [[dtype, list(shape)] for dtype, shape in results(OPERATORS[f"aten::{name}"], case)[1]]
            accepted += 1
        except Unfit as fault:
            ours = fault.message
        both_refuse = isinstance(ours, str) and isinstance(torch_says, str)
        stricter = isinstance(ours, str) and name in LAX
        if not both_refuse and not stricter and ours != torch_says:
            differences.append((_request(name, case), ours, torch_says))
    assert differences == []
    assert CASES * 0.3 < accepted < CASES


IMAGES = [tensor(1, 2, 5), tensor(2, 2, 3), None]


@pytest.mark.parametrize(
    ("name", "arguments", "parameter", "part"),
    [
        ("linear", [tensor(2, 4, dtype="fp16"), tensor(3, 4)], "weight", "one type is needed"),
        ("matmul", [tensor(2, 2, dtype="int64"), tensor(2, 2, dtype="int64")], "input", "on a GPU"),
        ("sort", [tensor(2, dtype="bool")], "input", "cannot be ordered"),
        ("topk", [tensor(), 1], "input", "at least one dimension"),
        ("convolution", [*IMAGES, (1,), (0,), (1,), False, (1,), 1], "output_padding", "transposed convolutions"),
        ("convolution", [*IMAGES, (0,), (0,), (1,), False, (0,), 1], "stride", "at least 1"),
        ("convolution", [*IMAGES, (1, 1), (0,), (1,), False, (0,), 1], "stride", "1 integers are needed, not 2"),
        ("convolution", [*IMAGES, (1,), (0,), (1,), False, (0,), 0], "groups", "0 groups"),
        ("scaled_dot_product_attention", [tensor(1, 2, 3, 4)] * 3 + [None, 0.1], "dropout_p", "random numbers"),
        ("scaled_dot_product_attention", [tensor(2, 3, 4)] * 3 + [tensor(3, 3), 0.0, True], "is_causal", "exclude"),
        ("embedding", [tensor(4, 4), tensor(2, dtype="int16")], "indices", "int64 or int32"),
    ],
)  # fmt: skip
def test_what_a_gpu_would_refuse_is_refused_by_parameter(
    name: str, arguments: list[Any], parameter: str, part: str
) -> None:
    with pytest.raises(Unfit) as caught:
        results(OPERATORS[f"aten::{name}"], arguments)
    assert caught.value.parameter == parameter
    assert part in caught.value.message
