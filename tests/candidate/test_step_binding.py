from __future__ import annotations

import json

import pytest

from kforge_mcp.candidate.bound import BoundArgument, BoundCall, BoundLaunch, BoundProgram, CallArgument
from kforge_mcp.candidate.plan import configurations
from kforge_mcp.candidate.step_binding import bind_steps, kernel_instances
from kforge_mcp.records.card import OperatorCard
from tests.candidate.cards import absent, constant, dense, make_card, make_variant, rms_norm, strided, tensor
from tests.candidate.cuda import bound, launch, plan_for, refused

CARD = make_card(rms_norm(2, 8, 64))
MLP = make_card(
    make_variant(
        "v0",
        [dense(4, 64, dtype="bf16"), dense(128, 64, dtype="bf16"), dense(64, 128, dtype="bf16")],
        [
            tensor("x", 0),
            tensor("up_weight", 1, "parameter"),
            tensor("down_weight", 2, "parameter"),
            absent("bias"),
            constant("stride", [1, 1]),
            constant("scale", float("-inf")),
        ],
        [dense(4, 64, dtype="bf16")],
    )
)
UP = '[[step]]\ncall = "aten::linear"\nargs = ["x", "up_weight", "bias"]\nout = "h"\n'
DOWN = '[[step]]\ncall = "aten::linear"\nargs = ["h", "down_weight"]\nout = "out"\n'


def launches(program: BoundProgram) -> list[BoundLaunch]:
    return [step for step in program.steps if isinstance(step, BoundLaunch)]


def test_a_launch_is_bound_with_every_value() -> None:
    metadata = (
        launch(
            '"hidden_states", "scratch", "variance_epsilon", "sm_count", "weight is None", "out.numel", "out"',
            kernel="tiled<BLOCK>",
            grid='hidden_states.shape[0]", "2',
            block="BLOCK",
            more='shared_bytes = "4 * BLOCK"\ncluster = ["2"]\ncooperative = true',
        )
        + '\n[workspace]\nscratch = { dtype = "fp16", shape = ["BLOCK", 3], init = "zero" }\n[tunables]\nBLOCK = [64]'
    )
    program = bound(CARD, metadata, {"BLOCK": 64})
    (space,) = program.workspaces
    assert (space.shape, space.init, space.size_bytes) == ([64, 3], "zero", 384)
    (step,) = launches(program)
    assert step.kernel_name_expression == "tiled<BLOCK>"
    assert (step.grid, step.block, step.cluster, step.cooperative) == ((2, 2, 1), (64, 1, 1), (2, 1, 1), True)
    assert step.shared_bytes == 256
    assert step.arguments == [
        BoundArgument(kind="tensor", index=0, name="hidden_states"),
        BoundArgument(kind="workspace", index=0, name="scratch"),
        BoundArgument(kind="scalar", scalar_type="float", value=1e-6),
        BoundArgument(kind="scalar", scalar_type="int64", value=132),
        BoundArgument(kind="scalar", scalar_type="bool", value=False),
        BoundArgument(kind="scalar", scalar_type="int64", value=1024),
        BoundArgument(kind="output", index=0, name="out"),
    ]


def test_the_device_decides_its_number_of_multiprocessors() -> None:
    plan = plan_for(CARD, launch('"sm_count"', grid="2 * sm_count"))
    program = bind_steps(plan, CARD.variants[0], {}, sm_count=78)
    assert isinstance(program, BoundProgram)
    (step,) = launches(program)
    assert step.grid == (156, 1, 1)
    assert step.arguments[0].value == 78


def test_repeated_steps_are_unrolled_with_their_index() -> None:
    metadata = launch('"step", "out"', grid="step + 1", more='repeat = "hidden_states.shape[1]"')
    program = bound(CARD, metadata)
    assert [(one.grid[0], one.arguments[0].value) for one in launches(program)] == [(n + 1, n) for n in range(8)]
    assert {one.step for one in launches(program)} == {0}
    plan = plan_for(CARD, metadata)
    ends = bind_steps(plan, CARD.variants[0], {}, ends_only=True)
    assert isinstance(ends, BoundProgram)
    assert [one.arguments[0].value for one in launches(ends)] == [0, 1, 7]


def test_an_empty_grid_launches_nothing() -> None:
    empty = make_card(rms_norm(0, 64))
    assert bound(empty, launch('"out"', grid="out.numel")).steps == []


