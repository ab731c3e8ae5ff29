import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from kforge_mcp.errors import WorkspaceError
from kforge_mcp.records.candidate import Budget
from kforge_mcp.store import budgets
from kforge_mcp.store.workspace import Workspace, default_root

_COUNT = """
import sys
from kforge_mcp.store import budgets
from kforge_mcp.store.workspace import Workspace

workspace = Workspace.open(sys.argv[1])
for _ in range(100):
    with workspace.transaction() as session:
        budget = budgets.get_or_default(session, "owner")
        budgets.save(session, budget.model_copy(update={"spent_iterations": budget.spent_iterations + 1}))
"""

_HOLD = """
import sqlite3, sys

connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_fresh_workspace_is_private(tmp_path: Path) -> None:
    with Workspace.open(tmp_path / "new" / "workspace") as workspace:
        folders = [workspace.root, workspace.packages_dir, workspace.engine_dir, workspace.scratch_dir]
        assert [folder.stat().st_mode & 0o777 for folder in folders] == [0o700] * 4
        assert (workspace.root / "kforge.db").stat().st_mode & 0o777 == 0o600


def test_a_folder_with_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "notes.txt").write_text("mine")
    Workspace.open(tmp_path).close()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "blobs").stat().st_mode & 0o777 == 0o700


def test_the_database_keeps_a_write_ahead_log(workspace: Workspace) -> None:
    with sqlite3.connect(workspace.root / "kforge.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_transaction_that_raises_changes_nothing(workspace: Workspace) -> None:
    def save_and_fail() -> None:
        with workspace.transaction() as session:
            budgets.save(session, Budget(owner_id="owner", iterations=3))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        save_and_fail()
    with workspace.reading() as session:
        assert budgets.get_or_default(session, "owner").iterations == 0


def test_two_processes_write_at_once_and_lose_nothing(workspace: Workspace) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", _COUNT, str(workspace.root)]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    with workspace.reading() as session:
        assert budgets.get_or_default(session, "owner").spent_iterations == 200


def test_processes_that_open_a_fresh_workspace_at_once_all_succeed(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    openers = [subprocess.Popen([sys.executable, "-c", _COUNT, str(root)]) for _ in range(3)]
    assert [opener.wait() for opener in openers] == [0, 0, 0]


def test_a_process_that_leaves_takes_no_data_from_one_that_has_the_workspace_open_twice(workspace: Workspace) -> None:
    def spent() -> int:
        with workspace.reading() as session:
            return budgets.get_or_default(session, "owner").spent_iterations

    assert spent() == 0
    with Workspace.open(workspace.root):
        for expected in (100, 200):
            subprocess.run([sys.executable, "-c", _COUNT, str(workspace.root)], check=True)
            assert (workspace.root / "kforge.db-wal").exists()
            assert spent() == expected


def test_a_reader_does_not_wait_for_a_writer(workspace: Workspace) -> None:
    with workspace.transaction() as writing:
        budgets.save(writing, Budget(owner_id="owner", iterations=3))
        with workspace.reading() as reading:
            assert budgets.get_or_default(reading, "owner").iterations == 0


def test_a_database_locked_by_another_process_is_a_clear_error(workspace: Workspace) -> None:
    impatient = Workspace.open(workspace.root, busy_timeout_s=0.1)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(workspace.root / "kforge.db")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        holder.stdout.readline()
        with pytest.raises(WorkspaceError, match="database locked"), impatient.transaction():
            pass
        holder.stdin.close()
        holder.wait()
    with impatient.transaction() as session:
        budgets.save(session, Budget(owner_id="owner"))
    impatient.close()


def test_a_damaged_database_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "kforge.db").write_bytes(b"this is no database, whatever its name says" * 100)
    with pytest.raises(WorkspaceError, match=r"cannot be used: file is not a database"):
        Workspace.open(tmp_path)


@pytest.mark.parametrize("place", ["file/workspace", "file"])
def test_a_place_that_cannot_be_a_folder_is_a_clear_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WorkspaceError, match=r"cannot be written: .*--workspace DIR"):
        Workspace.open(tmp_path / place)


def test_a_file_system_that_refuses_writing_is_a_clear_error() -> None:
    with pytest.raises(WorkspaceError, match=r"/proc/kforge cannot be written"):
        Workspace.open("/proc/kforge")


def test_another_database_is_refused_rather_than_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORGE_DATABASE_URL", "postgresql://user:password@host/kforge")
    with pytest.raises(WorkspaceError, match="KFORGE_DATABASE_URL is set") as raised:
        Workspace.open(tmp_path)
    assert "password" not in str(raised.value)


def test_the_default_place_is_named_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KFORGE_WORKSPACE", "/some/place")
    assert default_root() == Path("/some/place")
    monkeypatch.delenv("KFORGE_WORKSPACE")
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    assert default_root() == Path("/data/kforge")


def test_importing_the_store_does_not_import_sqlalchemy() -> None:
    modules = "workspace, projects, cards, candidates, leases, budgets, jobs, packages"
    script = f"from kforge_mcp.store import {modules}\nimport sys\nsys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_crash_between_blob_and_record_leaves_nothing_that_dangles(workspace: Workspace) -> None:
    script = (
        "import os, sys\nfrom kforge_mcp.store import budgets\nfrom kforge_mcp.records.candidate import Budget\n"
        "from kforge_mcp.store.workspace import Workspace\n"
        "workspace = Workspace.open(sys.argv[1])\n"
        "with workspace.transaction() as session:\n"
        "    digest = workspace.blobs.put(b'content')\n"
        "    budgets.save(session, Budget(owner_id=digest))\n"
        "    print(digest, flush=True)\n    os._exit(9)\n"
    )
    crashed = subprocess.run(
        [sys.executable, "-c", script, str(workspace.root)], check=False, capture_output=True, text=True
    )
    assert crashed.returncode == 9
    digest = crashed.stdout.strip()
    with workspace.reading() as session:
        assert budgets.find(session, digest) is None
    assert workspace.blobs.get(digest) == b"content"


def test_sweeping_keeps_what_a_record_names_anywhere(workspace: Workspace) -> None:
    named, unnamed = workspace.blobs.put(b"named"), workspace.blobs.put(b"unnamed")
    for digest in (named, unnamed):
        os.utime(workspace.blobs.path(digest), (0, 0))
    with workspace.transaction() as session:
        budgets.save(session, Budget(owner_id=f"in a text: {named}"))
    assert workspace.sweep() == 1
    assert (workspace.blobs.has(named), workspace.blobs.has(unnamed)) == (True, False)


def test_a_commit_of_another_process_changes_the_stamp(workspace: Workspace) -> None:
    before = workspace.change_stamp()
    assert workspace.change_stamp() == before
    subprocess.run([sys.executable, "-c", _COUNT, str(workspace.root)], check=True)
    assert workspace.change_stamp() != before
