"""Packs a package's folder into a wheel, without a network and with the same bytes every time.

This file is also the build backend inside the package (`build_backend.py`), so it needs the standard library alone.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
import zipfile
from pathlib import Path
from typing import Any

_EARLIEST = 315532800
"""1980-01-01, the first moment a zip archive can name."""


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: Any = None) -> str:
    """PEP 517: pack the folder that holds this file; returns the wheel's file name."""
    return pack(Path(__file__).resolve().parent, Path(wheel_directory))


def pack(folder: Path, destination: Path) -> str:
    """Write the wheel of a package's folder into `destination`; returns its file name.

    Timestamps are SOURCE_DATE_EPOCH or 1980, entries are sorted and modes fixed, so equal files give equal bytes.
    """
    manifest = json.loads(next(folder.glob("*/manifest.json")).read_text())
    name, version = manifest["name"], manifest["version"]
    tag = f"py3-none-linux_{manifest['machine']}"
    information = f"{name}-{version}.dist-info"
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in _sources(folder, name)}
    for path in [folder / "VERIFICATION.md", *sorted((folder / "samples").glob("*.json"))]:
        if path.exists():
            files[f"{name}/{path.relative_to(folder).as_posix()}"] = path.read_bytes()
    files[f"{information}/METADATA"] = _metadata(manifest).encode()
    files[f"{information}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: kforge\nRoot-Is-Purelib: false\nTag: {tag}\n".encode()
    )
    record = "".join(f"{path},{_digest(files[path])},{len(files[path])}\n" for path in sorted(files))
    files[f"{information}/RECORD"] = (record + f"{information}/RECORD,,\n").encode()
    file_name = f"{name}-{version}-{tag}.whl"
    moment = time.gmtime(max(_EARLIEST, int(os.environ.get("SOURCE_DATE_EPOCH", _EARLIEST))))[:6]
    with zipfile.ZipFile(destination / file_name, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, moment)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, files[path])
    return file_name


def _sources(folder: Path, name: str) -> list[Path]:
    found = (folder / name).rglob("*")
    return [path for path in found if path.is_file() and "__pycache__" not in path.parts]


def _digest(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def _metadata(manifest: dict[str, Any]) -> str:
    return (
        f"Metadata-Version: 2.1\nName: {manifest['name']}\nVersion: {manifest['version']}\n"
        "Summary: Judged kernels for one PyTorch model, made by kforge.\n"
        f"Requires-Python: >={manifest['python_minimum']}\nRequires-Dist: torch>={manifest['torch_minimum']}\n"
    )