def test_calls_pass_tensors_between_launches() -> None:
    metadata = UP + launch('"h", "h.shape[-1]", "h.stride[0]"', grid="h.numel // 128") + "\n" + DOWN
    program = bound(MLP, metadata)
    (h,) = program.intermediates
    assert (h.name, h.dtype, h.shape, h.size_bytes) == ("h", "bf16", [4, 128], 1024)
    up, activation, down = program.steps
    assert up == BoundCall(
        step=0,
        operator="aten::linear",
        overload="default",
        arguments=[
            CallArgument(parameter="input", kind="tensor", index=0, name="x"),
            CallArgument(parameter="weight", kind="tensor", index=1, name="up_weight"),
            CallArgument(parameter="bias", kind="none"),
        ],
        outputs=[BoundArgument(kind="intermediate", index=0, name="h")],
    )
    assert isinstance(activation, BoundLaunch)
    assert activation.grid == (4, 1, 1)
    assert [one.value for one in activation.arguments[1:]] == [128, 128]
    assert activation.arguments[0].kind == "intermediate"
    assert isinstance(down, BoundCall)
    assert down.arguments[0].kind == "intermediate"
    assert down.outputs == [BoundArgument(kind="output", index=0, name="out")]


def test_calls_take_lists_literals_and_keywords() -> None:
    attention = make_card(
        make_variant(
            "v0",
            [dense(1, 2, 8, 16)] * 3,
            [tensor("q", 0), tensor("k_", 1), tensor("v", 2), constant("scale", 0.5)],
            [dense(1, 2, 8, 16)],
        )
    )
    (call,) = bound(
        attention,
        '[[step]]\ncall = "aten::scaled_dot_product_attention"\n'
        'args = ["q", "k_", "v", "None", 0.0, true, "scale"]\nout = "out"',
    ).steps
    assert isinstance(call, BoundCall)
    assert [(one.parameter, one.kind, one.value, one.keyword) for one in call.arguments[3:]] == [
        ("attn_mask", "none", None, False),
        ("dropout_p", "value", 0.0, False),
        ("is_causal", "value", True, False),
        ("scale", "value", 0.5, True),
    ]
    convolution = make_card(
        make_variant(
            "v0",
            [dense(1, 4, 9, 9), dense(8, 4, 3, 3)],
            [tensor("x", 0), tensor("w", 1), constant("stride", [2, 2])],
            [dense(1, 8, 5, 5)],
        )
    )
    (call,) = bound(
        convolution,
        '[[step]]\ncall = "aten::convolution"\n'
        'args = ["x", "w", "None", "stride", [1, "w.shape[3] - 2"], 1, false, [0, 0], 1]\nout = "h"',
    ).steps
    assert isinstance(call, BoundCall)
    assert [one.value for one in call.arguments[3:]] == [[2, 2], [1, 1], [1], False, [0, 0], 1]


def test_a_program_travels_as_json_with_infinities_as_text() -> None:
    program = bound(MLP, launch('"scale"'))
    text = json.dumps(program.as_json(), allow_nan=False)
    assert '"value": "-inf"' in text
    assert BoundProgram.model_validate(json.loads(text)).steps[0].step == 0


def test_an_input_is_written_in_place_and_has_no_out() -> None:
    card = make_card(rms_norm(2, 64)).model_copy(update={"mutates": "hidden_states"})
    program = bound(card, "inplace = true\n" + launch('"hidden_states", "hidden_states.numel"'))
    assert launches(program)[0].arguments[0] == BoundArgument(kind="tensor", index=0, name="hidden_states")
    rejected = refused(card, "inplace = true\n" + launch('"out"'))
    assert "the result is written into `hidden_states`" in rejected.message
    assert launches(bound(card, launch('"out"')))[0].arguments[0].kind == "output"
    several = card.model_copy(
        update={"variants": [card.variants[0].model_copy(update={"outputs": [dense(2, 64), dense(2)]})]}
    )
    assert "operators with one result" in refused(several, "inplace = true\n" + launch('"weight"')).message


def test_kernel_instances_are_distinct_and_spelled_alike() -> None:
    metadata = "\n".join(
        [launch(kernel="tiled< 4 >"), launch(kernel="tiled<4>"), launch(kernel="k"), launch(kernel="tiled<A>")]
    )
    plan = plan_for(CARD, metadata + "\n[tunables]\nA = [1, 2]")
    assert kernel_instances(plan, configurations(plan)[0]) == ["tiled<4>", "k", "tiled<A>"]


