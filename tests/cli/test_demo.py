"""The demo end to end on a small Llama: a real server over stdio, real capture, compilers, judge and package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kforge_mcp.cli.demo import repair

SMALL_LLAMA = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM


def build():
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        vocab_size=512, max_position_embeddings=256, use_cache=False,
    )
    return LlamaForCausalLM(config).eval(), (torch.randint(0, 512, (1, 256)),)
"""


@pytest.mark.slow
def test_the_demo_captures_repairs_searches_and_exports(tmp_path: Path, model_python: str) -> None:
    (tmp_path / "small_llama.py").write_text(SMALL_LLAMA)
    transcript = tmp_path / "calls.jsonl"
    command = [sys.executable, "-m", "kforge_mcp.cli.main", "demo", "--entry", "small_llama.py:build"]
    command += ["--workspace", "work", "--json", "rows.json", "--transcript", str(transcript)]
    environment = {
        **os.environ,
        "KFORGE_PYTHON": model_python,
        "OMP_WAIT_POLICY": "passive",
        "KFORGE_ENGINE_IDLE_S": "5",
    }
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode in (0, 1), done.stderr
    summary = json.loads((tmp_path / "rows.json").read_text())
    assert summary["succeeded"] == (done.returncode == 0)
    assert {row["level"] for row in summary["rows"]} == {"module", "function"}, done.stdout
    for row in summary["rows"]:
        assert row["verdict"] in ("faster", "slower", "no_difference_shown", ""), row
        assert row["included"] <= (row["verdict"] == "faster"), "only what held on fresh processes is packed"
    if summary["package"]:
        assert list(Path(summary["wheel"]).parent.glob("*.whl"))
        assert all(mode["outputs_equal"] for mode in summary["end_to_end"])
    calls = [json.loads(line) for line in transcript.read_text().splitlines()]
    results = [call["structured"] for call in calls if call.get("tool") == "submit_candidate"]
    assert any(result.get("reason") == "contract_error" for result in results), "the broken source is refused"
    assert "repaired from the text" in " ".join(done.stdout.split())


def test_a_tool_that_fails_ends_the_demo_with_its_sentence(tmp_path: Path, model_python: str) -> None:
    command = [sys.executable, "-m", "kforge_mcp.cli.main", "demo", "--entry", "missing.py:build", "--workspace", "w"]
    environment = {**os.environ, "KFORGE_PYTHON": model_python, "KFORGE_ENGINE_IDLE_S": "5"}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    said = " ".join((done.stdout + done.stderr).split())
    assert "there is no such file" in said
    assert "Traceback" not in said


def test_the_model_environment_is_free_to_take_the_cuda_packages_of_its_torch() -> None:
    root = Path(__file__).resolve().parents[2]
    pins = (root / "constraints.txt").read_text().splitlines()
    assert not [pin for pin in pins if pin.startswith(("nvidia-", "cuda-"))]
    rule = (root / "Makefile").read_text().split("$(MODEL)/.ready: ")[1].split("\n\n")[0]
    assert "constraints-cuda.txt" not in rule


def test_repair_follows_the_suggestion_on_the_line_that_is_named() -> None:
    source = "qs\nqs q\n"
    verdict = {"diagnostics": [{"line": 2, "message": "unknown name `qs`", "hint": "did you mean `q`?"}]}
    assert repair(source, verdict) == "qs\nq q\n"


def test_repair_without_a_suggestion_changes_nothing() -> None:
    verdict = {"diagnostics": [{"line": 1, "message": "expected `;`", "hint": ""}]}
    assert repair("x\n", verdict) == "x\n"
