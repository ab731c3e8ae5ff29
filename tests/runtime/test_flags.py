"""Backend settings: recorded and set again, however they were spelled."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime import flags


@pytest.fixture(autouse=True)
def _restored():
    before = flags.read()
    yield
    flags.apply(before)
    assert flags.read() == before


def test_tf32_is_recorded_and_restored_by_its_old_name():
    before = flags.read()
    torch.backends.cuda.matmul.allow_tf32 = True
    wanted = flags.read()
    assert wanted["float32_matmul_precision"] == "high"
    assert wanted["cuda_matmul_fp32"] == "tf32"
    flags.apply(before)
    assert flags.read() == before
    flags.apply(wanted)
    assert flags.read() == wanted


def test_settings_that_only_have_new_names_are_recorded_too():
    """torch refuses to say one precision of matrix products where its libraries were given several."""
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    torch.backends.cudnn.conv.fp32_precision = "ieee"
    wanted = flags.read()
    assert "float32_matmul_precision" not in wanted
    assert (wanted["cuda_matmul_fp32"], wanted["cudnn_conv_fp32"]) == ("tf32", "ieee")
    torch.backends.cudnn.conv.fp32_precision = "tf32"
    flags.apply(wanted)
    assert flags.read() == wanted


@pytest.mark.parametrize("name", ["cudnn_sdp", "cuda_reduced_bf16_sums", "cudnn"])
def test_choices_of_the_gpu_are_flags(name):
    before = flags.read()
    flags.apply({name: not before[name]})
    assert flags.read()[name] is not before[name]
