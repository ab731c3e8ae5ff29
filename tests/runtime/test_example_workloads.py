"""The example workloads of real sizes, built without memory: what they hold, not what they compute."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "workloads"
HELD = {
    "sd35_transformer": (2_243_171_520, {"RMSNorm": 122, "JointTransformerBlock": 24}),
    "sd35_vae_decode": (83_819_683, {"GroupNorm": 52}),
    "gemma4_e2b": (4_628_569_344, {"Gemma4RMSNorm": 242}),
    "qwen35_35b_a3b": (34_660_610_688, {"Qwen3_5MoeGatedDeltaNet": 30, "Qwen3_5MoeExperts": 40}),
}


def test_every_example_is_here():
    assert {path.stem for path in FOLDER.glob("*.py")} == set(HELD)


@pytest.mark.parametrize("name", HELD)
def test_an_example_has_the_published_models_sizes_and_lies_on_the_gpu(name):
    pytest.importorskip("diffusers" if name.startswith("sd35") else "transformers")
    source = (FOLDER / f"{name}.py").read_text()
    assert source.count('torch.device("cuda")') == 1
    # The same on a device without memory, which is all that a machine without a GPU can show.
    code = compile(source.replace('torch.device("cuda")', 'torch.device("meta")'), name, "exec")
    namespace: dict[str, object] = {"__name__": name}
    exec(code, namespace)
    model, args, *_ = namespace["build"]()  # type: ignore[operator]
    parameters, classes = HELD[name]
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert {tensor.device.type for tensor in [*model.parameters(), *model.buffers(), *args]} == {"meta"}
    held = Counter(type(module).__name__ for module in model.modules())
    assert {key: held[key] for key in classes} == classes
