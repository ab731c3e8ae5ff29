from pathlib import Path

import pytest

from kforge_mcp.errors import WorkspaceError
from kforge_mcp.store.places import network_kind, require_local

_MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:35 / /home rw,relatime shared:9 - nfs4 server:/home rw,vers=4.2
41 40 254:1 / /home/me/local rw,relatime - xfs /dev/vdb rw
42 22 0:36 / /mnt/c rw,noatime - 9p C:\134 rw,dirsync,aname=drvfs;path=C:\;uid=1000
43 22 0:37 / /mnt/my\040share rw - cifs //host/share rw
44 22 0:38 / /sandbox rw - 9p none rw,trans=fd
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/kforge", ""),
        ("/home/me/kforge", "nfs4"),
        ("/home/me/local/kforge", ""),
        ("/homes/kforge", ""),
        ("/mnt/c/Users/me", "9p"),
        ("/mnt/my share/kforge", "cifs"),
        ("/sandbox/kforge", ""),
    ],
)
def test_the_innermost_mount_decides(path: str, kind: str) -> None:
    assert network_kind(Path(path), _MOUNTS) == kind


def test_a_later_mount_on_the_same_point_hides_the_earlier() -> None:
    mounts = "1 0 0:1 / / rw - ext4 a rw\n2 1 0:2 / /data rw - nfs b rw\n3 1 0:3 / /data rw - ext4 c rw\n"
    assert network_kind(Path("/data/x"), mounts) == ""


def test_a_network_file_system_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match=r"network file system \(nfs\).*local disk"):
        require_local(tmp_path, "1 0 0:1 / / rw - nfs host:/ rw\n")
