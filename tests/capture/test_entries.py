"""Entries as the control plane resolves them."""

from __future__ import annotations

import pytest

from kforge_mcp.capture.entries import placed, resolve_entry
from kforge_mcp.errors import UsageError


def test_the_first_base_that_has_the_file_wins(tmp_path):
    for name in ("project", "elsewhere"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.py").touch()
    bases = ["", str(tmp_path / "absent"), str(tmp_path / "project"), str(tmp_path / "elsewhere")]
    entry = resolve_entry("model.py:build", bases)
    assert entry.text == f"{(tmp_path / 'project' / 'model.py').resolve()}:build"


def test_a_librarys_entry_remembers_that_it_was_built_on_the_gpu(tmp_path):
    (tmp_path / "model.py").touch()
    assert placed(resolve_entry("torchvision:resnet50 batch=32", [])) == "torchvision:resnet50 batch=32 device=cuda"
    named = "torchvision:resnet50 device=cuda:1"
    assert placed(resolve_entry(named, [])) == named
    entry = resolve_entry("model.py:build", [str(tmp_path)])
    assert placed(entry) == entry.text


def test_an_absolute_path_needs_no_base(tmp_path):
    (tmp_path / "model.py").touch()
    assert resolve_entry(f"{tmp_path}/model.py:build", [str(tmp_path / "other")]).function == "build"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("model.py --batch 4", "there is no such file. Looked for /nowhere/model.py"),
        ("", "names neither a function"),
        (":build", "names neither a function"),
        ("model.py:", "no function's name"),
        ("model.py:build()", "no function's name"),
        ("model.txt:build", "names no Python file"),
        ("torchvision:", "names no model of torchvision"),
        ("-m", "names no module"),
        ("infer.py --name 'x", "cannot be split into words"),
        ("absent.py:build", "there is no such file. Looked for /nowhere/absent.py"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(entry, said):
    with pytest.raises(UsageError) as caught:
        resolve_entry(entry, ["/nowhere"])
    assert said in str(caught.value)


def test_a_script_keeps_its_arguments_as_a_shell_splits_them(tmp_path):
    (tmp_path / "my infer.py").touch()
    entry = resolve_entry("'my infer.py' --text 'two words' -n 4", [str(tmp_path)])
    assert (entry.kind, entry.name, entry.path) == ("script", "my infer", (tmp_path / "my infer.py").resolve())
    assert entry.text == f"'{entry.path}' --text 'two words' -n 4"


def test_a_file_with_spaces_in_its_path_needs_no_quotes_before_a_function(tmp_path):
    (tmp_path / "my model.py").touch()
    assert resolve_entry("my model.py:build", [str(tmp_path)]).function == "build"
    (tmp_path / "infer.py").touch()
    assert resolve_entry("infer.py --like other.py:build", [str(tmp_path)]).kind == "script"


@pytest.mark.parametrize(
    ("entry", "kind", "name"),
    [
        ("torchvision:resnet50", "library", "resnet50"),
        ("transformers:LlamaModel num_hidden_layers=2", "library", "LlamaModel"),
        ("transformers:org/small", "library", "small"),
        ("-m package.module --fast", "module", "package.module"),
    ],
)
def test_entries_without_a_file_are_passed_on(entry, kind, name):
    found = resolve_entry(entry, [])
    assert (found.kind, found.name, found.text, found.path) == (kind, name, entry, None)
