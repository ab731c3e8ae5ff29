import datetime
import socket
import ssl
from pathlib import Path

import psutil
import pytest
from cryptography import x509

from kforge_mcp.engine import certificates
from kforge_mcp.engine.starter import ensure_engine
from kforge_mcp.engine.state import read_state
from kforge_mcp.store.workspace import Workspace
from tests.engine.waiting import until


def _certificate(folder: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate((folder / certificates.FILE).read_bytes())


def test_the_certificate_is_private_long_lived_and_kept(tmp_path: Path) -> None:
    certificates.security(tmp_path)
    first = _certificate(tmp_path)
    assert (tmp_path / certificates.FILE).stat().st_mode & 0o777 == 0o600
    assert first.not_valid_after_utc > datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=3000)
    certificates.security(tmp_path)
    assert _certificate(tmp_path) == first


@pytest.mark.parametrize("damage", ["garbage", "empty", "no key", "readable"])
def test_an_unusable_certificate_is_made_anew(tmp_path: Path, damage: str) -> None:
    certificates.security(tmp_path)
    path, first = tmp_path / certificates.FILE, _certificate(tmp_path)
    content = path.read_bytes()
    if damage == "readable":
        path.chmod(0o644)
    else:
        path.write_bytes(
            {"garbage": b"garbage", "empty": b"", "no key": content[content.index(b"-----BEGIN CERT") :]}[damage]
        )
    certificates.security(tmp_path)
    assert _certificate(tmp_path) != first
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_expiring_certificate_is_renewed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(certificates, "_VALIDITY", datetime.timedelta(days=20))
        certificates.security(tmp_path)
    first = _certificate(tmp_path)
    certificates.security(tmp_path)
    assert _certificate(tmp_path) != first


def test_every_port_of_the_engine_is_local_and_asks_for_the_certificate(served: Workspace) -> None:
    ensure_engine(served)
    engine = until(lambda: read_state(served.engine_dir))
    listening = [
        connection.laddr
        for connection in psutil.Process(engine.pid).net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert {address.ip for address in listening} == {"127.0.0.1"}
    assert len(listening) >= 2
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    assert [address for address in listening if not _refuses(context, address)] == []


def _refuses(context: ssl.SSLContext, address: tuple[str, int]) -> bool:
    """Whether a client without the certificate is turned away; in TLS 1.3 it hears of that when it reads."""
    try:
        with socket.create_connection(tuple(address), timeout=30) as plain, context.wrap_socket(plain) as sock:
            return sock.recv(1) == b""
    except (ssl.SSLError, ConnectionResetError):
        return True