@pytest.mark.parametrize(
    ("metadata", "line", "column", "part"),
    [
        (launch(grid="-1"), 4, 13, "not negative: -1"),
        (launch(grid='1", "65536'), 4, 18, "a grid of 65536 in y; at most 65535"),
        (launch(grid="2 ** 31"), 4, 13, "at most 2147483647"),
        (launch(block="0"), 5, 14, "a block of 0 in x; at least 1"),
        (launch(block='1", "1", "65'), 5, 24, "a block of 65 in z; at most 64"),
        (launch(block='64", "32'), 5, 14, "64 * 32 * 1 = 2048 threads; at most 1024"),
        (launch(block="x"), 5, 14, "unknown name `x`"),
        (launch(block="weight"), 5, 14, "a size is an integer, not a tensor"),
        (launch(more="shared_bytes = 232449"), 7, 19, "no GPU has more than 232448"),
        (launch(more='cluster = ["17"]'), 7, 16, "at most 16"),
        (launch(grid='4", "4", "4', more='cluster = ["4", "4", "4"]'), 7, 16, "a cluster of 64 blocks"),
        (launch(grid="6", more='cluster = ["4"]'), 7, 16, "does not divide the grid's 6 blocks in x"),
        (launch(grid='4", "3', more='cluster = ["4", "2"]'), 7, 21, "3 blocks in y"),
        (launch(more='repeat = "4097"'), 7, 14, "4097 launches and calls; at most 4096"),
        (launch('"step"'), 6, 13, "loop index of a launch with `repeat`"),
        (launch() + '\n[tensor_maps]\nm = { tensor = "weight", box = ["64"] }\nn = {}', 9, 8, "`tensor` is missing"),
        (launch('"s"') + '\n[workspace]\ns = { dtype = "fp32", shape = ["2 ** 60"] }', 8, 36, "more than any GPU"),
        (launch(more="cooperative = 1"), 7, 18, "true or false, not an integer"),
        (launch(more='out = "h"'), 7, 4, "another kind of step"),
        (launch(more="grid_size = [1]"), 7, 4, "did you mean `grid`?"),
        ("[[step]]\nkernel = 'k'\ngrid = []\nblock = [1]\nargs = []", 4, 11, "has 1 to 3 sizes"),
    ],
)  # fmt: skip
def test_what_cannot_be_launched_is_refused_at_its_place(metadata: str, line: int, column: int, part: str) -> None:
    rejected = refused(CARD, metadata)
    assert part in rejected.message
    assert (rejected.diagnostics[0].line, rejected.diagnostics[0].column) == (line, column)


CALLS: list[tuple[str, int, int, str]] = [
    ('args = ["x"]\nout = "h"', 4, 11, "takes 2 to 3 arguments, not 1"),
    ('args = ["x", "down_weight"]\nout = "h"', 4, 18, "needs an input with 128 columns"),
    ('args = ["x", "None"]\nout = "h"', 4, 18, "`weight` is a tensor, not None"),
    ('args = ["x", "up_weight", 3]\nout = "h"', 4, 30, "`bias` is a tensor or None, not an integer"),
    ('args = ["x", "up_weight"]', 2, 4, 'a call names its result: `out = "h"`'),
    ('args = ["x", "up_weight"]\nout = ["h", "i"]', 5, 10, "has 1 results, not 2"),
    ('args = ["x", "up_weight"]\nout = "x"', 5, 11, "has that name"),
    ('args = ["x", "up_weight"]\nout = "step"', 5, 11, "reserved"),
    ('args = ["x", "up_weight"]\nout = "x_t"', 5, 11, "collides with the type or the helpers of `x`"),
    ('args = ["x", "up_weight"]\nout = "out"', 4, 13, "the result is bf16[4, 128], but `out` is bf16[4, 64]"),
    ('args = ["x", []]\nout = "h"', 4, 17, "at least one element"),
    ('args = "x"\nout = "h"', 4, 12, "array of the operator's arguments"),
    ('args = ["x", "up_weight"]\nout = "h"\ngrid = [1]', 6, 4, "another kind of step"),
]


@pytest.mark.parametrize(("metadata", "line", "column", "part"), CALLS)
def test_calls_that_the_operator_would_refuse_are_refused_at_their_place(
    metadata: str, line: int, column: int, part: str
) -> None:
    rejected = refused(MLP, '[[step]]\ncall = "aten::linear"\n' + metadata)
    assert part in rejected.message
    assert (rejected.diagnostics[0].line, rejected.diagnostics[0].column) == (line, column)


def test_a_card_with_an_argument_called_step_has_no_repeats() -> None:
    card = make_card(make_variant("v0", [dense(4)], [tensor("step", 0)], [dense(4)]))
    assert "which is one of its arguments" in refused(card, launch('"step"', more="repeat = 3")).message
    assert launches(bound(card, launch('"step"')))[0].arguments[0].kind == "tensor"


