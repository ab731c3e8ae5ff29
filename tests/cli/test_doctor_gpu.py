"""What the doctor says of GPUs."""

from __future__ import annotations

from typing import Any

from kforge_mcp.cli.doctor_gpu import device_findings
from kforge_mcp.records.project import Interpreter

DEVICE: dict[str, Any] = {
    "name": "NVIDIA H200", "uuid": "GPU-1", "architecture": "sm_90a", "sm_count": 132, "free_bytes": 140 << 30,
    "memory_bytes": 141 << 30, "driver": "580.159.04", "cuda": "13.0", "others": "", "others_unknown": "",
}  # fmt: skip


def model(cuda: str = "13.0") -> Interpreter:
    return Interpreter(
        executable="/py", found_by="server", python_version="3.12.3", torch_version="2.11.0", cuda_version=cuda
    )


def test_a_free_device_is_in_order() -> None:
    (found,) = device_findings({"devices": [DEVICE], "error": ""}, model())
    assert (found.name, found.level) == ("GPU", "ok")
    assert found.detail == (
        "NVIDIA H200 (GPU-1), sm_90a, 132 multiprocessors, 143360 of 144384 MiB free, driver 580.159.04 for CUDA 13.0"
    )


def test_another_process_on_it_is_a_warning_with_what_to_do() -> None:
    device = {**DEVICE, "others": "NVIDIA H200 is also used by another process: pid 7"}
    (found,) = device_findings({"devices": [device], "error": ""}, model())
    assert found.level == "warning"
    assert "pid 7" in found.detail
    assert "device_busy" in found.remedy


def test_processes_that_cannot_be_told_are_said_and_no_warning() -> None:
    device = {**DEVICE, "others_unknown": "NVML is not there"}
    (found,) = device_findings({"devices": [device], "error": ""}, model())
    assert (found.level, found.detail.endswith("cannot be told: NVML is not there")) == ("ok", True)


def test_torch_without_cuda_beside_a_gpu_is_a_warning() -> None:
    _, found = device_findings({"devices": [DEVICE], "error": ""}, model(cuda=""))
    assert (found.name, found.level) == ("torch for CUDA", "warning")


def test_no_gpu_is_in_order_too() -> None:
    (found,) = device_findings({"devices": [], "error": "there is no NVIDIA driver on this machine"}, model(""))
    assert found.level == "ok"
    assert "candidates for CUDA are compiled only" in found.detail
