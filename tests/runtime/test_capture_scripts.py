"""Scripts and library models as workloads."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kforge_mcp.runtime.capture import capture
from kforge_mcp.runtime.entry import import_file, load_workload
from kforge_mcp.runtime.entry_script import defined_names
from kforge_mcp.runtime.failures import Refusal

_number = itertools.count()
_SCRIPT = """
import argparse
import sys
import torch
from torch import nn

SCALE = 2.0
TABLE = {"a": 1.0}
computed = torch.arange(3).sum().item()


def double(x):
    return x * SCALE


def lifted(x):
    return x + computed


class Net(nn.Module):
    def forward(self, x):
        return lifted(double(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    print("running with", options.batch)
    model = Net().eval()
    with torch.no_grad():
        for size in (options.batch, 1):
            model(torch.ones(size, 4))


if __name__ == "__main__":
    main()
"""


def _script(folder: Path, text: str) -> Path:
    path = folder / f"script_{next(_number)}.py"
    path.write_text(text)
    return path


def _sampled(folder: Path, entry: str) -> dict:
    payload = {"pass": "sampling", "entry": entry, "project_dir": "", "target": "auto"}
    return capture({**payload, "blob_root": str(folder / "blobs"), "max_bytes": 1 << 30}, lambda event: None)


def test_a_script_runs_with_its_arguments_and_its_calls_are_the_workload(tmp_path, capfd):
    path = _script(tmp_path, _SCRIPT)
    before = list(sys.argv), sys.modules["__main__"], torch.nn.Module.__call__, torch.autograd._engine_run_backward
    workload = load_workload(f"{path} --batch 3", "")
    assert "running with 3" in capfd.readouterr().out
    assert [tuple(args[0].shape) for args, _ in workload.calls] == [(3, 4), (1, 4)]
    assert type(workload.model).__module__ == path.stem
    after = list(sys.argv), sys.modules["__main__"], torch.nn.Module.__call__, torch.autograd._engine_run_backward
    assert after == before
    assert torch.equal(workload.run()[1], torch.full((1, 4), 5.0))


def test_a_scripts_cards_can_be_rerun_where_it_is_not(tmp_path):
    path = _script(tmp_path, _SCRIPT)
    cards = {card["name"]: card for card in _sampled(tmp_path, f"{path} --batch 3")["cards"]}
    assert len(cards["double"]["variants"]) == 2
    assert cards["double"]["reference"]["imports"] == [{"name": path.stem, "path": str(path), "definitions": True}]
    assert cards["lifted"]["variants"] == []
    assert list(cards["lifted"]["refused"]) == ["uses computed, which the script computes when it runs"]
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); import torch\n"
        "from kforge_mcp.runtime.entry import import_file\n"
        f"module = import_file({path.stem!r}, {str(path)!r}, [], definitions=True)\n"
        "print(module.double(torch.ones(1)).item(), hasattr(module, 'computed'))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.split() == ["2.0", "False"]


def test_what_a_script_does_is_no_definition(tmp_path):
    text = """
import torch, math
try:
    import json
except ImportError:
    json = None
x = torch.randn(3)
y: int = 4
z = math.sqrt(2)
device = torch.device("cpu")
for i in range(3): print(i)
a, b = 1, [2]
model = build()
if __name__ == "__main__":
    run()
"""
    names = defined_names(str(_script(tmp_path, text)))
    assert names == {"torch", "math", "json", "y", "z", "device", "a", "b"}


def test_a_plain_script_without_a_guard_is_a_workload_too(tmp_path):
    path = _script(tmp_path, "import torch\nm = torch.nn.Linear(2, 2)\nwith torch.no_grad(): y = m(torch.ones(1, 2))\n")
    assert _sampled(tmp_path, str(path))["cards"][0]["name"] == "Linear"


def test_several_models_and_autocast_are_run_as_they_were(tmp_path):
    text = """
import torch
first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 2)
with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
    y = first(torch.ones(1, 4))
with torch.no_grad():
    second(y.float())
"""
    path = _script(tmp_path, text)
    workload = load_workload(str(path), "")
    assert [result.dtype for result in workload.run()] == [torch.bfloat16, torch.float32]
    assert [tuple(result.shape) for result in workload.run()] == [(1, 4), (1, 2)]


def test_many_calls_are_cut_and_that_is_said(tmp_path):
    text = "import torch\nm = torch.nn.Identity()\nfor _ in range(100): m(torch.ones(1))\n"
    workload = load_workload(str(_script(tmp_path, text)), "")
    assert len(workload.calls) == 64
    assert workload.notes == ["the script called its models 100 times; the first 64 calls are captured"]


def test_a_module_of_a_package_runs_with_dash_m(tmp_path, monkeypatch):
    package = tmp_path / f"package_{next(_number)}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "parts.py").write_text("import torch\nclass Part(torch.nn.Linear):\n    pass\n")
    (package / "run.py").write_text(
        "from .parts import Part\nimport sys, torch\nPart(2, int(sys.argv[1]))(torch.ones(1, 2))\n"
    )
    workload = load_workload(f"-m {package.name}.run 3", str(tmp_path))
    assert workload.model.out_features == 3
    assert workload.imports[0]["name"] == f"{package.name}.run"


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("print(1)\n", "contract", "without calling any torch.nn.Module"),
        ("raise SystemExit(3)\n", "user_error", "SystemExit: 3"),
        ("def f():\n    return 1 / 0\nf()\n", "user_error", "in f"),
        (
            "import torch\nm = torch.nn.Linear(2, 2)\ntry:\n    m(torch.ones(2)).sum().backward()\n"
            "except Exception:\n    pass\n",
            "contract",
            "trains: it computes gradients",
        ),
    ],
)
def test_scripts_that_cannot_be_captured_say_why(tmp_path, text, kind, said):
    with pytest.raises(Refusal) as caught:
        load_workload(str(_script(tmp_path, text)), "")
    assert caught.value.kind == kind
    assert said in str(caught.value)


def test_leaving_with_success_is_no_error(tmp_path):
    text = "import sys, torch\ntorch.nn.Identity()(torch.ones(1))\nsys.exit(0)\n"
    assert len(load_workload(str(_script(tmp_path, text)), "").calls) == 1


def test_a_script_is_imported_without_running(tmp_path):
    path = _script(tmp_path, "import torch\ndef f(x): return x\nraise SystemExit(1)\n")
    module = import_file(path.stem, str(path), [], definitions=True)
    assert module.f(1) == 1


def test_a_transformers_class_is_built_from_its_config():
    entry = (
        "transformers:LlamaForCausalLM hidden_size=32 intermediate_size=48 num_hidden_layers=1 num_attention_heads=2 "
        "num_key_value_heads=2 vocab_size=64 batch=2 length=5"
    )
    workload = load_workload(entry, "")
    ((args, kwargs),) = workload.calls
    assert args == ()
    assert kwargs["input_ids"].shape == (2, 5)
    assert workload.run()[0].logits.shape == (2, 5, 64)
    assert not workload.model.training


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        (
            "transformers:WhisperModel d_model=16 encoder_layers=1 decoder_layers=1 encoder_attention_heads=2 "
            "decoder_attention_heads=2 encoder_ffn_dim=16 decoder_ffn_dim=16 vocab_size=64 max_source_positions=20 "
            "pad_token_id=0 bos_token_id=1 eos_token_id=2 decoder_start_token_id=1",
            {"input_features", "decoder_input_ids"},
        ),
        (
            "transformers:ViTModel hidden_size=16 num_hidden_layers=1 num_attention_heads=2 intermediate_size=16 "
            "image_size=32 patch_size=8",
            {"pixel_values"},
        ),
    ],
)
def test_inputs_fit_what_a_model_takes(entry, names):
    workload = load_workload(entry, "")
    assert set(workload.calls[0][1]) == names
    workload.run()


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("transformers:LlamaForCausalML", "near it: LlamaForCausalLM"),
        ("transformers:LlamaModel hidden_size", "give key=value"),
        ("transformers:LlamaModel hidden_size=65536 num_hidden_layers=80", "Give smaller sizes"),
        ("transformers:no/such/model", "no transformers model at hand"),
        ("model.txt", "is none of"),
        ("-m no_such_module_anywhere", "no Python module"),
    ],
)
def test_entries_that_name_nothing_say_what_there_is(entry, said):
    with pytest.raises(Refusal, match=said):
        load_workload(entry, "")


def test_a_torchvision_model_is_built_with_random_weights(tmp_path, monkeypatch):
    """By a stand-in for the library's registry, so that the test needs no torchvision."""
    folder = tmp_path / "torchvision"
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import models\n")
    (folder / "models.py").write_text(
        "import torch\n"
        "def tiny(weights=0, width=2):\n    assert weights is None\n    return torch.nn.Conv2d(3, width, 1)\n"
        "def get_model_builder(name):\n    if name != 'tiny': raise ValueError(name)\n    return tiny\n"
        "def list_models():\n    return ['tiny']\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    workload = load_workload("torchvision:tiny width=5 batch=2", "")
    assert workload.run()[0].shape == (2, 5, 224, 224)
    with pytest.raises(Refusal, match="near it: tiny"):
        load_workload("torchvision:tini", "")
    for name in ("torchvision", "torchvision.models"):
        sys.modules.pop(name, None)