def test_where_leaves_out_configurations_that_cannot_be_launched() -> None:
    metadata = launch(block='BX", "BY') + "\n[tunables]\nBX = [32, 64]\nBY = [16, 32]"
    assert "`where` may leave out" in refused(CARD, metadata).message
    plan_for(CARD, 'where = "BX * BY <= 1024"\n' + metadata)


MAPPED: OperatorCard = make_card(
    make_variant(
        "v0",
        [dense(6, 128, 64, dtype="bf16"), strided((4, 64), (1, 4)), dense(3, 5), dense(4, 64, dtype="complex64")],
        [tensor("x", 0), tensor("t", 1), tensor("odd", 2), tensor("z", 3), absent("bias")],
        [dense(6, 128, 64, dtype="bf16")],
    )
)


def mapped(table: str) -> str:
    return launch('"m"') + f"\n[tensor_maps]\nm = {{ {table} }}"


def test_a_tensor_map_has_the_driver_s_order_and_units() -> None:
    (one,) = bound(
        MAPPED,
        mapped('tensor = "x", box = ["1", "32", "64"], swizzle = "128B", l2_promotion = "128B", out_of_bounds = "nan"'),
    ).tensor_maps
    assert one.tensor == BoundArgument(kind="tensor", index=0, name="x")
    assert (one.data_type, one.size, one.stride_bytes) == ("BFLOAT16", [64, 128, 6], [128, 128 * 128])
    assert (one.box, one.element_strides, one.alignment) == ([64, 32, 1], [1, 1, 1], 16)
    assert (one.swizzle, one.interleave, one.l2_promotion, one.out_of_bounds) == ("128B", "none", "128B", "nan")


def test_a_tensor_map_may_see_its_tensor_in_another_shape() -> None:
    (one,) = bound(MAPPED, mapped('tensor = "x", shape = ["x.numel // 64", "64"], box = ["64", "64"]')).tensor_maps
    assert (one.size, one.stride_bytes) == ([64, 768], [128])
    table = (
        'tensor = "out", shape = ["8", "64"], stride = ["128", "1"], box = ["8", "64"], element_strides = ["2", "1"]'
    )
    (one,) = bound(MAPPED, mapped(table)).tensor_maps
    assert (one.tensor.kind, one.size, one.stride_bytes, one.element_strides) == ("output", [64, 8], [256], [1, 2])


def test_tensor_maps_of_workspaces_and_intermediates_are_bound() -> None:
    metadata = UP + launch('"m", "n"') + (
        '\n[workspace]\ns = { dtype = "int8", shape = ["16", "32"] }\n[tensor_maps]\n'
        'm = { tensor = "h", box = ["4", "64"] }\nn = { tensor = "s", box = ["16", "16"] }'
    )  # fmt: skip
    program = bound(MLP, metadata)
    assert [(one.tensor.kind, one.data_type) for one in program.tensor_maps] == [
        ("intermediate", "BFLOAT16"),
        ("workspace", "UINT8"),
    ]
    early = launch('"m"') + "\n" + UP + '[tensor_maps]\nm = { tensor = "h", box = ["4", "64"] }'
    assert "`h`, which a later step computes" in refused(MLP, early).message


@pytest.mark.parametrize(
    ("table", "part"),
    [
        ('tensor = "y", box = ["1"]', "unknown name `y`"),
        ('tensor = "x.numel", box = ["1"]', "`tensor` names the tensor"),
        ("tensor = 3, box = ['1']", "in quotes, not an integer"),
        ('tensor = "bias", box = ["1"]', "not of None"),
        ('tensor = "x"', "`box` is missing"),
        ('tensor = "x", box = ["1", "64"]', "`box` has 2 elements, but the map has 3"),
        ('tensor = "x", box = ["1", "257", "64"]', "1 to 256, not 257"),
        ('tensor = "x", box = ["1", "0", "64"]', "1 to 256, not 0"),
        ('tensor = "x", box = ["1", "1", "4"]', "8 bytes wide; a multiple of 16"),
        ('tensor = "x", box = ["1", "1", "64"], swizzle = "64B"', "at most that many"),
        ('tensor = "x", box = ["1", "1", "64"], swizzle = "96B"', "one of none, 32B, 64B, 128B"),
        ('tensor = "x", box = ["1", "1", "64"], interleave = "32B"', 'needs `swizzle = "32B"`'),
        ('tensor = "x", box = ["1", "1", "64"], element_strides = ["1", "9", "1"]', "1 to 8, not 9"),
        ('tensor = "x", box = ["64"], stride = ["1"]', "`stride` goes with `shape`"),
        ('tensor = "x", shape = ["768", "128"], box = ["1", "64"]', "reaches beyond the tensor"),
        ('tensor = "x", shape = ["2", "64"], stride = ["64"], box = ["1", "64"]', "`stride` has 1 elements"),
        ('tensor = "x", shape = ["1", "1", "1", "1", "1", "8"], box = ["8"]', "at most 5 are allowed"),
        ('tensor = "t", box = ["4", "64"]', "the last dimension has stride 4"),
        ('tensor = "t", shape = ["256"], box = ["64"]', "give `stride` beside `shape`"),
        ('tensor = "odd", box = ["1", "4"]', "a stride of 20 bytes; a multiple of 16"),
        ('tensor = "z", box = ["1", "4"]', "complex64"),
        ('tensor = "x", box = ["1", "1", "8"], colour = 1', "unknown key `colour`"),
    ],
)
def test_tensor_maps_that_could_not_be_encoded_are_refused(table: str, part: str) -> None:
    rejected = refused(MAPPED, mapped(table))
    assert part in rejected.message
    assert rejected.diagnostics[0].line == 8


