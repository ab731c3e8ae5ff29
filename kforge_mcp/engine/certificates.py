"""TLS for the engine: one self-signed certificate per workspace, readable by its owner alone.

Whoever reaches a Dask port can run code, and a port on this machine is open to each of its users; with this key as
the only one that is trusted, the port is open to whoever can read the workspace.
"""

from __future__ import annotations

import datetime
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from distributed.security import Security

FILE = "tls.pem"
_NAME = "kforge-engine"
_VALIDITY = datetime.timedelta(days=3650)
_RENEW_BEFORE = datetime.timedelta(days=30)


def security(engine_dir: Path) -> Security:
    """Dask's security settings with the workspace's certificate, made anew if missing, damaged or soon to expire."""
    from distributed.security import Security

    path = engine_dir / FILE
    if not _usable(path):
        _make(path)
    pem = str(path)
    return Security(
        require_encryption=True,
        tls_ca_file=pem,
        tls_client_cert=pem,
        tls_client_key=pem,
        tls_scheduler_cert=pem,
        tls_scheduler_key=pem,
        tls_worker_cert=pem,
        tls_worker_key=pem,
    )


def _usable(path: Path) -> bool:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        if path.stat().st_mode & 0o077:
            return False
        content = path.read_bytes()
        certificate = x509.load_pem_x509_certificate(content)
        key = load_pem_private_key(content, password=None)
    except (OSError, ValueError):
        return False
    now = datetime.datetime.now(datetime.UTC)
    valid = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - _RENEW_BEFORE
    return valid and certificate.public_key() == key.public_key()


def _make(path: Path) -> None:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # A clock that was set back a little must not make the certificate one of the future.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _VALIDITY)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(private + certificate.public_bytes(serialization.Encoding.PEM))
    os.replace(temporary, path)
