from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from kforge_mcp.cli.doctor_cuda import cuda_findings, toolchain_findings
from kforge_mcp.compile.cuda import toolchain as module
from kforge_mcp.compile.cuda.architectures import DEFAULT, architectures, check_architectures
from kforge_mcp.compile.cuda.probe import wheel
from kforge_mcp.compile.cuda.toolchain import Toolchain, find_toolchain
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError, UsageError
from kforge_mcp.records.project import Interpreter
from tests.compile.cuda.conftest import CompileCuda, failed
from tests.compile.cuda.programs import PLAIN

FOLDERS = {"runtime": "/r", "crt": "/c", "cccl": "", "nvrtc": "/n", "nvdisasm": ""}
THIRTEEN = Toolchain("server", "13.5", 13, "", FOLDERS, {}, (80, 90, 100))
TWELVE = Toolchain("model", "12.9", 12, "", FOLDERS, {}, (80, 90))


def model(cuda_version: str) -> Interpreter:
    return Interpreter(
        executable="model",
        found_by="KFORGE_PYTHON",
        python_version="3.12",
        torch_version="2.13",
        cuda_version=cuda_version,
    )


@pytest.fixture
def environments(monkeypatch: pytest.MonkeyPatch) -> dict[str, Toolchain]:
    """What each Python has; the server's is under its own path."""
    found = {sys.executable: THIRTEEN, "model": TWELVE}
    monkeypatch.setattr(module, "_look", lambda _ctx, python: found[python])
    return found


@pytest.mark.parametrize(
    ("cuda_version", "expected"), [("12.8", TWELVE), ("13.0", THIRTEEN), ("", THIRTEEN), ("14.0", THIRTEEN)]
)
def test_the_toolchain_fits_the_models_torch_or_is_the_newest(
    ctx: JobContext, environments: dict[str, Toolchain], cuda_version: str, expected: Toolchain
) -> None:
    assert find_toolchain(ctx, model(cuda_version)) == expected


def test_an_unusable_one_is_not_taken_and_none_names_the_packages(
    ctx: JobContext, environments: dict[str, Toolchain]
) -> None:
    environments["model"] = replace(TWELVE, folders={**FOLDERS, "crt": ""})
    assert find_toolchain(ctx, model("12.8")) == THIRTEEN
    environments[sys.executable] = replace(THIRTEEN, nvrtc="", error="ImportError: no libnvrtc", folders={})
    with pytest.raises(ToolchainError) as caught:
        find_toolchain(ctx, model("13.0"))
    text = str(caught.value)
    for part in ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "kforge-mcp[cu13]", "no libnvrtc"):
        assert part in text


def test_without_a_toolchain_the_target_is_unavailable(cuda: CompileCuda, environments: dict[str, Toolchain]) -> None:
    environments[sys.executable] = replace(THIRTEEN, nvrtc="", folders={})
    outcome = failed(cuda(PLAIN))
    assert outcome.reason == "target_unavailable"
    assert "pip install 'kforge-mcp[cu13]'" in outcome.message


def test_packages_of_cuda_12_have_their_own_names() -> None:
    assert wheel("nvrtc", 12) == "nvidia-cuda-nvrtc-cu12"
    assert wheel("crt", 12) == "nvidia-cuda-nvcc-cu12"
    assert wheel("crt", 13) == "nvidia-cuda-crt"
    assert wheel("nvdisasm", 12) == "nvidia-cuda-nvdisasm"


def test_without_a_device_common_architectures_are_taken(ctx: JobContext, tmp_path) -> None:
    with JobContext.standalone(ctx.workspace, environment={"PATH": str(tmp_path)}) as bare:
        assert architectures(bare, THIRTEEN) == DEFAULT
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '9.0\\n8.6\\n9.0\\n'\n")
    program.chmod(0o755)
    with JobContext.standalone(ctx.workspace, environment={"PATH": str(tmp_path)}) as device:
        assert architectures(device, THIRTEEN) == ("sm_90a", "sm_86")
    named = {"PATH": str(tmp_path), "KFORGE_CUDA_ARCH": "sm_80, compute_90"}
    with JobContext.standalone(ctx.workspace, environment=named) as chosen:
        assert architectures(chosen, THIRTEEN) == ("sm_80", "compute_90")


@pytest.mark.parametrize("name", ["sm_70", "90", "sm_90x", "compute_999"])
def test_an_unknown_architecture_is_told_with_those_known(name: str) -> None:
    with pytest.raises(UsageError, match="It knows sm_80, sm_90, sm_100"):
        check_architectures([name], THIRTEEN)


def test_the_doctor_explains_mismatches_by_package_name() -> None:
    whole = replace(THIRTEEN, folders=dict.fromkeys(FOLDERS, "/x"), versions={"runtime": "13.5.37"})
    (fine,) = toolchain_findings(whole, model("13.0"))
    assert (fine.level, "NVRTC 13.5" in fine.detail) == ("ok", True)
    (other,) = toolchain_findings(whole, model("12.8"))
    assert other.level == "warning"
    assert "kforge-mcp[cu12]" in other.remedy
    (mixed,) = toolchain_findings(replace(whole, versions={"runtime": "13.0.96"}), None)
    assert "different releases" in mixed.detail
    assert "'nvidia-cuda-runtime==13.5.*'" in mixed.remedy
    bare = list(toolchain_findings(replace(whole, folders=FOLDERS), None))
    assert [one.remedy.rsplit(" ", 1)[-1] for one in bare[1:]] == ["nvidia-cuda-cccl", "nvidia-cuda-nvdisasm"]


def test_the_doctor_finds_this_environments_toolchain(ctx: JobContext) -> None:
    (found,) = cuda_findings(str(ctx.workspace.root), sys.executable)
    assert (found.name, found.level) == ("CUDA compiler", "ok")
