"""The capture job end to end, in a model interpreter that the control plane does not share."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from kforge_mcp.capture.entries import Entry
from kforge_mcp.capture.job import _Passes, capture
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import RuntimeFailure, UsageError
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, Interpreter
from kforge_mcp.store import cards as card_store
from kforge_mcp.store import projects as project_store

LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

print("building the model")

def build():
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=128, max_position_embeddings=64, use_cache=False,
    )
    return LlamaForCausalLM(config).eval(), (torch.randint(0, 128, (1, 32)),)
"""

SMALL = """
import os, sys, time
import torch
from torch import nn

class Fails(nn.Module):
    def forward(self, x):
        print("about to fail")
        return self.inner(x)
    def inner(self, x):
        raise ValueError("shapes do not match")

class Dies(nn.Module):
    def forward(self, x):
        print("last words", flush=True)
        os._exit(7)

class Hangs(nn.Module):
    def forward(self, x):
        time.sleep(600)

x = torch.ones(2, 4)
def good(): return nn.LayerNorm(4), x
def fails(): return Fails(), x
def dies(): return Dies(), x
def hangs(): return Hangs(), x
def wrong(): return x
"""


@pytest.fixture
def quick_ceilings(monkeypatch):
    """Ceilings without the seconds that measuring takes; they are tested where they are measured."""
    ceilings = Ceilings(bandwidth_gbs={1 << 18: 50.0, 1 << 26: 20.0}, gflops={"fp32": 50.0})
    monkeypatch.setattr("kforge_mcp.capture.job.known_or_measured", lambda *arguments: ceilings)


@pytest.fixture
def run(workspace, tmp_path, model_python, quick_ceilings, monkeypatch):
    """Capture an entry in a context of its own."""
    monkeypatch.setattr("kforge_mcp.capture.job._TIMING_S", 1.0)

    def call(text: str, function: str, **changes: object) -> dict:
        (tmp_path / "workload.py").write_text(text)
        arguments = {
            "entry": f"workload.py:{function}",
            "name": "",
            "target": "auto",
            "python": model_python,
            "project_dir": str(tmp_path),
            "timeout_s": 300.0,
            **changes,
        }
        with JobContext.standalone(workspace, "capture_model") as ctx:
            return capture(ctx, **arguments)  # type: ignore[arg-type]

    return call


def _cards(workspace, project_id: str) -> dict[str, OperatorCard]:
    with workspace.reading() as session:
        return {card.name: card for card in card_store.of_project(session, project_id)}


def test_an_unmodified_llama_becomes_cards(run, workspace, tmp_path, model_python):
    result = run(LLAMA, "build", name="tiny")
    assert result["name"] == "tiny"
    assert result["target"] == "cpu"
    assert result["entry_path"] == str((tmp_path / "workload.py").resolve())
    assert result["interpreter"]["executable"] == model_python
    # Whether Python's part is most of the time depends on what else the machine does.
    assert [note for note in result["notes"] if "bound by Python and launches" not in note] == []
    cards = _cards(workspace, result["project_id"])
    assert result["cards"] == len(cards)

    norm = cards["LlamaRMSNorm"]
    assert (norm.level, norm.eligible, norm.reason, norm.calls) == ("module", True, "", 5)
    (variant,) = norm.variants
    assert [argument.name for argument in variant.arguments] == ["hidden_states", "weight", "variance_epsilon"]
    assert variant.calls == 5
    assert variant.eager_us > 0
    assert variant.speed_of_light_us > 0
    assert norm.parents == ["LlamaDecoderLayer", "LlamaModel"]

    rotary = cards["apply_rotary_pos_emb"]
    assert (rotary.level, rotary.eligible, rotary.calls) == ("function", True, 2)
    assert rotary.children == ["rotate_half", "torch.add", "torch.mul", "torch.unsqueeze"]
    assert rotary.patch_sites == ["transformers.models.llama.modeling_llama:apply_rotary_pos_emb"]
    assert "def rotate_half" in rotary.reference_source
    (variant,) = rotary.variants
    assert [argument.name for argument in variant.arguments] == ["q", "k", "cos", "sin", "unsqueeze_dim"]
    assert variant.arguments[-1].value == 1
    assert len(variant.outputs) == 2

    assert {"LlamaMLP", "Linear", "Embedding", "LlamaRotaryEmbedding", "rotate_half"} <= set(cards)
    root = cards["LlamaForCausalLM"]
    assert not root.eligible
    assert root.reason == "is the whole model; see its parts"
    assert root.gain_ceiling == 1.0
    assert all(0 <= card.own_share <= card.share <= 1 for card in cards.values())
    for level in ("torch", "function", "module"):
        assert sum(card.own_share for card in cards.values() if card.level == level) <= 1 + 1e-9
    linear = cards["torch.nn.functional.linear"]
    assert (linear.level, linear.eligible, linear.calls) == ("torch", True, 15)
    assert {"Linear", "LlamaForCausalLM"} >= set(linear.parents)
    assert all(card.gain_ceiling >= 1 for card in cards.values())
    for card in cards.values():
        for variant in card.variants:
            assert all(workspace.blobs.has(spec.sample) and spec.recipe for spec in variant.tensors)

    with workspace.reading() as session:
        project = project_store.get(session, result["project_id"])
    assert project.workload_us > 0
    assert 0 < project.idle_share < 1
    assert project.workload_calls == 1
    assert project.device.threads >= 1
    assert project.backend_flags["float32_matmul_precision"] == "highest"
    assert "building the model" in workspace.blobs.get(project.log).decode()


