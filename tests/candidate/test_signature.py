from __future__ import annotations

import pytest

from kforge_mcp.candidate.bound import BoundLaunch, BoundProgram
from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.candidate.signature import c_signature, groups, launch_declarations, minimal_candidate
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target
from kforge_mcp.records.variant import Argument
from tests.candidate.cards import (
    absent,
    candidate_text,
    constant,
    dense,
    layer_norm,
    make_card,
    make_variant,
    rms_norm,
    rotary,
    tensor,
)
from tests.candidate.cuda import launch, plan_for

LISTED = make_card(
    make_variant(
        "v0",
        [dense(4), dense(5, dtype="bf16"), dense(6, dtype="int64")],
        [
            Argument(name="tensors", kind="tensors", role="input", tensors=[0, 1]),
            tensor("index", 2),
            absent("mask"),
            constant("mode", "nearest"),
            constant("kernel_size", [3, 3]),
            constant("flag", True),
            constant("dim", -1),
            constant("nothing", None),
        ],
        [dense(9), dense(9, dtype="bool")],
    )
)
CARDS = [
    make_card(rms_norm(2, 64), rms_norm(4, 64, dtype="bf16", variant_id="v1")),
    make_card(layer_norm(2, 64), layer_norm(2, 64, dtype="fp64", variant_id="v1")),
    make_card(rotary()),
    LISTED,
]


def test_the_signature_of_a_plan_names_every_type() -> None:
    card = make_card(rms_norm(2, 64))
    text = candidate_text(
        'entry = "f"\nargs = ["hidden_states", "weight.shape[-1]", "variance_epsilon", "2 > 1", "out"]'
    )
    plan = parse_plan(text, card, "cpu")
    assert isinstance(plan, Plan)
    assert c_signature(card, plan) == (
        'extern "C" void f(const float* hidden_states, int64_t weight_shape_last, float variance_epsilon, '
        "bool argument3, float* out);"
    )


def test_variants_with_other_types_have_a_signature_of_their_own() -> None:
    card = CARDS[0]
    plan = parse_plan(candidate_text('entry = "f"\nargs = ["weight", "out"]'), card, "cpu")
    assert isinstance(plan, Plan)
    assert c_signature(card, plan).splitlines() == [
        'extern "C" void f(const float* weight, float* out);  // v0',
        'extern "C" void f(const uint16_t* weight, uint16_t* out);  // v1',
    ]
    first, second = groups(plan, card, {})
    assert [variant.variant_id for variant in first.variants] == ["v0"]
    assert second.dtypes == {"hidden_states": "bf16", "weight": "bf16", "out": "bf16"}


def test_the_signature_of_a_card_tells_what_stands_behind_its_names() -> None:
    text = c_signature(CARDS[0])
    assert text.startswith(
        'extern "C" void kernel(const hidden_states_t* hidden_states, const weight_t* weight, '
        "variance_epsilon_t variance_epsilon, out_t* out, int64_t out_numel);"
    )
    assert "// weight_t = float (fp32) or uint16_t (bf16)" in text
    assert "bf16_to_float" in text
    assert len(text) < 1500


def test_an_absent_tensor_has_the_type_it_has_elsewhere() -> None:
    with_bias = make_variant("v0", [dense(4), dense(4, dtype="fp64")], [tensor("x", 0), tensor("bias", 1)], [dense(4)])
    without = make_variant("v1", [dense(4)], [tensor("x", 0), absent("bias")], [dense(4)])
    card = make_card(with_bias, without)
    plan = parse_plan(candidate_text('entry = "f"\nargs = ["bias"]'), card, "cpu")
    assert isinstance(plan, Plan)
    (group,) = groups(plan, card, {})
    assert group.dtypes["bias"] == "fp64"
    assert "bias_t = double (fp64); null where absent" in c_signature(card)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.variants[0].arguments[0].name)
def test_the_minimal_candidate_of_a_card_is_a_valid_plan(card: OperatorCard, target: Target) -> None:
    plan = parse_plan(minimal_candidate(card, target), card, target)
    assert isinstance(plan, Plan), plan.message


def test_the_minimal_candidate_leaves_out_types_that_the_cpu_lacks() -> None:
    odd = make_variant("v1", [dense(4, dtype="complex64")], [tensor("x", 0)], [dense(4)])
    card = make_card(make_variant("v0", [dense(4)], [tensor("x", 0)], [dense(4)]), odd)
    plan = parse_plan(minimal_candidate(card), card, "cpu")
    assert isinstance(plan, Plan)
    assert [variant.variant_id for group in groups(plan, card, {}) for variant in group.variants] == ["v0"]


