"""Who else is on a device, and what an architecture is called."""

from __future__ import annotations

import pytest

from kforge_mcp.runtime.cuda.device import Company, architecture, company, strangers
from kforge_mcp.runtime.cuda.driver import Driver, NoDriver
from kforge_mcp.runtime.cuda.library import Library
from kforge_mcp.runtime.cuda.nvml import DeviceProcess, Nvml, NvmlError

OWN = 10
LINES = {
    11: b"/usr/bin/python3\0/home/me/train.py\0--epochs\0",
    12: b"/opt/python\0/opt/lib/kforge_mcp/runtime/__main__.py\07\0",
    13: b"",
}


def test_another_program_is_named_with_its_memory() -> None:
    found = strangers([DeviceProcess(OWN, 1 << 30), DeviceProcess(11, 3 << 30)], OWN, LINES.get)
    assert found.message("NVIDIA H200") == (
        "NVIDIA H200 is also used by another process: pid 11 (python3 train.py) with 3072 MiB"
    )


def test_kforge_itself_is_no_stranger() -> None:
    found = strangers([DeviceProcess(OWN, 0), DeviceProcess(12, 1 << 30)], OWN, LINES.get)
    assert found == Company()
    assert found.message("x") == ""


def test_a_process_of_another_user_is_a_stranger_without_a_name() -> None:
    found = strangers([DeviceProcess(OWN, 0), DeviceProcess(13, 0)], OWN, LINES.get)
    assert found.message("GPU") == "GPU is also used by another process: pid 13"


def test_numbers_of_another_namespace_accuse_nobody() -> None:
    found = strangers([DeviceProcess(9001, 1 << 30)], OWN, LINES.get)
    assert found.processes == ()
    assert "namespace" in found.unknown


def test_without_nvml_it_is_said_that_nobody_can_be_told() -> None:
    def missing(_uuid: str) -> Nvml:
        raise NvmlError("NVML is not there")

    assert company("GPU-0", missing).unknown == "NVML is not there"


@pytest.mark.parametrize(
    ("capability", "name"), [((8, 0), "sm_80"), ((8, 9), "sm_89"), ((9, 0), "sm_90a"), ((12, 0), "sm_120a")]
)
def test_architectures_are_named_as_the_compiler_wants_them(capability: tuple[int, int], name: str) -> None:
    assert architecture(capability) == name


def test_a_machine_without_a_driver_says_what_is_missing() -> None:
    with pytest.raises(NoDriver, match="no NVIDIA driver"):
        Driver(0, Library("libnothing-of-the-kind.so.1"))