@pytest.mark.parametrize(
    ("function", "changes", "said"),
    [
        ("absent", {}, "functions that exist there: good, fails, dies, hangs, wrong"),
        ("wrong", {}, "return (model, args)"),
        ("fails", {}, 'raise ValueError("shapes do not match")'),
        ("dies", {}, "exit status 7"),
        ("dies", {}, "last words"),
        ("hangs", {"timeout_s": 8.0}, "Raise timeout_s"),
        ("good", {"python": "/no/such/python"}, "/no/such/python"),
        ("good", {"target": "cuda"}, "target_unavailable"),
        ("good", {"entry": "other.py:good"}, "there is no such file"),
    ],
)
def test_what_goes_wrong_is_named_and_nothing_is_stored(run, workspace, function, changes, said):
    with pytest.raises(UsageError) as caught:
        run(SMALL, function, **changes)
    assert said in str(caught.value)
    with workspace.reading() as session:
        assert project_store.all(session) == []


class _Failing:
    """The passes' processes, of which the first sampling ones lose the GPU."""

    def __init__(self, lost: list[str]) -> None:
        self.lost = lost
        self.asked: list[list[str]] = []

    def __call__(self, passes, process, operation, payload, start=0.0, end=0.0):
        self.asked.append(list(payload["lost"]))
        if self.lost:
            raise RuntimeFailure("device_lost", self.lost.pop(0))
        return {"cards": []}


@pytest.fixture
def sample_with(workspace, monkeypatch):
    """The sampling pass of a job whose processes answer as told."""

    def run(failing: _Failing) -> dict:
        monkeypatch.setattr(_Passes, "_call", lambda passes, *arguments: failing(passes, *arguments))
        monkeypatch.setattr(_Passes, "_process", lambda passes: nullcontext())
        interpreter = Interpreter(executable="p", found_by="server", python_version="3.12", torch_version="2.11")
        with JobContext.standalone(workspace, "capture_model") as ctx:
            entry = Entry("function", "model.py:build", "model")
            return _Passes(ctx, entry, interpreter, "", "cuda", 60.0).sample("blobs")

    return run


def test_a_proof_that_costs_the_gpu_is_left_out_in_a_new_process(sample_with):
    failing = _Failing(["function m:f #0", "torch torch:gather #2"])
    assert sample_with(failing) == {"cards": []}
    assert failing.asked == [[], ["function m:f #0"], ["function m:f #0", "torch torch:gather #2"]]


def test_a_gpu_lost_again_and_again_ends_the_capture(sample_with):
    with pytest.raises(UsageError, match=r"cost the GPU 6 times \(function m:f #0\)"):
        sample_with(_Failing(["function m:f #0"] * 7))


SCRIPT = """
import argparse
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int)
    rows = parser.parse_args().rows
    print("rows:", rows)
    Net()(torch.randn(rows, 4))
"""


def test_a_script_becomes_a_project_with_its_output_as_log(run, workspace, tmp_path):
    result = run(SCRIPT, "", entry="workload.py --rows 3")
    with workspace.reading() as session:
        project = project_store.get(session, result["project_id"])
    assert project.name == "workload"
    assert project.entry_path == str((tmp_path / "workload.py").resolve())
    assert project.resolved_entry == f"{project.entry_path} --rows 3"
    assert "rows: 3" in workspace.blobs.get(project.log).decode()
    (variant,) = _cards(workspace, project.project_id)["torch.nn.functional.tanh"].variants
    assert variant.tensors[0].shape == [3, 4]


def test_a_syntax_error_shows_the_users_line(run):
    with pytest.raises(UsageError, match=r"SyntaxError(.|\n)*def build\(:"):
        run("def build(:\n", "build")


def test_one_workload_can_be_captured_twice(run, workspace):
    first, second = run(SMALL, "good"), run(SMALL, "good")
    assert first["project_id"] != second["project_id"]
    assert list(_cards(workspace, first["project_id"])) == ["LayerNorm", "torch.nn.functional.layer_norm"]
    assert Path(second["entry_path"]).name == "workload.py"
