"""Entries as the control plane resolves them."""

from __future__ import annotations

import pytest

from kforge_mcp.capture.entries import resolve_entry
from kforge_mcp.errors import UsageError


def test_the_first_base_that_has_the_file_wins(tmp_path):
    for name in ("project", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").touch()
    bases = ["", str(tmp_path / "absent"), str(tmp_path / "project"), str(tmp_path / "elsewhere")]
    entry = resolve_entry("model.py:build", bases)
    assert entry.text == f"{(tmp_path / 'project' / 'model.py').resolve()}:build"


def test_an_absolute_path_needs_no_base(tmp_path):
    (tmp_path / "model.py").touch()
    assert resolve_entry(f"{tmp_path}/model.py:build", [str(tmp_path / "other")]).function == "build"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("model.py", "names no function"),
        ("", "names no function"),
        (":build", "names no function"),
        ("model.py:", "no function's name"),
        ("model.py:build()", "no function's name"),
        ("model.txt:build", "names no Python file"),
        ("torchvision:resnet50", "names no Python file"),
        ("absent.py:build", "there is no such file. Looked for /nowhere/absent.py"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(entry, said):
    with pytest.raises(UsageError) as caught:
        resolve_entry(entry, ["/nowhere"])
    assert said in str(caught.value)
