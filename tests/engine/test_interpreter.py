import os
import sys
from pathlib import Path

import pytest

from kforge_mcp.engine.interpreter import find_interpreter, places
from kforge_mcp.errors import InterpreterError


def _script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def _python_with_torch(path: Path, version: str) -> Path:
    """A program that behaves like a Python with that torch, as far as it is asked."""
    package = path.parent.parent / f"{path.name}-packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(f"__version__ = {version!r}\nclass version:\n    cuda = None\n")
    return _script(path, f'PYTHONPATH="{package.parent}" exec "{sys.executable}" "$@"')


def _python_without_torch(path: Path) -> Path:
    return _script(path, f'exec "{sys.executable}" "$@"')


def _environment(**variables: str | Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], **{name: str(value) for name, value in variables.items()}}


def test_places_are_searched_in_a_fixed_order(tmp_path: Path) -> None:
    inner = _script(tmp_path / "project" / ".venv" / "bin" / "python", "")
    _script(tmp_path / ".venv" / "bin" / "python", "")
    environment = {"KFORGE_PYTHON": "/named/python", "VIRTUAL_ENV": "/venv", "CONDA_PREFIX": "/conda"}
    assert list(places("", tmp_path / "project" / "models" / "llama.py", environment)) == [
        ("KFORGE_PYTHON", "/named/python"),
        ("nearest .venv", str(inner)),
        ("VIRTUAL_ENV", "/venv/bin/python"),
        ("CONDA_PREFIX", "/conda/bin/python"),
        ("server", sys.executable),
    ]


def test_an_entry_that_is_a_folder_may_hold_the_environment(tmp_path: Path) -> None:
    python = _script(tmp_path / ".venv" / "bin" / "python", "")
    assert ("nearest .venv", str(python)) in list(places("", tmp_path, {}))


def test_a_named_python_is_the_only_place() -> None:
    environment = {"KFORGE_PYTHON": "/other/python"}
    assert list(places("/my/python", None, environment)) == [("python argument", "/my/python")]


def test_the_first_python_with_torch_is_found_and_named(tmp_path: Path) -> None:
    _python_without_torch(tmp_path / "named" / "python")
    found = _python_with_torch(tmp_path / "venv" / "bin" / "python", "2.13.0+cpu")
    _python_with_torch(tmp_path / "conda" / "bin" / "python", "2.14.0")
    interpreter = find_interpreter(
        "",
        None,
        _environment(
            KFORGE_PYTHON=tmp_path / "named" / "python", VIRTUAL_ENV=tmp_path / "venv", CONDA_PREFIX=tmp_path / "conda"
        ),
    )
    assert interpreter.executable == str(found)
    assert interpreter.found_by == "VIRTUAL_ENV"
    assert interpreter.torch_version == "2.13.0+cpu"
    assert interpreter.python_version == ".".join(map(str, sys.version_info[:3]))
    assert interpreter.cuda_version == ""


def test_without_torch_anywhere_every_place_is_named_with_its_reason(tmp_path: Path) -> None:
    named = _python_without_torch(tmp_path / "named" / "python")
    broken = _script(tmp_path / "conda" / "bin" / "python", "echo 'library is missing' >&2; exit 5")
    environment = _environment(KFORGE_PYTHON=named, VIRTUAL_ENV=tmp_path / "gone", CONDA_PREFIX=tmp_path / "conda")
    with pytest.raises(InterpreterError) as raised:
        find_interpreter("", None, environment)
    text = str(raised.value)
    assert f"{named} (KFORGE_PYTHON): torch cannot be imported: ModuleNotFoundError" in text
    assert f"{tmp_path}/gone/bin/python (VIRTUAL_ENV): no such program" in text
    assert (
        f"{broken} (CONDA_PREFIX): the process running describe ended with exit status 5 (library is missing)" in text
    )
    assert f"{sys.executable} (server)" in text
    assert "set KFORGE_PYTHON" in text


@pytest.mark.parametrize("version", ["2.9.1", "2.9.1+cu128", "1.13.0", "2.9.0a0+git1234"])
def test_a_torch_that_is_too_old_is_refused(tmp_path: Path, version: str) -> None:
    python = _python_with_torch(tmp_path / "bin" / "python", version)
    with pytest.raises(InterpreterError, match=r"has torch .*torch 2\.10 or newer is needed.*Upgrade") as raised:
        find_interpreter(str(python), None, _environment())
    assert version in str(raised.value)


@pytest.mark.parametrize("version", ["2.10.0", "2.13.0+cu130", "3.0.0a0+git1234"])
def test_a_torch_that_is_new_enough_is_taken(tmp_path: Path, version: str) -> None:
    python = _python_with_torch(tmp_path / "bin" / "python", version)
    assert find_interpreter(str(python), None, _environment()).torch_version == version


def test_a_torch_that_was_upgraded_is_seen(tmp_path: Path) -> None:
    python = _python_with_torch(tmp_path / "bin" / "python", "2.4.0")
    with pytest.raises(InterpreterError):
        find_interpreter(str(python), None, _environment())
    torch = tmp_path / "python-packages" / "torch" / "__init__.py"
    torch.write_text(torch.read_text().replace("2.4.0", "2.13.00"))
    assert find_interpreter(str(python), None, _environment()).torch_version == "2.13.00"


def test_a_named_python_without_torch_is_not_replaced(tmp_path: Path) -> None:
    named = _python_without_torch(tmp_path / "bin" / "python")
    other = _python_with_torch(tmp_path / "other" / "bin" / "python", "2.13.0")
    with pytest.raises(InterpreterError, match="python argument"):
        find_interpreter(str(named), None, _environment(KFORGE_PYTHON=other))


def test_a_relative_python_starts_at_the_callers_folder(tmp_path: Path) -> None:
    python = _python_with_torch(tmp_path / "env" / "bin" / "python", "2.13.0")
    found = find_interpreter("env/bin/python", None, _environment(), folder=tmp_path)
    assert found.executable == str(python)


def test_a_bare_name_is_searched_in_the_callers_path(tmp_path: Path) -> None:
    python = _python_with_torch(tmp_path / "bin" / "mypython", "2.13.0")
    assert find_interpreter("mypython", None, {"PATH": str(python.parent)}).executable == str(python)


def test_the_model_environment_is_found_though_the_server_has_no_torch(model_python: str) -> None:
    interpreter = find_interpreter(model_python, None)
    assert interpreter.executable == model_python
    assert tuple(map(int, interpreter.torch_version.split(".")[:2])) >= (2, 10)
