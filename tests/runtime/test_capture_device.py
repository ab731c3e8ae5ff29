"""Where a workload runs: the refusals of a workload elsewhere, and digests that stay on the device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from kforge_mcp.runtime import device_digest as module
from kforge_mcp.runtime.capture_device import architecture, building_device, device_of, facts
from kforge_mcp.runtime.device_digest import device_digest
from kforge_mcp.runtime.entry import Workload
from kforge_mcp.runtime.entry_library import load_model
from kforge_mcp.runtime.failures import Refusal
from kforge_mcp.runtime.tensors import DTYPES, from_bytes, specification, to_bytes


def _on(*devices: str) -> Workload:
    """A workload whose inputs say that they are on these devices, which need not exist."""

    def claimed(device: str) -> torch.Tensor:
        kind = type("Claimed", (torch.Tensor,), {"device": property(lambda self: torch.device(device))})
        return torch.ones(2).as_subclass(kind)

    return Workload(nn.Identity(), [(tuple(claimed(device) for device in devices), {})])


@pytest.mark.parametrize(
    ("target", "devices", "found"),
    [
        ("auto", ["cpu"], "cpu"),
        ("cpu", ["cpu"], "cpu"),
        ("auto", ["cuda:0", "cpu"], "cuda:0"),
        ("cuda", ["cuda:1"], "cuda:1"),
    ],
)
def test_a_workload_is_on_the_gpu_that_any_of_its_tensors_is_on(target, devices, found):
    assert device_of(target, _on(*devices)) == torch.device(found)


@pytest.mark.parametrize(
    ("target", "devices", "said"),
    [
        ("cuda", ["cpu"], "the workload's tensors are on the cpu: build model and inputs on the GPU"),
        ("cpu", ["cuda:0"], "the workload holds tensors on cuda:0: build model and inputs on the cpu"),
        ("auto", ["cuda:0", "cuda:1"], "spread over cuda:0, cuda:1"),
        ("auto", ["meta"], "holds tensors on meta"),
    ],
)
def test_a_workload_elsewhere_is_refused_with_what_to_change(target, devices, said):
    with pytest.raises(Refusal) as caught:
        device_of(target, _on(*devices))
    assert "target_unavailable" in str(caught.value)
    assert said in str(caught.value)


def test_a_library_builds_on_the_gpu_where_there_is_one(monkeypatch):
    monkeypatch.setattr("kforge_mcp.runtime.capture_device.missing_cuda", lambda: "")
    assert [building_device(target) for target in ("auto", "cuda", "cpu")] == ["cuda", "cuda", "cpu"]
    monkeypatch.setattr("kforge_mcp.runtime.capture_device.missing_cuda", lambda: "no GPU")
    assert building_device("auto") == "cpu"


@pytest.mark.parametrize(("word", "said"), [("device=attic", "is no device"), ("device=cuda", "no usable GPU")])
def test_a_library_entry_names_a_device_that_exists(word, said):
    if word == "device=cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a usable GPU")
    with pytest.raises(Refusal, match=said):
        load_model("transformers", "LlamaForCausalLM", [word])


def test_architectures_are_those_of_the_very_chip_from_hopper_on():
    assert [architecture(*capability) for capability in ((8, 0), (8, 9), (9, 0), (10, 0))] == [
        "sm_80", "sm_89", "sm_90a", "sm_100a",
    ]  # fmt: skip


def test_facts_of_the_cpu_have_its_name_and_threads():
    found = facts(torch.device("cpu"))
    assert found["target"] == "cpu"
    assert found["threads"] == torch.get_num_threads()


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_a_digest_tells_one_changed_element_in_every_dtype(dtype):
    tensor = torch.randint(0, 2, (5, 7)).to(dtype)
    same = tensor.clone()
    assert device_digest(tensor) == device_digest(same)
    same.view(torch.uint8)[2, 3] ^= 1
    assert device_digest(tensor) != device_digest(same)


@given(st.binary(min_size=0, max_size=100), st.integers(0, 7), st.sampled_from([8, 24, 1 << 20]))
def test_a_digest_depends_on_contents_alone(data, offset, chunk):
    whole = torch.tensor([*bytes(offset), *data], dtype=torch.uint8)
    part = whole[offset:]
    expected = device_digest(part.clone())
    before, module._CHUNK_BYTES = module._CHUNK_BYTES, chunk
    try:
        assert device_digest(part) == expected
    finally:
        module._CHUNK_BYTES = before


@given(st.lists(st.integers(0, 3), min_size=2, max_size=40), st.data())
def test_equal_words_in_another_order_have_another_digest(values, data: Any):
    other = data.draw(st.permutations(values))
    one, two = torch.tensor(values), torch.tensor(other)
    assert (device_digest(one) == device_digest(two)) == (values == other)


def test_zeros_of_other_lengths_differ():
    digests = {device_digest(torch.zeros(count, dtype=torch.uint8)) for count in range(20)}
    assert len(digests) == 20


def test_layouts_and_bytes_survive_as_a_bytearray():
    tensor = torch.randn(64)[3:35].view(8, 4).t()
    spec = specification(tensor)
    assert spec["device"] == "cpu"
    restored = from_bytes(spec, bytearray(to_bytes(tensor)))
    assert torch.equal(restored, tensor)
    assert restored.stride() == tensor.stride()
    assert restored.data_ptr() % 64 == tensor.data_ptr() % 64
