"""`kforge-mcp tools`, `install` and `doctor`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.cli.main import main
from kforge_mcp.server.settings import from_options


def test_tools_writes_and_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tools", "--check", "--folder", str(tmp_path)]) == 1
    assert "submit_candidate.json is missing" in capsys.readouterr().err
    assert main(["tools", "--write", "--folder", str(tmp_path)]) == 0
    assert main(["tools", "--folder", str(tmp_path)]) == 0


def test_install_prints_a_command_and_a_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["install", "claude-code", "--print", "--project-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "claude mcp add" in said
    entry = json.loads(said[said.index("{") :])["mcpServers"]["kforge"]
    assert Path(entry["command"]).is_absolute()
    assert "serve" in entry["args"]
    assert not (tmp_path / ".mcp.json").exists()


def test_install_extends_what_is_there_and_is_idempotent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {"other": {"command": "x"}}, "more": 1}')
    for word in ("configured", "already"):
        assert main(["install", "claude-code", "--project-dir", str(tmp_path)]) == 0
        assert word in capsys.readouterr().out
    content = json.loads(path.read_text())
    assert content["more"] == 1
    assert content["mcpServers"]["other"] == {"command": "x"}
    assert content["mcpServers"]["kforge"]["type"] == "stdio"
    assert os.listdir(tmp_path) == [".mcp.json"]


@pytest.mark.parametrize("text", ["{broken", "[1, 2]", '{"mcpServers": []}'])
def test_install_leaves_a_file_that_it_cannot_read(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text)
    assert main(["install", "claude-code", "--project-dir", str(tmp_path)]) == 2
    assert path.read_text() == text


def findings(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    return {row["name"]: row for row in json.loads(capsys.readouterr().out)["findings"]}


def test_doctor_finds_the_environment_in_order(
    tmp_path: Path, model_python: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--json", "--workspace", str(tmp_path / "ws"), "--python", model_python]) == 0
    found = findings(capsys)
    for name in (
        "server python",
        "server packages",
        "model interpreter",
        "C++ compiler",
        "ninja",
        "workspace",
        "engine",
    ):
        assert found[name]["level"] == "ok", name
    assert "torch 2." in found["model interpreter"]["detail"]


def test_doctor_names_problems_with_their_remedies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert main(["doctor", "--json", "--workspace", str(blocked), "--python", "/no/python"]) == 1
    found = findings(capsys)
    for name in ("workspace", "model interpreter"):
        assert found[name]["level"] == "problem"
        assert found[name]["remedy"]
    monkeypatch.setenv("KFORGE_CXX", "no-such-compiler")
    assert main(["doctor", "--json", "--workspace", str(tmp_path / "ws"), "--python", "/no/python"]) == 1
    assert "no-such-compiler" in findings(capsys)["C++ compiler"]["detail"]


def test_settings_come_from_options_then_the_environment(tmp_path: Path) -> None:
    environment = {"KFORGE_WAIT": "7", "CLAUDE_PROJECT_DIR": str(tmp_path), "KFORGE_TOOLSETS": "search"}
    settings = from_options(environment)
    assert (settings.wait_s, settings.project_dir) == (7.0, tmp_path.resolve())
    assert settings.toolsets == {"search"}
    assert settings.workspace is None
    assert from_options(environment, wait=9.0, toolsets="export,jobs").wait_s == 9.0
