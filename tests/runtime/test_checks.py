"""The tolerance: what passes, what does not, and what the author is told."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kforge_mcp.runtime.checks import check, multiple, row_rms, slack
from kforge_mcp.runtime.inputs import BlockAxis, Blocks
from kforge_mcp.runtime.oracle import Expected

WHOLE = Blocks(BlockAxis(), ("scale 1",), (0,))
EPS = torch.finfo(torch.float32).eps


def _expected(wide: torch.Tensor, narrow: torch.Tensor | None = None, longest: int = 0) -> Expected:
    return Expected([wide.float() if narrow is None else narrow], [wide.double()], longest)


def test_the_formula_in_numbers() -> None:
    assert slack(torch.float32, 0) == 4 * EPS
    assert slack(torch.float32, 1024) == 68 * EPS
    assert slack(torch.float32, 10**9) == 260 * EPS
    assert slack(torch.bfloat16, 1024) == 0.5 * torch.finfo(torch.bfloat16).eps
    assert slack(torch.float64, 0) == 16 * torch.finfo(torch.float64).eps
    assert (multiple(999), multiple(1000)) == (3.0, 2.0)


def test_eager_itself_passes() -> None:
    wide = torch.randn(64, 64, dtype=torch.float64)
    assert check([wide.float()], _expected(wide), WHOLE) is None


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-6, 1e6), st.integers(0, 2**31))
def test_the_verdict_does_not_depend_on_the_scale_of_the_output(scale: float, seed: int) -> None:
    wide = torch.randn(16, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) * scale
    good, bad = wide.float(), (wide * (1 + 3e-5)).float()
    assert check([good], _expected(wide), WHOLE) is None
    assert check([bad], _expected(wide), WHOLE) is not None


def test_zeros_for_a_softmax_over_a_long_axis_are_wrong() -> None:
    wide = torch.softmax(torch.randn(4, 4096, dtype=torch.float64), -1)
    finding = check([torch.zeros(4, 4096)], _expected(wide), WHOLE)
    assert finding is not None and finding.reason == "wrong_result"


def test_one_wrong_element_is_found_and_described() -> None:
    wide = torch.randn(50, 60, dtype=torch.float64)
    output = wide.float()
    output[7, 11] += 0.25
    finding = check([output], _expected(wide), WHOLE)
    assert finding is not None
    assert "[7, 11]" in finding.message and "1 of 3000 elements" in finding.message
    assert f"{float(wide[7, 11]):.6g}" in finding.message


def test_small_rows_cannot_hide_behind_large_ones() -> None:
    where = BlockAxis(2, 0)
    blocks = Blocks(where, ("small", "large"), (0, 1))
    wide = torch.randn(8, 64, dtype=torch.float64)
    wide[:4] *= 1e-3
    wide[4:] *= 1e3
    narrow = (wide * (1 + 1e-7)).float()
    output = narrow.clone()
    output[:4] *= 1.01
    finding = check([output], _expected(wide, narrow), blocks)
    assert finding is not None and "`small`" in finding.message


def test_a_systematic_error_below_every_elements_tolerance_is_found_by_its_mean() -> None:
    wide = torch.randn(64, 64, dtype=torch.float64)
    narrow = wide.float()
    narrow[0, 0] += 1e-3
    output = (wide + 5e-4).float()
    finding = check([output], _expected(wide, narrow), WHOLE)
    assert finding is not None and "root mean square" in finding.message


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_and_booleans_are_exact(dtype: torch.dtype) -> None:
    right = torch.randint(0, 2, (10, 10)).to(dtype)
    wrong = right.clone()
    wrong[3, 4] = (right[3, 4] == 0).to(dtype)
    known = Expected([right], [right], 0)
    assert check([right.clone()], known, WHOLE) is None
    finding = check([wrong], known, WHOLE)
    assert finding is not None and "[3, 4]" in finding.message


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_special_values_stand_where_eagers_stand(special: float) -> None:
    wide = torch.randn(10, 10, dtype=torch.float64)
    wide[2, 3] = special
    good = wide.float()
    assert check([good], _expected(wide), WHOLE) is None
    for other in (0.0, math.nan, math.inf, -math.inf):
        if str(other) == str(special):
            continue
        bad = good.clone()
        bad[2, 3] = other
        finding = check([bad], _expected(wide), WHOLE)
        assert finding is not None and finding.reason == "nan_mismatch"
        assert "[2, 3]" in finding.message


def test_where_eager_overflows_and_the_oracle_does_not_eager_is_followed() -> None:
    wide = torch.ones(10, 10, dtype=torch.float64)
    wide[0, 0] = 1e200
    narrow = wide.float()
    assert check([narrow.clone()], _expected(wide, narrow), WHOLE) is None


def test_another_order_of_summation_in_float64_is_right_though_eager_is_its_own_oracle() -> None:
    x = torch.randn(16, 37, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) + 2
    centred = x - x.mean(-1, keepdim=True)
    total = torch.zeros(16, dtype=torch.float64)
    for column in x.unbind(-1):
        total += column
    other = x - (total / 37)[:, None]
    assert not torch.equal(other, centred)
    assert check([other], Expected([centred], [centred], 37), WHOLE) is None
    assert check([centred * (1 + 1e-13)], Expected([centred], [centred], 37), WHOLE) is not None


def test_an_infinity_may_become_what_either_precision_of_eager_makes_of_it() -> None:
    narrow, wide = torch.randn(4, 64), torch.randn(4, 64).double()
    wide[:] = narrow.double()
    narrow[1, 2], wide[1, 2] = math.nan, math.inf
    known = Expected([narrow], [wide], 0)
    assert check([narrow], known, WHOLE) is None
    assert check([wide.float()], known, WHOLE) is None
    for other in (0.0, -math.inf):
        wrong = narrow.clone()
        wrong[1, 2] = other
        finding = check([wrong], known, WHOLE)
        assert finding is not None and finding.reason == "nan_mismatch"


def test_complex_outputs_are_compared_part_by_part() -> None:
    wide = torch.randn(10, 10, dtype=torch.complex128)
    narrow = wide.to(torch.complex64)
    known = Expected([narrow], [wide], 0)
    assert check([narrow.clone()], known, WHOLE) is None
    bad = narrow.clone()
    bad[1, 1] += 0.1j
    assert check([bad], known, WHOLE) is not None


def test_double_complex_outputs_are_not_held_to_the_tolerance_of_single_ones() -> None:
    wide = torch.randn(40, 40, dtype=torch.complex128)
    known = Expected([wide.clone()], [wide], 0)
    assert check([wide.clone()], known, WHOLE) is None
    rounded = check([wide.to(torch.complex64).to(torch.complex128)], known, WHOLE)
    assert rounded is not None and rounded.reason == "wrong_result"


def test_messages_stay_short() -> None:
    wide = torch.randn(50, 60, dtype=torch.float64)
    finding = check([torch.zeros(50, 60)], _expected(wide), WHOLE)
    assert finding is not None
    assert len(finding.during("x" * 700).message) <= 600


def test_a_row_has_at_least_64_elements_and_never_those_of_another_call() -> None:
    values = torch.arange(64.0).reshape(2, 2, 2, 8)
    assert row_rms(values).shape == (1, 1, 1, 1)
    assert row_rms(values, 1).shape == (2, 1, 1, 1)
    assert row_rms(torch.ones(3, 64)).shape == (3, 1)
    assert row_rms(torch.tensor(-2.0)) == 2


def test_a_value_that_nearly_cancels_is_held_to_what_went_into_it() -> None:
    wide = torch.randn(4, 16, 8, dtype=torch.float64)
    wide[0, 0] = 1e-4
    output = wide.float()
    output[0, 0] += 2 * EPS
    assert check([output], _expected(wide), WHOLE) is None


def test_only_0_and_1_are_booleans() -> None:
    true = torch.ones(8, dtype=torch.bool)
    two = torch.full((8,), 2, dtype=torch.uint8).view(torch.bool)
    finding = check([two], Expected([true], [true], 0), WHOLE)
    assert finding is not None
    assert "is 2, expected exactly 1" in finding.message


@pytest.mark.parametrize(("style", "passes"), [("large mean", True), ("scale 1", False)])
def test_a_large_mean_forgives_the_precision_that_it_takes(style: str, passes: bool) -> None:
    wide = torch.randn(64, 64, dtype=torch.float64)
    blocks = Blocks(BlockAxis(), (style,), (0,))
    assert (check([(wide * (1 + 200 * EPS)).float()], _expected(wide), blocks) is None) == passes
