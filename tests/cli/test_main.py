"""The command line's own behaviour: help is cheap, errors are said, statuses are honest."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kforge_mcp.cli.main import COMMANDS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert command in capsys.readouterr().out


def test_an_unusable_call_is_said_without_a_traceback(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    status = main(["engine", "status", "--workspace", "/dev/null/nowhere"])
    assert status == 2
    message = capsys.readouterr().err
    assert message.startswith("kforge-mcp engine: ")
    assert "Traceback" not in message


def test_only_the_chosen_command_is_imported() -> None:
    code = (
        "import sys; from kforge_mcp.cli.main import main\ntry: main(['engine', '--help'])\nexcept SystemExit: pass\n"
    )
    code += "print([name for name in ('mcp', 'rich', 'distributed', 'scipy') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
