"""A profile's figures, with a stand-in for the device: what is asked of it and what is made of its answers."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from kforge_mcp.runtime.cuda.gpu import Unavailable
from kforge_mcp.runtime.cuda.measuring import measure

_spec = importlib.util.spec_from_file_location("fake_driver", Path(__file__).with_name("fake.py"))
assert _spec is not None
assert _spec.loader is not None
fake = importlib.util.module_from_spec(_spec)
sys.modules["fake_driver"] = fake
_spec.loader.exec_module(fake)

SPEC = {"dtype": "fp32", "shape": [4, 2], "stride": [2, 1]}


class Device:
    """Stands for `Gpu`: each call of a program takes 20 us, its steps 5 and 15."""

    def __init__(self, library: Any) -> None:
        self.device = torch.device("cpu")
        self.driver = fake.driver(library)
        self.timed = 0

    def load(self, image: bytes, bound: dict[str, Any], kernels: dict[str, str]) -> Any:
        from kforge_mcp.runtime.cuda.program import Program

        return Program(self.driver, image, bound, kernels)

    def synchronize(self) -> None:
        pass

    def time(self, enqueue: Callable[[], Any]) -> float | None:
        self.timed += 1
        enqueue()
        return None if self.timed == 1 else 20e-6

    def time_steps(self, enqueue: Callable[[Callable[[int], None]], None], count: int) -> list[float]:
        seen: list[int] = []
        enqueue(seen.append)
        assert seen == list(range(count))
        return [5e-6, 15e-6]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(torch.cuda, "current_stream", lambda _ordinal: type("S", (), {"cuda_stream": 1})())
    (tmp_path / "cubin").write_bytes(b"\x7fELF")
    steps = [
        fake.launch(fake.argument("tensor"), fake.argument("output")),
        fake.launch(fake.argument("output"), kernel="other<2>", step=1, block=[100, 1, 1], grid=[528, 1, 1]),
    ]
    return {
        "cubin": str(tmp_path / "cubin"),
        "kernels": {"k": "_Zk", "other<2>": "_Zother"},
        "bound": fake.bound(*steps),
        "tensors": [SPEC],
        "outputs": [SPEC],
    }


def test_times_and_residency_of_every_launch(job: dict[str, Any]) -> None:
    library = fake.FakeLibrary()
    found = measure(job, lambda event: None, lambda _ordinal: Device(library))
    assert (found["error"], found["finding"]) == (None, None)
    assert found["device_us"] == pytest.approx(20)
    assert found["steps_us"] == pytest.approx([5, 15])
    first, second = found["launches"]
    assert first == {"kernel": "k", "blocks_per_sm": 2, "occupancy": 2 * 128 / 2048, "waves": 4 / 264}
    assert (second["occupancy"], second["waves"]) == (2 * 128 / 2048, 2.0)


def test_a_limit_that_is_exceeded_is_the_finding_and_nothing_runs(job: dict[str, Any]) -> None:
    library = fake.FakeLibrary(kernels={"_Zk": {"max_threads": 64}})
    found = measure(job, lambda event: None, lambda _ordinal: Device(library))
    assert found["finding"]["reason"] == "launch_failed"
    assert [call for call in library.calls if call[0] == "launch"] == []


def test_a_kernel_that_fails_is_the_finding(job: dict[str, Any]) -> None:
    library = fake.FakeLibrary()
    library.fail = {"cuStreamSynchronize": [700]}
    found = measure(job, lambda event: None, lambda _ordinal: Device(library))
    assert found["finding"]["reason"] == "crashed"


def test_a_machine_without_a_device_says_what_it_lacks(job: dict[str, Any]) -> None:
    def missing(_ordinal: int) -> Any:
        raise Unavailable("torch finds no CUDA device")

    assert measure(job, lambda event: None, missing) == {"error": "torch finds no CUDA device", "finding": None}
