import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kforge_mcp.errors import NotFoundError, WorkspaceError
from kforge_mcp.store.blobs import GRACE_S, BlobStore


@pytest.fixture
def blobs(tmp_path: Path) -> BlobStore:
    return BlobStore(tmp_path / "blobs")


def _age(blobs: BlobStore, digest: str) -> None:
    old = time.time() - 2 * GRACE_S
    os.utime(blobs.path(digest), (old, old))


def _files(blobs: BlobStore) -> list[Path]:
    return [path for path in blobs.root.rglob("*") if path.is_file()]


def test_bytes_come_back_under_the_digest_of_their_content(blobs: BlobStore) -> None:
    digest = blobs.put(b"some bytes")
    assert digest == hashlib.sha256(b"some bytes").hexdigest()
    assert blobs.get(digest) == b"some bytes"
    assert blobs.path(digest) == blobs.root / digest[:2] / digest[2:]


def test_equal_contents_are_stored_once(blobs: BlobStore) -> None:
    assert blobs.put(b"x") == blobs.put(b"x")
    assert len(_files(blobs)) == 1


def test_files_are_copied_or_moved(blobs: BlobStore, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"data")
    second.write_bytes(b"data")
    digest = blobs.put_file(first)
    assert first.exists()
    assert blobs.put_file(second, move=True) == digest
    assert not second.exists()
    assert blobs.get(digest) == b"data"


def test_blobs_are_readable_by_their_owner_alone(blobs: BlobStore) -> None:
    path = blobs.path(blobs.put(b"secret"))
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_missing_blob_is_named(blobs: BlobStore) -> None:
    with pytest.raises(NotFoundError, match="ab" * 32):
        blobs.get("ab" * 32)
    assert not blobs.has("ab" * 32)


@pytest.mark.parametrize("digest", ["", "../../etc/passwd", "A" * 64, "ab" * 32 + "\n"])
def test_what_is_no_digest_names_no_file(blobs: BlobStore, digest: str) -> None:
    with pytest.raises(NotFoundError):
        blobs.path(digest)


def test_sweep_removes_old_blobs_that_nothing_refers_to(blobs: BlobStore) -> None:
    kept, dropped, young = blobs.put(b"kept"), blobs.put(b"dropped"), blobs.put(b"young")
    _age(blobs, kept)
    _age(blobs, dropped)
    assert blobs.sweep({kept}) == 1
    assert (blobs.has(kept), blobs.has(dropped), blobs.has(young)) == (True, False, True)


def test_storing_an_old_blob_again_protects_it_from_the_next_sweep(blobs: BlobStore) -> None:
    digest = blobs.put(b"data")
    _age(blobs, digest)
    blobs.put(b"data")
    assert blobs.sweep(set()) == 0
    assert blobs.get(digest) == b"data"


def test_a_crash_while_writing_leaves_no_blob_and_sweep_clears_it_up(blobs: BlobStore) -> None:
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom kforge_mcp.store.blobs import BlobStore\n"
        "os.fsync = lambda handle: os._exit(9)\nBlobStore(Path(sys.argv[1])).put(b'half')\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(blobs.root)], check=False).returncode == 9
    assert not blobs.has(hashlib.sha256(b"half").hexdigest())
    (leftover,) = _files(blobs)
    old = time.time() - 2 * GRACE_S
    os.utime(leftover, (old, old))
    blobs.sweep(set())
    assert _files(blobs) == []


def test_a_full_disk_is_a_workspace_error_and_leaves_nothing(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WorkspaceError, match="No space left on device"):
        blobs.put(b"data")
    assert _files(blobs) == []


def test_a_blob_stored_again_while_it_is_swept_stays(blobs: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = blobs.put(b"data")
    _age(blobs, digest)
    rename = os.rename

    def store_first(source: Path, target: Path) -> None:
        blobs.put(b"data")
        rename(source, target)

    monkeypatch.setattr(os, "rename", store_first)
    assert blobs.sweep(set()) == 0
    assert blobs.get(digest) == b"data"
