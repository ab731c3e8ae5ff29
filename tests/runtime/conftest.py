"""The sampling pass over a constructed model, as a fixture."""

from __future__ import annotations

import importlib.util
import itertools
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kforge_mcp.runtime.capture import capture

_spec = importlib.util.spec_from_file_location("capture_models", Path(__file__).with_name("capture_models.py"))
assert _spec is not None
assert _spec.loader is not None
_models = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_models)
_number = itertools.count()


class Captured(SimpleNamespace):
    """What the sampling pass said of one constructed model."""

    answer: dict[str, Any]
    module: ModuleType
    root: str

    def card(self, name: str) -> dict[str, Any]:
        return next(card for card in self.answer["cards"] if card["name"] == name)

    def names(self) -> list[str]:
        return [card["name"] for card in self.answer["cards"]]

    def reason(self, name: str) -> str:
        return "; ".join(self.card(name)["refused"])


@pytest.fixture
def sample(tmp_path):
    """Capture the model that an expression over the file's names builds."""

    def run(expression: str, *, extra: str = "", max_bytes: int = 1 << 30) -> Captured:
        name = f"constructed_{next(_number)}"
        path = tmp_path / f"{name}.py"
        path.write_text(f"{_models.TEXT}\n{extra}\ndef build():\n    return {expression}\n")
        payload = {
            "pass": "sampling",
            "entry": f"{path}:build",
            "project_dir": str(tmp_path),
            "target": "auto",
            "blob_root": str(tmp_path / "blobs"),
            "max_bytes": max_bytes,
        }
        answer = json.loads(json.dumps(capture(payload, lambda event: None), allow_nan=False))
        return Captured(answer=answer, module=sys.modules[name], root=str(tmp_path / "blobs"))

    return run
