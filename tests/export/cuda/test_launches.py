"""What the generated C++ launches is what the plan says, for every kind of step, on devices of different sizes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kforge_mcp.candidate.bound import BoundLaunch
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.export.device_body import DeviceBody
from tests.candidate.cards import absent, candidate_text, constant, dense, make_variant, strided, tensor
from tests.export.cuda.conftest import Item, Session, as_json, item

GRIDS = candidate_text(
    """
[[step]]
kernel = "first<BLOCK>"
grid = ["min(sm_count * 2, x.shape[0] * 40)", "x.shape[1]", "2"]
block = ["BLOCK", "2"]
shared_bytes = "60 * 1024"
args = [
    "x", "bias", "scale", "flag", "0 - x.numel", "sm_count // 2", "partial", "out",
    "mode == 'near' and sm_count > 100",
]
[[step]]
kernel = "second"
grid = ["ceil_div(partial.numel, 32)"]
block = ["32"]
args = ["partial", "partial.shape[0]", "out"]
repeat = "3"
[[step]]
kernel = "third"
grid = ["x.shape[step] * 8"]
block = ["32"]
cluster = ["8"]
args = ["x", "step * step + sizes[step]", "out"]
repeat = "2"
[[step]]
kernel = "fourth"
grid = ["sm_count"]
block = ["128"]
cooperative = true
args = ["marks", "scale is not None and sm_count > 0", "nothing is None or nothing > sm_count", "out"]
[[step]]
kernel = "second"
grid = ["x.shape[0] - 3"]
block = ["32"]
args = ["partial", "partial.shape[0]", "out"]
[tunables]
BLOCK = [64]
[workspace]
partial = {dtype = "fp64", shape = ["sm_count", "x.shape[1]"], init = "none"}
marks = {dtype = "int32", shape = ["4"], init = "zero"}
""",
    """
template <int B> __global__ void first(const x_t* x, const float* bias, float scale, bool flag, long long n,
                                       long long s, double* partial, out_t* out, bool b) {}
__global__ void second(double* partial, long long n, out_t* out) {}
__global__ void third(const x_t* x, long long n, out_t* out) {}
__global__ void fourth(int* marks, bool a, bool b, out_t* out) {}
""",
)

MAPS = candidate_text(
    """
[[step]]
kernel = "tiles"
grid = ["1"]
block = ["32"]
args = ["tiles_in", "tiles_out", "x.numel"]
[tensor_maps]
tiles_in = {tensor = "x", box = ["8", "16"], swizzle = "64B", l2_promotion = "128B"}
tiles_out = {tensor = "out", box = ["4", "32"], out_of_bounds = "nan"}
""",
    "__global__ void tiles(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, long long n)"
    " {}",
)

FOLLOWING = candidate_text(
    """
[[step]]
kernel = "tiles"
grid = ["1"]
block = ["32"]
args = ["tiles_of", "x", "out"]
[workspace]
partial = {dtype = "fp32", shape = ["sm_count", "64"]}
[tensor_maps]
tiles_of = {tensor = "partial", box = ["4", "32"]}
""",
    "__global__ void tiles(const __grid_constant__ CUtensorMap a, const x_t* x, out_t* out) {}",
)


def launches() -> Item:
    variant = make_variant(
        "v0",
        [strided((3, 5), (8, 1))],
        [
            tensor("x", 0),
            absent("bias"),
            constant("scale", 0.1),
            constant("flag", True),
            constant("mode", "near"),
            constant("nothing", None),
            constant("sizes", [-7, 2**40]),
        ],
        [dense(3, 5)],
    )
    return item("Grids", GRIDS, variant)


def maps() -> Item:
    return item("Maps", MAPS, make_variant("v0", [dense(64, 128, dtype="bf16")], [tensor("x", 0)], [dense(64, 128)]))


def following() -> Item:
    return item("Following", FOLLOWING, make_variant("v0", [dense(8)], [tensor("x", 0)], [dense(8)]))


@pytest.fixture(scope="module")
def session(built: Callable[[list[Item]], Session]) -> Session:
    return built([launches(), maps(), following()])


@pytest.mark.parametrize("sm_count", [132, 78, 2])
def test_launches_are_those_of_the_plan_on_any_device(session: Session, sm_count: int) -> None:
    one = launches()
    program = bind_steps(one.plan, one.card.variants[0], one.config, sm_count=sm_count)
    expected = [step for step in program.steps if isinstance(step, BoundLaunch)]  # pyright: ignore
    assert len(expected) == 7
    session(
        f"""
