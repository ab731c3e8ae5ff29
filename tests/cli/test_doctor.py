"""What doctor finds out without a model at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforge_mcp.cli.doctor import _model_interpreter
from kforge_mcp.cli.doctor_gpu import gpu_findings


@pytest.fixture
def in_a_models_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("KFORGE_PYTHON", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_nearest_environment_is_looked_at_as_a_capture_does(in_a_models_folder: Path, model_python: str) -> None:
    (in_a_models_folder / ".venv").symlink_to(Path(model_python).parent.parent)
    (finding,) = _model_interpreter("")
    assert finding.level == "ok"
    assert "found by nearest .venv" in finding.detail


def test_without_an_interpreter_the_gpu_is_said_not_to_have_been_looked_at(in_a_models_folder: Path) -> None:
    (finding,) = gpu_findings(str(in_a_models_folder / "workspace"), str(in_a_models_folder / "no-python"))
    assert (finding.name, finding.level) == ("GPU", "warning")
    assert finding.detail.startswith("not looked at")
