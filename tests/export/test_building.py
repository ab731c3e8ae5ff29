"""The files of a package: equal inputs give equal bytes, and nothing but torch is needed."""

from __future__ import annotations

import json
import subprocess
import zipfile
from pathlib import Path

import pytest

from kforge_mcp.errors import ToolchainError
from kforge_mcp.export.baseline import baseline_of
from kforge_mcp.export.building import TorchPaths, stage
from kforge_mcp.export.contents import operators, snake_case
from kforge_mcp.export.wheel import pack


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_equal_inputs_give_equal_bytes(toolbox, package, tmp_path) -> None:
    again = toolbox.stage(tmp_path / "elsewhere" / "tinykernels", toolbox.kernels())
    assert files_of(again) == files_of(package)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = pack(package, tmp_path / "one"), pack(again, tmp_path / "two")
    assert first == second == "tinykernels-0.1.0-py3-none-linux_x86_64.whl"
    assert (tmp_path / "one" / first).read_bytes() == (tmp_path / "two" / second).read_bytes()


def test_package_holds_the_judged_binaries_and_their_sources(toolbox, package) -> None:
    kernels = toolbox.kernels()
    content = json.loads((package / "tinykernels" / "manifest.json").read_text())
    for kernel, card in zip(kernels, content["cards"], strict=True):
        packed = package / "tinykernels" / card["variants"][0]["kernels"][0]["file"]
        assert packed.read_bytes() == kernel.variants[0].binaries[0].path.read_bytes()
        assert (package / "tinykernels" / card["source"]).read_text() == kernel.source
    assert set(content["libraries"]) == {"_operators.so", "kernels/tiny_norm_0.so", "kernels/scaled_pair_0.so"}


def test_operators_need_libtorch_and_no_openmp_of_their_own(package) -> None:
    library = package / "tinykernels" / "_operators.so"
    dynamic = subprocess.run(["readelf", "-d", str(library)], capture_output=True, text=True, check=True).stdout
    needed = {line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "NEEDED" in line}
    assert {"libtorch.so", "libtorch_cpu.so"} <= needed
    assert not any("gomp" in name or "python" in name for name in needed)
    assert b"site-packages" not in library.read_bytes()


def test_a_compiler_that_fails_is_quoted(toolbox, tmp_path) -> None:
    def run(command, *, cwd, timeout_s):
        return Failed()

    class Failed:
        returncode, stdout, stderr, timed_out = 1, "", "fatal error: no such header", False

    (tmp_path / "package").mkdir()
    with pytest.raises(ToolchainError, match="no such header"):
        stage(
            tmp_path / "package", "tinykernels", toolbox.kernels(),
            baseline=baseline_of("x86-64"), compiler=["c++"], torch=TorchPaths([], []), run=run,
        )  # fmt: skip


def test_cards_called_alike_get_operators_and_labels_of_their_own(toolbox) -> None:
    first, second = toolbox.kernels()
    packed = operators([first, second, first])
    assert [operator.name for operator in packed] == ["tiny_norm", "scaled_pair", "tiny_norm_2"]
    assert [operator.label for operator in packed] == ["tiny_model:TinyNorm", "scaled_pair", "tiny_model:TinyNorm"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("LlamaRMSNorm", "llama_rms_norm"),
        ("apply_rotary_pos_emb", "apply_rotary_pos_emb"),
        ("torch.nn.functional.silu", "silu"),
        ("GPT2Block", "gpt2_block"),
        ("Größe", "größe"),
        ("_Private", "private"),
        ("<lambda>", "lambda"),
    ],
)
def test_operator_names(name: str, expected: str) -> None:
    assert snake_case(name).isidentifier()
    if expected.isascii():
        assert snake_case(name) == expected
    else:
        assert snake_case(name).isascii()


def test_baselines_name_what_linux_calls_their_parts() -> None:
    assert {"avx2", "fma", "bmi2"} <= set(baseline_of("x86-64-v3").features)
    assert "avx2" not in baseline_of("x86-64-v2").features
    assert baseline_of("").features == ()


def test_wheel_installs_without_a_network_and_runs_with_torch_alone(toolbox, package, tmp_path) -> None:
    (tmp_path / "dist").mkdir()
    wheel = tmp_path / "dist" / pack(package, tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        assert {entry.date_time[:3] for entry in archive.infolist()} == {(1980, 1, 1)}
    sites = {"wheel": tmp_path / "from-wheel", "folder": tmp_path / "from-folder"}
    for source, site in ((wheel, sites["wheel"]), (package, sites["folder"])):
        command = [toolbox.model_python, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
        command += ["--disable-pip-version-check", "--root-user-action=ignore", "--target", str(site), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    installed = {name: files_of(site / "tinykernels") for name, site in sites.items()}
    assert installed["wheel"] == installed["folder"]
    toolbox.python(
        """
import sys, torch, tiny_model, tinykernels
torch.set_grad_enabled(False)
model, (x,) = tiny_model.make()
tinykernels.attach(model)
model(x)
assert tinykernels.stats()["TinyNorm"]["hits"] == 3
assert not [name for name in sys.modules if "kforge" in name]
""",
        sites["wheel"],
    )