expected = {as_json([step.model_dump() for step in expected])}
fake.fake_attribute(16, {sm_count})
assert load(0, 0, {one.symbols}) == ""
x = torch.randn(3, 8)[:, :5]
out = torch.ops.gpukernels.grids(x, None, 0)
assert out.shape == (3, 5) and out.stride() == (5, 1)
assert len(launches) == len(expected)
scratch = {{}}
for (name, config, values), wanted in zip(launches, expected):
    assert name == "_" + wanted["kernel_name_expression"].partition("<")[0]
    sizes = [*wanted["grid"], *wanted["block"], *wanted["cluster"], wanted["shared_bytes"], int(wanted["cooperative"])]
    assert config == sizes, (name, config, sizes)
    for value, argument in zip(values, wanted["arguments"]):
        if argument["kind"] == "scalar":
            exact = struct.unpack("f", struct.pack("f", argument["value"]))[0]
            assert value == (exact if argument["scalar_type"] == "float" else argument["value"]), (name, argument)
        elif argument["kind"] == "workspace":
            assert scratch.setdefault(argument["index"], value) == value
        else:
            known = {{"tensor": x.data_ptr(), "output": out.data_ptr(), "null": 0}}
            assert value == known[argument["kind"]], (name, argument)
assert len(set(scratch.values())) == 2
assert fake.fake_opted_in() == 60 * 1024
assert not fake.fake_current()
"""
    )


def test_a_device_that_cannot_hold_a_launch_is_told_when_the_kernel_is_loaded(session: Session) -> None:
    symbols = launches().symbols
    session(
        f"""
fake.fake_attribute(97, 48 * 1024)
assert "_first needs 61456 bytes of shared memory a block; the device has 49152" in load(0, 0, {symbols})
fake.fake_attribute(97, 232448)
fake.fake_attribute(75, 8)
assert "_third needs clusters of blocks, which the device does not have" in load(0, 0, {symbols})
fake.fake_attribute(75, 9)
assert load(0, 0, {symbols}) == ""
assert load(0, 0, {symbols}, device=64) == "there is no such device"
assert "does not know" in load(9, 0, {symbols})
"""
    )


def test_tensor_maps_are_encoded_for_the_memory_of_each_call(session: Session) -> None:
    one = maps()
    session(
        f"""
expected = [{{"arguments": [{{"kind": "tensor_map"}}, {{"kind": "tensor_map"}},
                            {{"kind": "scalar", "scalar_type": "int64"}}]}}] * 2
assert load(1, 0, {one.symbols}) == ""
for turn in range(2):
    x = torch.randn(64, 128).bfloat16()
    out = torch.ops.gpukernels.maps(x, 0)
    first, second, count = launches[turn][2]
    assert count == 64 * 128
    assert first == [x.data_ptr(), 9, 2, 128, 64, 0, 0, 1601, 801, 0, 0, 256, 0, 0, 0, 220]
    assert second == [out.data_ptr(), 7, 2, 128, 64, 0, 0, 3201, 401, 0, 0, 512, 0, 0, 0, 1]
"""
    )


def test_a_tensor_map_that_follows_the_device_runs_only_on_devices_like_the_judged_one(session: Session) -> None:
    body = following().kernel.variants[0].body
    assert isinstance(body, DeviceBody)
    assert body.sm_count == 132
    session(
        f"""
fake.fake_attribute(16, 114)
assert load(2, 0, {following().symbols}) == "it was made for 132 multiprocessors, this device has 114"
fake.fake_attribute(16, 132)
assert load(2, 0, {following().symbols}) == ""
"""
    )


def test_guards_refuse_whatever_the_kernel_was_not_judged_on(session: Session) -> None:
    session(
        f"""
def refused(what, *arguments):
    try:
        torch.ops.gpukernels.grids(*arguments)
    except RuntimeError as error:
        assert what in str(error), str(error)
    else:
        raise AssertionError(what)
    assert not launches

x = torch.randn(3, 8)[:, :5]
refused("its kernel is not loaded on this device", x, None, 0)
assert load(0, 0, {launches().symbols}) == ""
refused("has another dtype", x.double(), None, 0)
refused("has another rank", x[None], None, 0)
refused("has shape [2, 5], not [3, 5]", x[:2], None, 0)
refused("has strides [5, 1], not [8, 1]", x.contiguous(), None, 0)
refused("must be absent", x, torch.ones(5), 0)
refused("there is no such variant", x, None, 1)
refused("there is no such variant", x, None, -1)
fake.fake_refuse(719)
refused("launching _first: CUDA_ERROR_OF_THE_TEST", x, None, 0)
fake.fake_refuse(0)
odd = torch.randn(25)[1:].as_strided((3, 5), (8, 1))
assert odd.data_ptr() % 64 == 4
torch.ops.gpukernels.grids(odd, None, 0)
assert library.kforge_cloned(0) == 1 and len(launches) == 7
"""
    )
