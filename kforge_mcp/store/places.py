"""Where a workspace may be."""

from __future__ import annotations

import os
from pathlib import Path

from kforge_mcp.errors import WorkspaceError

_NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs", "pvfs2", "orangefs",
    "fuse.sshfs", "fuse.glusterfs", "fuse.cephfs", "fuse.beegfs", "fuse.rclone", "fuse.s3fs",
})  # fmt: skip


def default_root() -> Path:
    """The folder used when none is named: `KFORGE_WORKSPACE`, else `kforge` in the user's data folder."""
    if named := os.environ.get("KFORGE_WORKSPACE"):
        return Path(named).expanduser()
    import platformdirs

    return Path(platformdirs.user_data_dir("kforge", appauthor=False))


def make_folder(path: Path) -> None:
    """Make a folder that only its owner can enter. Raises `WorkspaceError` that names the folder and the reason."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise not_writable(path, error) from error


def not_writable(path: Path, error: OSError) -> WorkspaceError:
    """The error for a workspace that cannot be written."""
    return WorkspaceError(
        f"the workspace {path} cannot be written: {error.strerror or error}. Start the server with --workspace DIR, "
        "or set KFORGE_WORKSPACE, to a folder on a local disk that you may write."
    )


def require_local(path: Path, mounts: str | None = None) -> None:
    """Raise `WorkspaceError` if `path` is on a network file system, where SQLite's locks and shared memory fail.

    `mounts` is the text of `/proc/self/mountinfo`; systems without it are not checked.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text(errors="replace")
        except OSError:
            return
    kind = network_kind(path.resolve(), mounts)
    if kind:
        raise WorkspaceError(
            f"the workspace {path} is on a network file system ({kind}), where SQLite loses data. Set --workspace or "
            "KFORGE_WORKSPACE to a folder on a local disk. (A database elsewhere, KFORGE_DATABASE_URL, is not "
            "supported by this version.)"
        )


def network_kind(path: Path, mounts: str) -> str:
    """The type of the network file system that holds `path`, or an empty text for a local one."""
    best, kind = -1, ""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields, details = before.split(), after.split()
        if len(fields) < 5 or not details:
            continue
        point = Path(fields[4].encode().decode("unicode_escape"))
        if path.is_relative_to(point) and len(point.parts) >= best:
            best = len(point.parts)
            windows_drive = details[0] == "9p" and "aname=drvfs" in details[-1]
            kind = details[0] if details[0] in _NETWORK or windows_drive else ""
    return kind
