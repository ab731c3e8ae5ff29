"""Capture of workloads on a GPU, through the job that `capture_model` runs."""

from __future__ import annotations

import subprocess

import pytest

from kforge_mcp.capture.job import capture
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import UsageError
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Ceilings, Project
from kforge_mcp.store import cards as card_store
from kforge_mcp.store import projects as project_store

MODEL = """
import torch
from torch import nn

def product_index(table, first, second):
    # The captured products are indices; those of other integers of the same ranges are not.
    return torch.gather(table.reshape(-1), 0, first * second)

class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = Norm(size)
        self.up = nn.Linear(size, 4 * size, bias=False)
        self.down = nn.Linear(4 * size, size, bias=False)
    def forward(self, x):
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))

class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.table = nn.Embedding(64, size)
        self.first, self.second = Block(size), Block(size)
    def forward(self, tokens, first, second):
        x = self.second(self.first(self.table(tokens)))
        summed = torch.zeros_like(x).index_add_(0, tokens, x)
        return x.sum() + summed.sum() + product_index(self.table.weight, first, second).sum()

def build(device="cuda", size=2048):
    torch.manual_seed(0)
    with torch.device(device):
        model = Model(size).to(torch.bfloat16).eval()
        tokens = torch.randint(0, 64, (4096,))
        first = torch.tensor([1, 60_000, 2, 50])
        second = torch.tensor([60_000, 1, 400, 100])
    return model, (tokens, first, second)

def on_cpu():
    return build("cpu", 1024)
"""


@pytest.fixture(scope="module", autouse=True)
def _gpu(model_python: str) -> None:
    code = "import torch; print(torch.cuda.is_available())"
    said = subprocess.run([model_python, "-c", code], capture_output=True, text=True, check=False)
    if said.stdout.strip() != "True":
        pytest.skip(f"needs a GPU: torch.cuda.is_available() is not True in {model_python}")


@pytest.fixture
def run(workspace, tmp_path, model_python, monkeypatch):
    """Capture an entry; answers with the tool's result, the project and its cards by name."""
    monkeypatch.setattr("kforge_mcp.capture.job._TIMING_S", 1.0)
    (tmp_path / "workload.py").write_text(MODEL)

    def call(entry: str, target: str = "auto") -> tuple[dict, Project, dict[str, OperatorCard]]:
        with JobContext.standalone(workspace, "capture_model") as ctx:
            result = capture(
                ctx,
                entry=entry,
                name="",
                target=target,
                python=model_python,
                project_dir=str(tmp_path),
                timeout_s=300.0,
            )
        with workspace.reading() as session:
            project = project_store.get(session, result["project_id"])
            cards = {card.name: card for card in card_store.of_project(session, result["project_id"])}
        return result, project, cards

    return call


@pytest.fixture
def known_ceilings(monkeypatch):
    """Ceilings without the seconds that measuring takes."""
    ceilings = Ceilings(bandwidth_gbs={1 << 20: 1000.0, 1 << 30: 4000.0}, gflops={"fp32": 5e4, "bf16": 8e5})
    monkeypatch.setattr("kforge_mcp.capture.job.known_or_measured", lambda *arguments: ceilings)


def test_a_workload_on_the_gpu_becomes_cards_with_device_times(run, workspace):
    result, project, cards = run("workload.py:build")
    device = project.device
    assert (result["target"], device.target) == ("cuda", "cuda")
    assert device.uuid.startswith("GPU-")
    assert device.arch.startswith("sm_")
    assert device.driver
    assert device.sm_count > 0
    assert device.l2_bytes > 0
    assert device.ceilings is not None
    assert device.ceilings.gflops["bf16"] > device.ceilings.gflops["fp32"] > 0
    assert project.workload_us > 0
    assert 0 <= project.idle_share < 1
    for level in ("torch", "function", "module"):
        assert sum(card.own_share for card in cards.values() if card.level == level) <= 1 + 1e-6
    # Four products of 4096 x 2048 x 8192 against a few passes over their operands.
    assert cards["torch.nn.functional.linear"].share > 0.3
    assert cards["Linear"].share == pytest.approx(cards["torch.nn.functional.linear"].share, rel=0.2)
    norm = cards["Norm"]
    assert (norm.eligible, norm.reason, norm.calls) == (True, "", 2)
    (variant,) = norm.variants
    assert {spec.device for spec in [*variant.tensors, *variant.outputs]} == {"cuda"}
    assert all(workspace.blobs.has(spec.sample) for spec in variant.tensors)
    assert variant.eager_us > variant.speed_of_light_us > 0


def test_integers_that_only_fit_together_keep_their_values_and_cost_one_pass_not_the_capture(run, known_ceilings):
    _, _, cards = run("workload.py:build")
    card = cards["product_index"]
    assert card.eligible, card.reason
    kinds = [spec.recipe.kind for spec in card.variants[0].tensors if spec.recipe]
    assert kinds == ["quantiles", "constant", "constant"]


def test_beyond_the_budget_recipes_stand_in_for_samples(run, known_ceilings, monkeypatch):
    monkeypatch.setattr("kforge_mcp.capture.job.MAX_SAMPLE_BYTES", 0)
    result, _, cards = run("workload.py:build")
    assert any("exceed max_bytes" in note for note in result["notes"])
    (variant,) = cards["Norm"].variants
    assert cards["Norm"].eligible
    assert [spec.sample for spec in variant.tensors] == ["", ""]


@pytest.mark.parametrize(
    ("entry", "target", "said"),
    [
        ("workload.py:build", "cpu", "target='cpu' was asked for, but the workload holds tensors on cuda:0"),
        ("workload.py:on_cpu", "cuda", "build model and inputs on the GPU"),
    ],
)
def test_a_workload_elsewhere_than_the_target_is_refused_with_what_to_change(run, entry, target, said):
    with pytest.raises(UsageError) as caught:
        run(entry, target)
    assert said in str(caught.value)


def test_a_workload_on_the_cpu_stays_there_beside_a_gpu(run, known_ceilings):
    result, project, _ = run("workload.py:on_cpu")
    assert (result["target"], project.device.uuid) == ("cpu", "")


def test_a_librarys_model_is_built_on_the_gpu(run, known_ceilings):
    sizes = "num_hidden_layers=1 hidden_size=64 intermediate_size=96 num_attention_heads=4 num_key_value_heads=2"
    result, project, cards = run(f"transformers:LlamaForCausalLM {sizes} vocab_size=128")
    assert result["target"] == "cuda"
    assert project.resolved_entry.endswith("device=cuda")
    assert cards["LlamaRMSNorm"].eligible
