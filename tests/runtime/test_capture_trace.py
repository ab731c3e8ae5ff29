"""What is counted when eager runs once under a dispatch mode, and what cannot be counted."""

from __future__ import annotations

import pytest
import torch

from kforge_mcp.runtime import capture_trace
from kforge_mcp.runtime.capture_trace import trace

_NODES = torch.randn(6, 4)
_INTEGERS = torch.ones(32, 32, dtype=torch.int8)


def _of(run, *tensors):
    return trace(run, tensors)


def test_an_integer_index_depends_on_no_values_and_a_mask_does():
    index, mask = torch.tensor([0, 5]), torch.tensor([True, False, True, False, True, False])
    assert _of(lambda: _NODES[index], _NODES).value_dependent == ""
    assert _of(lambda: _NODES[:, None][index, 0], _NODES).value_dependent == ""
    assert _of(lambda: _NODES[mask], _NODES, mask).value_dependent == "aten.index"
    constant = _of(lambda: _NODES[torch.arange(6) < 3], _NODES)
    assert (constant.value_dependent, constant.hidden) == ("", None)
    assert _of(lambda: _NODES[mask], _NODES).hidden is mask
    assert _of(lambda: torch.nonzero(_NODES), _NODES).value_dependent == "aten.nonzero"


def test_a_recurrent_layer_counts_its_matrix_products():
    layer = torch.nn.LSTM(8, 16, bidirectional=True).eval()
    given = torch.randn(5, 3, 8)
    one_direction = 2 * (5 * 3) * (4 * 16) * (8 + 16)
    assert _of(lambda: layer(given), given).flops == 2 * one_direction


_ROWS, _EXPERTS = torch.randn(16, 32), torch.randn(4, 32, 8)
_ENDS = torch.tensor([4, 8, 12, 16], dtype=torch.int32)
_SQUARE = torch.eye(6) + torch.randn(6, 6).tril(-1)


@pytest.mark.parametrize(
    ("run", "flops"),
    [
        (lambda: torch._grouped_mm(_ROWS.bfloat16(), _EXPERTS.bfloat16(), offs=_ENDS), 2 * 16 * 32 * 8),
        (
            lambda: torch._grouped_mm(
                _EXPERTS.transpose(1, 2).contiguous().bfloat16(), _ROWS.T.contiguous().bfloat16(), offs=_ENDS
            ),
            2 * 8 * 32 * 16,
        ),
        (lambda: torch.mv(_NODES, torch.ones(4)), 2 * 6 * 4),
        (lambda: _NODES @ torch.ones(4), 2 * 6 * 4),
        (lambda: torch.addmv(torch.ones(6), _NODES, torch.ones(4)), 2 * 6 * 4),
        (lambda: torch.dot(torch.ones(5), torch.ones(5)), 2 * 5),
        (lambda: torch._int_mm(_INTEGERS, _INTEGERS), 2 * 32**3),
        (lambda: torch.linalg.solve_triangular(_SQUARE, _NODES, upper=False), 6 * 6 * 4),
        (lambda: _NODES * 2, 0),
    ],
)
def test_products_that_torch_does_not_count_are_counted(run, flops):
    assert _of(run).flops == flops


@pytest.mark.parametrize("words", [4, 4000])
def test_a_bag_reads_no_more_of_its_table_than_it_gathers(words):
    table, ids = torch.randn(100, 8), torch.randint(0, 100, (words,))
    offsets = torch.arange(0, words, 2)
    seen = _of(lambda: torch.nn.functional.embedding_bag(ids, table, offsets, mode="sum"), table)
    assert seen.input_bytes == min(words, 100) * 8 * 4


@pytest.mark.parametrize(
    "name",
    [
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    ],
)
@pytest.mark.parametrize(("heads", "shared"), [(4, 4), (4, 2), (4, 1)])
def test_attention_counts_both_products_of_each_query_head(name, heads, shared):
    query = torch.empty(2, heads, 5, 8, device="meta")
    key, value = torch.empty(2, shared, 7, 8, device="meta"), torch.empty(2, shared, 7, 16, device="meta")
    packet = getattr(torch.ops.aten, name)
    assert capture_trace._flops(packet, (query, key, value), {}, None) == 2 * 2 * heads * 5 * 7 * (8 + 16)


def test_attention_with_shared_heads_is_traced():
    query, key = torch.randn(1, 4, 16, 8), torch.randn(1, 2, 16, 8)
    seen = trace(
        lambda: torch.nn.functional.scaled_dot_product_attention(query, key, key, enable_gqa=True), [query, key]
    )
    assert seen.flops == 4 * 4 * 16 * 16 * 8
