"""Timed outputs against eager's."""

from __future__ import annotations

import torch

from kforge_mcp.runtime.checks import Errors
from kforge_mcp.runtime.fingerprint import POSITIONS, PROJECTIONS, Fingerprints
from kforge_mcp.runtime.inputs import BlockAxis, Blocks

WHERE = BlockAxis(2, 0)
NAMES = ("one", "two")


def _fingerprints(error: float = 1e-7) -> Fingerprints:
    errors = {name: Errors(largest=4 * error, rmse=error, rms=1.0) for name in NAMES}
    return Fingerprints([errors], 0, 3)


def _batch(calls: int, rows: int, width: int) -> tuple[list[list[torch.Tensor]], list[Blocks]]:
    blocks = [Blocks(WHERE, NAMES, (0, 1) if call % 2 else (1, 0)) for call in range(calls)]
    return [[torch.randn(rows, width)] for _ in range(calls)], blocks


def test_the_numbers_of_the_design() -> None:
    assert (POSITIONS, PROJECTIONS) == (8192, 64)


def test_equal_outputs_pass_and_noise_of_eagers_size_too() -> None:
    eager, blocks = _batch(3, 64, 256)
    noisy = [[outputs[0] + 1e-7 * torch.randn(64, 256)] for outputs in eager]
    assert _fingerprints().compare(eager, eager, blocks) is None
    assert _fingerprints().compare(noisy, eager, blocks) is None


def test_one_wrong_element_of_a_large_output_is_found_by_projections() -> None:
    eager, blocks = _batch(1, 512, 1024)
    wrong = [[eager[0][0].clone()]]
    wrong[0][0][200, 5] += 1.0
    assert _fingerprints().compare(wrong, eager, blocks) is not None


def test_one_wrong_call_of_a_batch_is_found() -> None:
    eager, blocks = _batch(5, 8, 16)
    wrong = [[outputs[0].clone()] for outputs in eager]
    wrong[3][0][2, 2] += 1e-3
    finding = _fingerprints().compare(wrong, eager, blocks)
    assert finding is not None and "[2, 2]" in finding.message


def test_each_style_has_its_own_tolerance() -> None:
    errors = {"one": Errors(1.0, 1.0, 1.0), "two": Errors(1e-7, 1e-7, 1.0)}
    eager, blocks = _batch(2, 64, 64)
    rows_of_two = blocks[0].rows(64) == 1
    wrong = [[outputs[0].clone()] for outputs in eager]
    wrong[0][0][rows_of_two] += 1e-3
    finding = Fingerprints([errors], 0, 3).compare(wrong, eager, blocks)
    assert finding is not None
    loose = [[outputs[0].clone()] for outputs in eager]
    loose[0][0][~rows_of_two] += 1e-3
    assert Fingerprints([errors], 0, 3).compare(loose, eager, blocks) is None


def test_integers_are_exact_and_specials_stand_where_eagers_stand() -> None:
    blocks = [Blocks(BlockAxis(), ("one",), (0,))]
    counts = torch.arange(10)
    other = counts.clone()
    other[4] += 1
    integers = Fingerprints([{}], 0, 3)
    assert integers.compare([[counts]], [[counts.clone()]], blocks) is None
    finding = integers.compare([[other]], [[counts]], blocks)
    assert finding is not None and "[4]" in finding.message
    floats = Fingerprints([{"one": Errors(1e-7, 1e-7, 1.0)}], 0, 3)
    eager = torch.randn(10)
    eager[3] = torch.nan
    assert floats.compare([[eager.clone()]], [[eager]], blocks) is None
    finding = floats.compare([[torch.nan_to_num(eager)]], [[eager]], blocks)
    assert finding is not None and finding.reason == "nan_mismatch"


def test_scalars_and_complex_outputs() -> None:
    blocks = [Blocks(BlockAxis(), ("one",), (0,))] * 2
    errors = [{"one": Errors(1e-7, 1e-7, 1.0)}]
    scalars = [[torch.tensor(1.0)], [torch.tensor(2.0)]]
    assert Fingerprints(errors, 0, 3).compare(scalars, scalars, blocks) is None
    assert Fingerprints(errors, 0, 3).compare(scalars[::-1], scalars, blocks) is not None
    numbers = [[torch.randn(3, 4, dtype=torch.complex64)] for _ in blocks]
    assert Fingerprints(errors, 0, 3).compare(numbers, numbers, blocks) is None
