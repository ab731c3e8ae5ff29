"""Where a package may go: refusals are made before any work is done, and lose nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from kforge_mcp.errors import UsageError
from kforge_mcp.export.destination import check_free, check_name, is_package, put, resolve


@pytest.mark.parametrize(
    "name",
    ["", "My Kernels", "my-kernels", "1st", "class", "torch", "json", "aten", "a/b", "..", "kforge_mcp", "x" * 65],
)
def test_names_that_cannot_be_packages_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="name="):
        check_name(name)


def test_a_plain_name_is_taken() -> None:
    assert check_name("mykernels_2") == "mykernels_2"


def test_default_place_is_the_workspace_and_relative_paths_are_the_project_s(tmp_path: Path) -> None:
    packages, project = tmp_path / "packages", tmp_path / "project"
    assert resolve("", "mykernels", packages, str(project)) == packages / "mykernels"
    assert resolve("out/kernels", "mykernels", packages, str(project)) == project / "out" / "kernels"
    assert resolve(str(packages / "other"), "mykernels", packages, "") == packages / "other"


@pytest.mark.parametrize("path", ["..", "../elsewhere", "/etc/kernels", ".", "~/kernels", "out/../../elsewhere"])
def test_places_outside_the_roots_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="is not inside"):
        resolve(path, "mykernels", tmp_path / "packages", str(tmp_path / "project"))


def test_a_link_out_of_the_project_is_followed_before_the_check(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="is not inside"):
        resolve("link/kernels", "mykernels", tmp_path / "packages", str(tmp_path / "project"))


def package_at(folder: Path, text: str = "") -> Path:
    (folder / "mykernels").mkdir(parents=True)
    (folder / "mykernels" / "manifest.json").write_text('{"format": "kforge-package/1"}')
    (folder / "VERIFICATION.md").write_text(text)
    return folder


def test_what_exists_is_replaced_only_if_asked_and_only_if_it_is_ours(tmp_path: Path) -> None:
    check_free(tmp_path / "new", overwrite=False)
    ours = package_at(tmp_path / "ours", "old")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="overwrite=true"):
        check_free(ours, overwrite=False)
    check_free(ours, overwrite=True)
    with pytest.raises(UsageError, match="not a package that kforge wrote"):
        check_free(theirs, overwrite=True)
    staged = package_at(tmp_path / "staged", "new")
    with pytest.raises(UsageError):
        put(staged, theirs, overwrite=True)
    assert (theirs / "thesis.txt").read_text() == "years of work"
    put(staged, ours, overwrite=True)
    assert (ours / "VERIFICATION.md").read_text() == "new"
    assert is_package(ours)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours", "staged", "theirs"]


@pytest.mark.parametrize("place", ["file/kernels", "file/deep/er/kernels"])
def test_a_place_below_a_file_is_refused_before_any_work(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UsageError, match="file is not a folder"):
        check_free(tmp_path / place, overwrite=True)


def test_a_place_that_may_not_be_written_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = package_at(tmp_path / "ours")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    for folder in (tmp_path / "new" / "kernels", ours):
        with pytest.raises(UsageError, match="may not write in"):
            check_free(folder, overwrite=True)


def test_overwriting_is_not_suggested_for_what_would_not_be_overwritten(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    with pytest.raises(UsageError) as refused:
        check_free(tmp_path / "theirs", overwrite=False)
    assert "overwrite" not in str(refused.value)


def test_damaged_manifests_are_not_ours(tmp_path: Path) -> None:
    folder = package_at(tmp_path / "folder")
    (folder / "mykernels" / "manifest.json").write_text("[]")
    assert not is_package(folder)
    (folder / "mykernels" / "manifest.json").write_text("{")
    assert not is_package(folder)
