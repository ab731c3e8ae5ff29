"""Where a package may be written, and under which name."""

from __future__ import annotations

import json
import keyword
import os
import re
import shutil
import sys
from pathlib import Path

from kforge_mcp.errors import UsageError
from kforge_mcp.export.contents import FORMAT
from kforge_mcp.records.base import new_id

_TAKEN = frozenset(sys.stdlib_module_names) | {
    "torch",
    "numpy",
    "transformers",
    "kforge",
    "kforge_mcp",
    "kforge_runtime",
}


def check_name(name: str) -> str:
    """The name, if it can be a Python package, a torch namespace and a distribution. Raises `UsageError`."""
    if not re.fullmatch(r"[a-z][a-z0-9_]{0,63}", name) or name.endswith("_") or keyword.iskeyword(name):
        raise UsageError(
            f"name={name!r} cannot be a Python package: use lower-case letters, digits and underscores, beginning with "
            "a letter, such as 'mykernels'"
        )
    if name in _TAKEN or name == "aten":
        raise UsageError(f"name={name!r} would hide an existing module: choose another, such as 'my_{name}_kernels'")
    return name


def resolve(path: str, name: str, packages_dir: Path, project_dir: str) -> Path:
    """The folder to write: `packages_dir/name`, or `path` below the packages folder or the project's.

    Symbolic links are followed before the check. Raises `UsageError` for a place outside of both.
    """
    roots = [packages_dir.resolve()]
    if project_dir:
        roots.append(Path(project_dir).resolve())
    folder = Path(os.path.expanduser(path or name))
    base = roots[-1] if path else roots[0]
    folder = (base / folder).resolve()
    if not any(folder.is_relative_to(root) and folder != root for root in roots):
        places = " or ".join(str(root) for root in roots)
        raise UsageError(f"path {folder} is not inside {places}: leave path empty, or name a folder below one of these")
    return folder


def check_free(folder: Path, *, overwrite: bool) -> None:
    """Raises `UsageError` if something stands there that must not be replaced, since only our own packages ever are,
    or if the place cannot be written."""
    if not folder.exists() and not folder.is_symlink():
        # A package is minutes of measuring: whether there is a place for it is asked before.
        above = next(parent for parent in folder.parents if parent.exists())
        if not above.is_dir():
            raise UsageError(f"{folder} cannot be written: {above} is not a folder. Choose another path")
        _require_writable(folder, above)
        return
    if not is_package(folder):
        raise UsageError(
            f"{folder} exists and is not a package that kforge wrote, so it is not replaced: choose another path"
        )
    if not overwrite:
        raise UsageError(
            f"{folder} exists already: pass overwrite=true to replace the package there, or another path or name"
        )
    _require_writable(folder, folder.parent)


def _require_writable(folder: Path, above: Path) -> None:
    if not os.access(above, os.W_OK | os.X_OK):
        raise UsageError(f"{folder} cannot be written: this user may not write in {above}. Choose another path")


def is_package(folder: Path) -> bool:
    """Whether a folder is a package written by `export_package`."""
    for path in folder.glob("*/manifest.json"):
        try:
            content = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if isinstance(content, dict) and content.get("format") == FORMAT:
            return True
    return False


def put(staged: Path, folder: Path, *, overwrite: bool) -> None:
    """Move a finished package to its place; an older package there is removed only after the new one has arrived.

    Raises `UsageError` if the place was taken meanwhile or cannot be written.
    """
    arriving = folder.with_name(f".{new_id('arriving')}")
    leaving = folder.with_name(f".{new_id('leaving')}")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(staged, arriving, ignore=shutil.ignore_patterns("__pycache__"))
        check_free(folder, overwrite=overwrite)
        if folder.exists():
            folder.rename(leaving)
        arriving.rename(folder)
        shutil.rmtree(leaving, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"the package cannot be written to {folder}: {error}") from error
    finally:
        shutil.rmtree(arriving, ignore_errors=True)