def test_calls_count_among_the_runs_of_a_program() -> None:
    metadata = launch(more='repeat = "4096"')
    bound(CARD, metadata)
    call = '\n[[step]]\ncall = "aten::sort"\nargs = ["weight"]\nout = ["h", "i"]\n'
    assert "4097 launches and calls" in refused(CARD, call + metadata).message


def test_arguments_beyond_the_parameter_space_are_refused() -> None:
    table = '\n[tensor_maps]\nm = { tensor = "x", box = ["1", "1", "8"] }'
    bound(MAPPED, launch(", ".join(['"m"'] * 32)) + table)
    assert "arguments of 4224 bytes; a kernel takes at most 4096" in (
        refused(MAPPED, launch(", ".join(['"m"'] * 33)) + table).message
    )


def test_the_result_of_a_call_named_out_is_an_intermediate_where_there_is_no_out() -> None:
    card = make_card(rms_norm(2, 64)).model_copy(update={"mutates": "hidden_states"})
    call = 'inplace = true\n[[step]]\ncall = "aten::sort"\nargs = ["weight"]\nout = ["out", "i"]\n'
    program = bound(card, call + launch('"out", "hidden_states"'))
    assert [one.name for one in program.intermediates] == ["out", "i"]


def test_an_argument_called_sm_count_is_the_card_s_own() -> None:
    card = make_card(make_variant("v0", [dense(4)], [tensor("x", 0), constant("sm_count", 7)], [dense(4)]))
    assert launches(bound(card, launch('"sm_count"')))[0].arguments[0].value == 7


def test_an_interleaved_map_needs_three_dimensions_and_wider_strides() -> None:
    interleaved = 'tensor = "x", interleave = "32B", swizzle = "32B", '
    (one,) = bound(MAPPED, mapped(interleaved + 'box = ["1", "32", "16"]')).tensor_maps
    assert one.alignment == 32
    flat = mapped(interleaved + 'shape = ["64", "64"], box = ["1", "16"]')
    assert "a tensor map has 3 to 5 dimensions, not 2" in refused(MAPPED, flat).message
    narrow = mapped(interleaved + 'shape = ["2", "2", "8"], box = ["1", "1", "8"]')
    assert "a stride of 16 bytes; a multiple of 32" in refused(MAPPED, narrow).message


def test_a_map_of_nothing_or_with_nan_for_integers_is_refused() -> None:
    metadata = launch('"m"') + '\n[workspace]\ns = { dtype = "int8", shape = ["16", "32"] }\n[tensor_maps]\n'
    nan = metadata + 'm = { tensor = "s", box = ["16", "16"], out_of_bounds = "nan" }'
    assert "needs floating-point elements, not int8" in refused(MAPPED, nan).message
    empty = make_card(rms_norm(0, 64))
    table = launch('"m"') + '\n[tensor_maps]\nm = { tensor = "hidden_states", box = ["1", "4"] }'
    assert "dimension 0 has 0 elements" in refused(empty, table).message


def test_the_stride_of_a_single_element_does_not_keep_a_tensor_from_being_mapped() -> None:
    card = make_card(
        make_variant("v0", [strided((1, 1, 24), (1, 7, 1), "bf16")], [tensor("x", 0)], [dense(1, 1, 24, dtype="bf16")])
    )
    metadata = launch('"m"') + '\n[tensor_maps]\nm = { tensor = "x", box = ["1", "1", "8"] }'
    (one,) = bound(card, metadata).tensor_maps
    assert (one.size, one.stride_bytes) == ([24, 1, 1], [48, 48])
