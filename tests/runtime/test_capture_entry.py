"""Entries: what is accepted, and what is said of what is not."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
import torch

from kforge_mcp.runtime.entry import load_workload
from kforge_mcp.runtime.failures import Refusal

_number = itertools.count()


def _file(folder: Path, text: str) -> str:
    path = folder / f"entry_{next(_number)}.py"
    path.write_text("import torch\nfrom torch import nn\n" + text)
    return f"{path}:build"


@pytest.mark.parametrize(
    ("result", "args", "kwargs"),
    [
        ("(m, (x, x))", 2, []),
        ("(m, [x])", 1, []),
        ("(m, x)", 1, []),
        ("(m, {'input': x})", 0, ["input"]),
        ("(m, (), {'input': x})", 0, ["input"]),
        ("(m, x, {})", 1, []),
    ],
)
def test_every_accepted_form_gives_one_call(tmp_path, result, args, kwargs):
    entry = _file(tmp_path, f"def build():\n    m, x = nn.Linear(2, 2), torch.ones(1, 2)\n    return {result}\n")
    ((found_args, found_kwargs),) = load_workload(entry, str(tmp_path)).calls
    assert (len(found_args), list(found_kwargs)) == (args, kwargs)


def test_a_list_is_several_calls_of_one_model(tmp_path):
    text = "def build():\n    m = nn.Linear(2, 2)\n    return [(m, torch.ones(1, 2)), (m, torch.ones(3, 2))]\n"
    results = load_workload(_file(tmp_path, text), str(tmp_path)).run()
    assert [tuple(result.shape) for result in results] == [(1, 2), (3, 2)]


def test_a_relative_path_is_found_in_the_project(tmp_path):
    entry = _file(tmp_path, "def build():\n    return nn.Linear(2, 2), torch.ones(1, 2)\n")
    assert load_workload(Path(entry).name, str(tmp_path)).file.parent == tmp_path.resolve()


def test_a_helper_beside_the_file_can_be_imported(tmp_path):
    (tmp_path / "beside_the_entry.py").write_text("SIZE = 3\n")
    text = "from beside_the_entry import SIZE\ndef build():\n    return nn.Linear(SIZE, 2), torch.ones(1, SIZE)\n"
    assert load_workload(_file(tmp_path, text), str(tmp_path)).model.in_features == 3


def test_a_model_that_writes_into_its_input_starts_every_run_alike(tmp_path):
    text = """
class Count(nn.Module):
    def forward(self, x):
        return x.add_(1).clone()
def build():
    return Count(), torch.zeros(2)
"""
    workload = load_workload(_file(tmp_path, text), str(tmp_path))
    first, second = workload.run()[0], workload.run()[0]
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        ("def build(:\n", "user_error", "SyntaxError"),
        ("import no_such_package_anywhere\n", "user_error", "No module named 'no_such_package_anywhere'"),
        ("raise SystemExit(3)\n", "user_error", "SystemExit"),
        ("def builds():\n    pass\n", "contract", "functions that exist there: builds. Did you mean builds?"),
        ("build = 3\n", "contract", "cannot be called"),
        ("def build():\n    return helper()\ndef helper():\n    return 1 / 0\n", "user_error", "in helper"),
        ("def build():\n    return nn.Linear(2, 2)\n", "contract", "a value of type torch.nn.modules.linear.Linear"),
        ("def build():\n    return 3, 4\n", "contract", "a tuple (int, int)"),
        ("def build():\n    return []\n", "contract", "an empty list"),
        ("def build():\n    return nn.Linear(2, 2), (), 3\n", "contract", "kwargs"),
        (
            "def build():\n    x = torch.ones(1, 2)\n    return [(nn.Linear(2, 2), x), (nn.Linear(2, 2), x)]\n",
            "contract",
            "several models",
        ),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, text, kind, said):
    with pytest.raises(Refusal) as caught:
        load_workload(_file(tmp_path, text), str(tmp_path))
    assert caught.value.kind == kind
    assert said in str(caught.value)


def test_a_raising_model_shows_the_users_own_traceback(tmp_path):
    text = """
class Fails(nn.Module):
    def forward(self, x):
        raise ValueError("the shape is wrong")
def build():
    return Fails(), torch.zeros(2)
"""
    workload = load_workload(_file(tmp_path, text), str(tmp_path))
    with pytest.raises(Refusal) as caught:
        workload.run()
    assert "call 1 of 1 of Fails" in str(caught.value)
    assert 'raise ValueError("the shape is wrong")' in str(caught.value)
    assert "entry.py" not in str(caught.value)


def test_a_missing_file_says_where_it_was_looked_for(tmp_path):
    with pytest.raises(Refusal, match=str(tmp_path / "absent.py")):
        load_workload("absent.py:build", str(tmp_path))


def test_a_file_named_like_an_imported_module_is_refused(tmp_path):
    (tmp_path / "torch.py").write_text("def build(): pass\n")
    with pytest.raises(Refusal, match="Rename the file"):
        load_workload(f"{tmp_path}/torch.py:build", str(tmp_path))