def test_the_minimal_cuda_candidate_strides_over_the_grid() -> None:
    card = CARDS[0]
    text = minimal_candidate(card, "cuda")
    plan = parse_plan(text, card, "cuda")
    assert isinstance(plan, Plan)
    declared = "__global__ void kernel(const hidden_states_t* hidden_states, const weight_t* weight, variance_epsilon_t"
    assert declared in text
    assert c_signature(card, None, "cuda").startswith(declared)
    program = bind_steps(plan, card.variants[0], {"BLOCK": 256}, sm_count=2)
    assert isinstance(program, BoundProgram)
    (launch,) = program.steps
    assert isinstance(launch, BoundLaunch)
    assert (launch.grid, launch.block) == ((1, 1, 1), (256, 1, 1))


def test_a_cuda_card_states_the_types_of_cuda() -> None:
    variant = make_variant(
        "v0",
        [dense(4, dtype=dtype) for dtype in ("fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "int64", "complex64")],
        [*(tensor(f"x{index}", index) for index in range(6)), constant("dim", -1), constant("eps", 0.5)],
        [dense(4, dtype="uint8"), dense(4, dtype="bool")],
    )
    text = c_signature(make_card(variant), None, "cuda")
    for line in (
        "// x0_t = __half (fp16)",
        "// x1_t = __nv_bfloat16 (bf16)",
        "// x2_t = __nv_fp8_e4m3 (fp8_e4m3)",
        "// x3_t = __nv_fp8_e5m2 (fp8_e5m2)",
        "// x4_t = long long (int64)",
        "// x5_t = float2 (complex64)",
        "// dim_t = long long",
        "// eps_t = float",
        "// out0_t = unsigned char (uint8)",
        "// out1_t = bool (bool)",
    ):
        assert line in text.splitlines()
    assert "long long out0_numel" in text


LAUNCHES = """[[step]]
call = "aten::sort"
args = ["hidden_states"]
out = ["h", "order"]
[[step]]
kernel = "tiled<4>"
grid = ["1"]
block = ["32"]
args = ["h", "order", "scratch", "variance_epsilon", "h.numel", "h.numel > 3", "m"]
[[step]]
kernel = "k"
grid = ["hidden_states.ndim - 2"]
block = ["32"]
args = ["out"]
[workspace]
scratch = { dtype = "fp8_e4m3", shape = ["1"] }
[tensor_maps]
m = { tensor = "h", box = ["1", "64"] }"""


def test_every_launch_declares_its_parameters_with_their_sizes() -> None:
    card = make_card(rms_norm(2, 64, dtype="bf16"), rms_norm(4, 64, variant_id="v1"))
    plan = plan_for(card, LAUNCHES)
    first, second = groups(plan, card, {})
    assert first.dtypes["h"] == "bf16"
    assert first.dtypes["order"] == "int64"
    assert second.dtypes["h"] == "fp32"
    (launch,) = launch_declarations(plan, card, first, {})
    assert str(launch) == (
        "__global__ void tiled(__nv_bfloat16* h, long long* order, __nv_fp8_e4m3* scratch, "
        "float variance_epsilon, long long h_numel, bool h_numel_3, const __grid_constant__ CUtensorMap m)"
    )
    assert [one.size_bytes for one in launch.parameters] == [8, 8, 8, 4, 8, 1, 128]
    assert (launch.step, launch.kernel, launch.line, launch.column) == (1, "tiled<4>", 10, 13)
    assert c_signature(card, plan).count("__global__ void tiled(") == 2


def test_a_launch_that_only_some_variants_need_is_declared_for_their_group() -> None:
    card = make_card(rms_norm(4, 64), rms_norm(2, 4, 64, variant_id="v1"))
    plan = plan_for(card, LAUNCHES.replace('box = ["1", "64"]', 'shape = ["h.numel"], box = ["64"]'))
    declared = [
        launch.step for group in groups(plan, card, {}) for launch in launch_declarations(plan, card, group, {})
    ]
    assert declared == [1, 1, 2]


def test_an_input_written_in_place_is_no_pointer_to_const() -> None:
    card = make_card(rms_norm(2, 64)).model_copy(update={"mutates": "hidden_states"})
    assert "with `inplace = true` written, not const" in c_signature(card)
    plan = plan_for(card, "inplace = true\n" + launch('"hidden_states", "weight"'))
    assert c_signature(card, plan) == "__global__ void k(float* hidden_states, const float* weight);"
    text = candidate_text('inplace = true\nentry = "f"\nargs = ["hidden_states", "weight"]')
    cpu = parse_plan(text, card, "cpu")
    assert isinstance(cpu, Plan)
    assert c_signature(card, cpu) == 'extern "C" void f(float* hidden_states, const float* weight);'


def test_absent_tensors_and_lists_keep_their_types_in_cuda() -> None:
    plan = plan_for(LISTED, launch('"tensors[0]", "tensors[-1]", "index", "mask", "nothing", "flag", "out1"'))
    assert c_signature(LISTED, plan) == (
        "__global__ void k(const float* tensors_0, const __nv_bfloat16* tensors_last, const long long* index, "
        "const float* mask, const void* nothing, bool flag, bool* out1);"
    )
