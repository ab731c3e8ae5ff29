"""A bound program becomes the right launches, calls and errors; the driver is a stand-in."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from kforge_mcp.runtime.cuda import program as programs
from kforge_mcp.runtime.cuda.driver import ATTRIBUTE_CLUSTER_DIMENSION, ATTRIBUTE_COOPERATIVE
from kforge_mcp.runtime.cuda.program import LaunchError, Program

_spec = importlib.util.spec_from_file_location("fake_driver", Path(__file__).with_name("fake.py"))
assert _spec is not None
assert _spec.loader is not None
fake = importlib.util.module_from_spec(_spec)
sys.modules["fake_driver"] = fake
_spec.loader.exec_module(fake)

STREAM = 4242
CLUSTERED = {"kernels": {"_Zk": {"cluster_x": 4, "cluster_y": 1, "cluster_z": 1}}}
WIDE = {"kernels": {"_Zk": {"max_threads": 640, "registers": 96}}}
NAMES = {"k": "_Zk", "other<2>": "_Zother"}


@pytest.fixture(autouse=True)
def current_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _ordinal: SimpleNamespace(cuda_stream=STREAM))


def made(*steps: dict[str, Any], library: Any = None, **more: Any) -> tuple[Program, Any]:
    library = library or fake.FakeLibrary()
    return Program(fake.driver(library), b"\x7fELF", fake.bound(*steps, **more), NAMES), library


def launches(library: Any) -> list[Any]:
    return [call for call in library.calls if call[0] == "launch"]


def test_every_kind_of_argument_reaches_the_kernel_in_its_own_width() -> None:
    step = fake.launch(
        fake.argument("tensor", 1),
        fake.argument("output"),
        fake.argument("workspace"),
        fake.argument("null"),
        fake.scalar("int64", -(2**40)),
        fake.scalar("int32", -7),
        fake.scalar("float", "0.1"),
        fake.scalar("double", "-inf"),
        fake.scalar("bool", True),
    )
    space = {"name": "w", "dtype": "fp32", "shape": [4], "init": "none"}
    program, library = made(step, workspaces=[space])
    a, b, out, work = (torch.zeros(4) for _ in range(4))
    program.run([a, b], [out], [work])
    ((_, symbol, grid, block, shared, stream, attributes, parameters),) = launches(library)
    assert (symbol, grid, block, shared, stream, attributes) == ("_Zk", (4, 1, 1), (128, 1, 1), 0, STREAM, [])
    pointers = [fake.read(parameters, position, ctypes.c_uint64) for position in range(4)]
    assert pointers == [b.data_ptr(), out.data_ptr(), work.data_ptr(), 0]
    assert fake.read(parameters, 4, ctypes.c_int64) == -(2**40)
    assert fake.read(parameters, 5, ctypes.c_int32) == -7
    assert fake.read(parameters, 6, ctypes.c_float) == ctypes.c_float(0.1).value
    assert fake.read(parameters, 7, ctypes.c_double) == float("-inf")
    assert fake.read(parameters, 8, ctypes.c_bool) is True


def test_a_second_call_has_the_second_calls_pointers() -> None:
    program, library = made(fake.launch(fake.argument("tensor")))
    first, second = torch.zeros(4), torch.zeros(4)
    seen = []
    for tensor in (first, second, first):
        program.run([tensor], [], [])
        seen.append(fake.read(launches(library)[-1][-1], 0, ctypes.c_uint64))
    assert seen == [first.data_ptr(), second.data_ptr(), first.data_ptr()]


def test_an_absent_tensor_among_the_inputs_is_no_fault() -> None:
    program, library = made(fake.launch(fake.argument("tensor", 1)))
    present = torch.zeros(4)
    program.run([None, present], [], [])
    assert fake.read(launches(library)[0][-1], 0, ctypes.c_uint64) == present.data_ptr()


def test_clusters_cooperative_and_shared_memory_are_asked_for() -> None:
    step = fake.launch(cluster=[2, 1, 1], cooperative=True, shared_bytes=100_000, grid=[8, 1, 1])
    program, library = made(step)
    assert program.check() is None
    program.run([], [], [])
    ((*_, shared, _, attributes, _),) = launches(library)
    assert shared == 100_000
    assert [number for number, _ in attributes] == [ATTRIBUTE_CLUSTER_DIMENSION, ATTRIBUTE_COOPERATIVE]
    assert attributes[0][1] == (2, 1, 1)
    assert ("cuFuncSetAttribute", 101, 8, 100_000) in library.calls


def test_shared_memory_within_the_default_is_not_opted_in() -> None:
    _, library = made(fake.launch(shared_bytes=48 * 1024))
    assert not [call for call in library.calls if call[0] == "cuFuncSetAttribute"]


def test_static_shared_memory_counts_against_the_default() -> None:
    library = fake.FakeLibrary(kernels={"_Zk": {"static_shared_bytes": 1024}})
    made(fake.launch(shared_bytes=48 * 1024), library=library)
    assert ("cuFuncSetAttribute", 101, 8, 48 * 1024) in library.calls


def test_large_clusters_are_opted_in() -> None:
    program, library = made(fake.launch(cluster=[16, 1, 1], grid=[16, 1, 1]))
    assert ("cuFuncSetAttribute", 101, 14, 1) in library.calls
    assert program.check() is None


def test_only_workspaces_that_want_it_are_zeroed_and_before_the_first_launch() -> None:
    spaces = [
        {"name": name, "dtype": "fp32", "shape": [4], "init": init} for name, init in (("a", "none"), ("b", "zero"))
    ]
    program, library = made(fake.launch(), workspaces=spaces)
    none, zero = torch.zeros(4), torch.zeros(4)
    program.run([], [], [none, zero])
    ran = [call for call in library.calls if call[0] in ("cuMemsetD8Async", "launch")]
    assert ran[0] == ("cuMemsetD8Async", zero.data_ptr(), 0, 16, STREAM)
    assert [call[0] for call in ran] == ["cuMemsetD8Async", "launch"]


def tensor_map(**more: Any) -> dict[str, Any]:
    return {
        "name": "tiles", "tensor": fake.argument("tensor", name="x"), "data_type": "FLOAT16", "size": [64, 32],
        "stride_bytes": [128], "box": [32, 8], "element_strides": [1, 1], "interleave": "none", "swizzle": "128B",
        "l2_promotion": "256B", "out_of_bounds": "nan", "alignment": 16, **more,
    }  # fmt: skip


def aligned(count: int, offset: int = 0) -> torch.Tensor:
    raw = torch.zeros(count + 64, dtype=torch.uint8)
    start = -raw.data_ptr() % 64 + offset
    return raw[start : start + count]


def test_a_tensor_map_is_encoded_once_for_an_address_and_passed_by_value() -> None:
    program, library = made(
        fake.launch(fake.argument("tensor_map"), fake.argument("tensor")), tensor_maps=[tensor_map()]
    )
    x, y = aligned(4096), aligned(4096)
    for tensor in (x, x, y):
        program.run([tensor], [], [])
    encoded = [call for call in library.calls if call[0] == "encode"]
    assert encoded == [
        ("encode", 6, 2, tensor.data_ptr(), [64, 32], [128], [32, 8], [1, 1], 0, 3, 3, 1) for tensor in (x, y)
    ]
    parameters = launches(library)[-1][-1]
    assert parameters[0] % 64 == 0
    assert bytes((ctypes.c_ubyte * 128).from_address(parameters[0])) == b"\x5a" * 128
    assert fake.read(parameters, 1, ctypes.c_uint64) == y.data_ptr()


def test_a_misaligned_tensor_behind_a_map_is_named() -> None:
    program, _ = made(fake.launch(fake.argument("tensor_map")), tensor_maps=[tensor_map()])
    with pytest.raises(LaunchError) as caught:
        program.run([aligned(4096, 4)], [], [])
    assert caught.value.finding.reason == "launch_failed"
    assert "`tiles` needs `x` at a multiple of 16 bytes" in caught.value.finding.message


def call(operator: str, *arguments: dict[str, Any], outputs: list[dict[str, Any]], step: int = 0) -> dict[str, Any]:
    listed = [
        {"keyword": False, "parameter": f"p{n}", "index": 0, "name": "", "value": None, **one}
        for n, one in enumerate(arguments)
    ]
    return {"step": step, "operator": operator, "overload": "default", "arguments": listed, "outputs": outputs}


def test_calls_and_launches_share_intermediates() -> None:
    x, weight, out = torch.randn(3, 4), torch.randn(5, 4), torch.empty(3, 5)
    steps = [
        call(
            "aten::linear",
            {"kind": "tensor"},
            {"kind": "tensor", "index": 1},
            outputs=[fake.argument("intermediate", name="h")],
        ),
        fake.launch(fake.argument("intermediate", name="h")),
        call(
            "aten::linear", {"kind": "intermediate"}, {"kind": "tensor", "index": 2}, outputs=[fake.argument("output")]
        ),
    ]
    program, library = made(*steps, intermediates=[{"name": "h", "dtype": "fp32", "shape": [3, 5]}])
    second = torch.randn(5, 5)
    program.run([x, weight, second], [out], [])
    torch.testing.assert_close(out, x @ weight.T @ second.T)
    assert fake.read(launches(library)[0][-1], 0, ctypes.c_uint64) != 0
    assert program.kinds == ["call", "launch", "call"]


def test_an_operators_several_results_and_its_numbers_are_passed() -> None:
    x = torch.tensor([[3.0, 1.0, 2.0]])
    values, places = torch.empty(1, 3), torch.empty(1, 3, dtype=torch.int64)
    step = call(
        "aten::sort",
        {"kind": "tensor"},
        {"kind": "value", "value": 1},
        {"kind": "value", "value": True},
        outputs=[fake.argument("output"), fake.argument("output", 1)],
    )
    program, _ = made(step)
    program.run([x], [values, places], [])
    assert values.tolist() == [[3, 2, 1]]
    assert places.tolist() == [[0, 2, 1]]


def test_numbers_that_travelled_as_text_are_numbers_again() -> None:
    q = torch.randn(1, 2, 8, 4)
    out = torch.empty(1, 2, 8, 4)
    step = call(
        "aten::scaled_dot_product_attention",
        {"kind": "tensor"},
        {"kind": "tensor"},
        {"kind": "tensor"},
        {"kind": "none"},
        {"kind": "value", "value": "0.0", "parameter": "dropout_p"},
        {"kind": "value", "value": True, "parameter": "is_causal"},
        {"kind": "value", "value": "0.25", "parameter": "scale", "keyword": True},
        outputs=[fake.argument("output")],
    )
    program, _ = made(step)
    program.run([q], [out], [])
    wanted = torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, scale=0.25)
    torch.testing.assert_close(out, wanted)


def test_a_result_laid_out_otherwise_is_made_row_major() -> None:
    x = torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)
    weight = torch.randn(4, 3, 1, 1).to(memory_format=torch.channels_last)
    steps = [
        call(
            "aten::conv2d",
            {"kind": "tensor"},
            {"kind": "tensor", "index": 1},
            outputs=[fake.argument("intermediate", name="h")],
        ),
        call("aten::relu", {"kind": "intermediate"}, outputs=[fake.argument("output")], step=1),
    ]
    program, _ = made(*steps, intermediates=[{"name": "h", "dtype": "fp32", "shape": [2, 4, 8, 8]}])
    seen: list[Any] = []
    out = torch.empty(2, 4, 8, 8)
    original = programs.OperatorCall.run

    def spying(self: Any, tensors: Any, intermediates: list[Any]) -> None:
        original(self, tensors, intermediates)
        seen.append(intermediates[0].is_contiguous())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(programs.OperatorCall, "run", spying)
        program.run([x, weight], [out], [])
    assert seen == [True, True]
    torch.testing.assert_close(out, torch.nn.functional.conv2d(x, weight).relu())


def test_a_call_that_the_operator_refuses_names_the_step() -> None:
    step = call(
        "aten::linear", {"kind": "tensor"}, {"kind": "tensor", "index": 1}, outputs=[fake.argument("output")], step=3
    )
    program, _ = made(step)
    with pytest.raises(LaunchError) as caught:
        program.run([torch.zeros(2, 3), torch.zeros(2, 5)], [torch.zeros(2, 2)], [])
    assert caught.value.finding.reason == "launch_failed"
    assert caught.value.finding.message.startswith("step 3 (call of `aten::linear`): ")


@pytest.mark.parametrize(
    ("change", "library", "said"),
    [
        ({"grid": [1, 70000, 1]}, {}, "a grid of 70000 in y; this device takes at most 65535"),
        ({"block": [1, 1, 65]}, {}, "a block of 65 in z; this device takes at most 64"),
        ({"block": [1024, 2, 1]}, {}, "a block of 2048 threads; this device takes at most 1024"),
        ({"block": [1024, 1, 1]}, WIDE, "takes at most 640, by its 96 registers"),
        ({"shared_bytes": 232 * 1024}, {}, "237568 bytes of shared memory; this device has at most 232448 a block"),
        (
            {"shared_bytes": 232448},
            {"kernels": {"_Zk": {"static_shared_bytes": 16}}},
            "232448 dynamic and 16 static bytes",
        ),
        ({"cluster": [2, 1, 1]}, {"device": {"cluster_launch": 0}}, "a cluster; this device has none"),
        ({"cluster": [2, 1, 1], "grid": [3, 1, 1]}, {}, "a grid of 3 in x, which the cluster's 2 blocks do not divide"),
        ({"cluster": [2, 1, 1]}, CLUSTERED, "a cluster of 2 * 1 * 1; the kernel's __cluster_dims__ are 4 * 1 * 1"),
        ({"grid": [6, 1, 1]}, CLUSTERED, "which the cluster's 4 blocks do not divide"),
        (
            {"cooperative": True, "grid": [265, 1, 1]},
            {},
            "a cooperative grid of 265 blocks; this device holds 264 at a time, 2 on each of 132",
        ),
    ],
)
def test_a_limit_is_named_before_anything_is_launched(
    change: dict[str, Any], library: dict[str, Any], said: str
) -> None:
    program, faked = made(fake.launch(**change), library=fake.FakeLibrary(**library))
    finding = program.check()
    assert finding is not None
    assert finding.reason == "launch_failed"
    assert finding.message.startswith("step 0 (`k`, grid ")
    assert said in finding.message
    assert launches(faked) == []


def test_what_does_not_fit_on_a_multiprocessor_or_as_a_cluster_is_named() -> None:
    library = fake.FakeLibrary()
    program, _ = made(fake.launch(cluster=[16, 1, 1], grid=[16, 1, 1]), library=library)
    library.clusters = 0
    finding = program.check()
    assert finding is not None
    assert "a cluster of 16 blocks; for this kernel the device takes at most 8" in finding.message
    program, _ = made(fake.launch(), library=library)
    library.blocks = 0
    finding = program.check()
    assert finding is not None
    assert "not one block fits on a multiprocessor: 128 threads of 32 registers" in finding.message


def test_a_cluster_size_that_does_not_exist_is_named() -> None:
    library = fake.FakeLibrary()
    program, _ = made(fake.launch(cluster=[16, 1, 1], grid=[16, 1, 1]), library=library)
    library.fail = {"cuOccupancyMaxActiveClusters": [912]}
    finding = program.check()
    assert finding is not None
    assert "a cluster of 16 blocks; for this kernel the device takes at most 8" in finding.message


def test_a_context_that_is_lost_is_a_finding_of_the_check_too() -> None:
    library = fake.FakeLibrary()
    program, _ = made(fake.launch(), library=library)
    library.fail = {"cuOccupancyMaxActiveBlocksPerMultiprocessor": [700]}
    finding = program.check()
    assert finding is not None
    assert finding.reason == "crashed"
    assert finding.message.startswith("a kernel before step 0 (`k`")


def test_a_device_without_tensor_maps_says_so() -> None:
    library = fake.FakeLibrary({"tensor_map_access": 0})
    program, _ = made(fake.launch(fake.argument("tensor_map")), tensor_maps=[tensor_map()], library=library)
    finding = program.check()
    assert finding is not None
    assert "tensor map `tiles`: this device has none" in finding.message


def test_a_refused_launch_names_kernel_step_and_what_the_driver_said() -> None:
    library = fake.FakeLibrary()
    program, _ = made(fake.launch(), fake.launch(kernel="other<2>", step=1, block=[64, 2, 1]), library=library)
    library.fail = {"cuLaunchKernelEx": [0, 1]}
    with pytest.raises(LaunchError) as caught:
        program.run([], [], [])
    assert caught.value.finding.reason == "launch_failed"
    assert caught.value.finding.message == (
        "step 1 (`other<2>`, grid 4, block 64 * 2): CUDA_ERROR_INVALID_VALUE: invalid value"
    )


def test_a_kernel_that_failed_before_a_launch_is_not_blamed_on_it() -> None:
    library = fake.FakeLibrary()
    program, _ = made(fake.launch(), library=library)
    library.fail = {"cuLaunchKernelEx": [700]}
    with pytest.raises(LaunchError) as caught:
        program.run([], [], [])
    assert caught.value.finding.reason == "crashed"
    assert caught.value.finding.message.startswith("a kernel before step 0 (`k`")


def test_waiting_after_each_step_names_the_kernel_that_failed() -> None:
    library = fake.FakeLibrary()
    program, _ = made(fake.launch(), fake.launch(kernel="other<2>", step=1), library=library)
    library.fail = {"cuStreamSynchronize": [0, 719]}
    with pytest.raises(LaunchError) as caught:
        program.run_stepwise([], [], [])
    assert caught.value.finding.reason == "crashed"
    assert caught.value.finding.message.startswith("step 1 (`other<2>`, grid 4, block 128): a kernel trapped")


def test_memory_that_runs_out_is_its_own_reason() -> None:
    library = fake.FakeLibrary()
    library.fail = {"cuModuleLoadData": [2]}
    with pytest.raises(LaunchError) as caught:
        made(fake.launch(), library=library)
    assert caught.value.finding.reason == "out_of_memory"


def test_a_cubin_for_another_device_says_which_one_this_is() -> None:
    library = fake.FakeLibrary()
    library.fail = {"cuModuleLoadData": [209]}
    with pytest.raises(LaunchError) as caught:
        made(fake.launch(), library=library)
    assert caught.value.finding.message == "the cubin is for another architecture than this device's sm_90"


def test_after_each_step_its_position_is_told() -> None:
    program, _ = made(fake.launch(), fake.launch(kernel="other<2>", step=1), fake.launch(step=2))
    seen: list[int] = []
    program.run([], [], [], after_step=seen.append)
    assert seen == [0, 1, 2]
    assert program.label(1).startswith("step 1 (`other<2>`")
