from __future__ import annotations

import pytest

from kforge_mcp.candidate.kernel_names import base_name, kernel_fault, kernels_of, spelled
from kforge_mcp.candidate.plan import Plan, Rejected, parse_plan, source_key
from kforge_mcp.candidate.tokens import tokens
from tests.candidate.cards import candidate_text, dense, make_card, make_variant, rms_norm, tensor
from tests.candidate.cuda import CODE, launch, plan_for

CARD = make_card(rms_norm(2, 64))


@pytest.mark.parametrize(
    ("kernel", "spelling", "base"),
    [
        ("k", "k", "k"),
        (" rows < 4 , float > ", "rows<4,float>", "rows"),
        ("my::deep :: rows<B>", "my::deep::rows<B>", "rows"),
        ("rows<unsigned  char>", "rows<unsigned char>", "rows"),
        ("rows<(3 > 2)>", "rows<(3>2)>", "rows"),
        ("rows<pair<int, 3>>", "rows<pair<int,3>>", "rows"),
    ],
)
def test_a_kernel_has_one_spelling(kernel: str, spelling: str, base: str) -> None:
    assert spelled(kernel) == spelling
    assert base_name(kernel) == base
    assert kernel_fault(kernel, list(tokens(f"void {base}"))) is None


def test_kernels_are_found_behind_their_attributes() -> None:
    code = """
    // __global__ void not_this() {}
    static __global__ void first(int) {}
    template <int N> __global__ void __launch_bounds__(256, 2) second() {}
    __global__ __cluster_dims__(2, 1, 1) void third();
    extern "C" __global__ __launch_bounds__(N * 2) void fourth() {}
    """
    assert kernels_of(list(tokens(code))) == ["first", "second", "third", "fourth"]


def test_a_kernel_that_a_macro_writes_is_left_to_the_compiler() -> None:
    metadata = launch(kernel="scale_float")
    for macro in ("#define K(T) __global__ void scale_##T() {}\nK(float)", "#define K(n) void n() {}\nK(scale_float)"):
        assert isinstance(parse_plan(candidate_text(metadata, macro), CARD, "cuda"), Plan)
    rejected = parse_plan(candidate_text(metadata, "// scale_float\n" + CODE), CARD, "cuda")
    assert isinstance(rejected, Rejected)
    assert "the code has no kernel `scale_float`" in rejected.message
    assert "known here: k, tiled" in rejected.message


def test_cuda_candidates_differ_by_kernel_and_tensor_map() -> None:
    table = '\n[tensor_maps]\nm = { tensor = "weight", box = ["32"], swizzle = "none" }'
    plans = [
        launch('"m"', kernel="tiled<4>") + table,
        launch('"m"', kernel="tiled<8>") + table,
        launch('"m"', kernel="tiled<4>") + table.replace("32", "64"),
        launch('"m"', kernel="tiled<4>") + table.replace('"none"', '"128B"'),
        launch('"m"', kernel="tiled<4>", more='repeat = "2"') + table,
    ]
    assert len({source_key(plan_for(CARD, metadata)) for metadata in plans}) == len(plans)
    assert source_key(plan_for(CARD, plans[0])) == source_key(plan_for(CARD, plans[0].replace("<4>", " < 4 > ")))


def test_a_workspace_must_not_take_the_type_of_another_name() -> None:
    card = make_card(make_variant("v0", [dense(4), dense(4)], [tensor("x", 0), tensor("y_t", 1)], [dense(4)]))
    for name, tensor_name in (("x_acc", "x"), ("y", "y_t")):
        text = candidate_text(f"{launch()}\n[workspace]\n{name} = {{ dtype = 'fp32', shape = [1] }}", CODE)
        rejected = parse_plan(text, card, "cuda")
        assert isinstance(rejected, Rejected)
        assert f"collides with the type or the helpers of `{tensor_name}`" in rejected.message
