"""What a package says of memory checks: those of a CUDA kernel are part of its holdout."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kforge_mcp.export import evidence
from kforge_mcp.judge.holdout import HoldoutResult
from kforge_mcp.judge.sanitizers import Sanitized
from kforge_mcp.records.result import VariantVerdict
from tests.export.cuda.test_staging import portable


@pytest.mark.parametrize(
    ("said", "kept"),
    [("memcheck and racecheck found nothing", "memcheck and racecheck found nothing"), ("", "not asked")],
)
def test_nvidias_checker_stands_for_the_sanitizers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: str, kept: str
) -> None:
    kernel = replace(portable(tmp_path), source_sha256="0" * 64)
    shown = VariantVerdict(variant_id="v0", verdict="faster", speedup=2.0)
    result = HoldoutResult("c", True, shown, [shown], 0.001, [0.7], memory_check=said)
    answers: dict[str, Any] = {
        "_claim": lambda *_: SimpleNamespace(candidate_id="c"),
        "sanitize": lambda *_: pytest.fail("the sanitizers are for the CPU"),
        "holdout": lambda *_: [result],
        "further_binaries": lambda *_: [],
        "_kernel": lambda *_: kernel,
        "identify": lambda ctx, project, kernels: kernels,
    }
    for name, answer in answers.items():
        monkeypatch.setattr(evidence, name, answer)
    choice: Any = SimpleNamespace(card=kernel.card, candidate=SimpleNamespace(candidate_id="c"))
    ctx: Any = SimpleNamespace(progress=lambda *_: None)
    project: Any = SimpleNamespace(target="cuda")
    found = evidence.gather(ctx, project, [choice])
    assert [one.sanitized for one in found.kernels] == [Sanitized("checked", kept)]
    assert found.samples[0]["sanitizers"] == f"checked: {kept}"
