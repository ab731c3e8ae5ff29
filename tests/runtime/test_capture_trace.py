"""What is counted when eager runs once under a dispatch mode, and what cannot be counted."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime.capture_trace import trace

_NODES = torch.randn(6, 4)


def _of(run, *tensors):
    return trace(run, tensors)


def test_an_integer_index_depends_on_no_values_and_a_mask_does():
    index, mask = torch.tensor([0, 5]), torch.tensor([True, False, True, False, True, False])
    assert _of(lambda: _NODES[index], _NODES).value_dependent == ""
    assert _of(lambda: _NODES[:, None][index, 0], _NODES).value_dependent == ""
    assert _of(lambda: _NODES[mask], _NODES).value_dependent == "aten.index"
    assert _of(lambda: torch.nonzero(_NODES), _NODES).value_dependent == "aten.nonzero"


def test_a_recurrent_layer_counts_its_matrix_products():
    layer = torch.nn.LSTM(8, 16, bidirectional=True).eval()
    given = torch.randn(5, 3, 8)
    one_direction = 2 * (5 * 3) * (4 * 16) * (8 + 16)
    assert _of(lambda: layer(given), given).flops == 2 * one_direction


@pytest.mark.parametrize("words", [4, 4000])
def test_a_bag_reads_no_more_of_its_table_than_it_gathers(words):
    table, ids = torch.randn(100, 8), torch.randint(0, 100, (words,))
    offsets = torch.arange(0, words, 2)
    seen = _of(lambda: torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum"), table)
    assert seen.input_bytes == min(words, 100) * 8 * 4
