"""Random programs, captured and replayed: whatever a card claims to be, its stored calls give the original results."""

from __future__ import annotations

import itertools
import linecache
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings

from kforge_mcp.runtime.capture import capture
from kforge_mcp.runtime.entry import load_workload
from tests.capture.workload_replay import account, digests, held, replay, tensors_of
from tests.runtime.capture_programs import programs

_PATCHED = ("torch", "torch.nn.functional")
_number = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("programs")


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """For tensors this small threads only cost."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def _sample(entry: str, folder: Path) -> dict[str, Any]:
    payload = {
        "pass": "sampling",
        "entry": entry,
        "project_dir": "",
        "target": "cpu",
        "blob_root": str(folder / "blobs"),
        "max_bytes": 1 << 26,
    }
    return capture(payload, lambda event: None)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(source=programs())
def test_every_eligible_call_of_a_random_program_replays(source, folder):
    path = folder / f"program_{next(_number)}.py"
    path.write_text(source)
    entry = f"{path}:build"
    try:
        workload = load_workload(entry, "")
        try:
            first, second = (digests(tensors_of(workload.run())) for _ in range(2))
        except Exception:  # noqa: BLE001 - a program may be wrong in itself
            assume(False)
        before = held(workload, [*_PATCHED, path.stem])
        answer = _sample(entry, folder)
        assert held(workload, [*_PATCHED, path.stem]) == before
        if first == second:
            assert digests(tensors_of(workload.run())) == first
            assert answer["notes"] == []
        sites = {site for card in answer["cards"] if card["level"] == "function" for site in card["patch_sites"]}
        # Capture runs the workload twice; a model that keeps state makes other calls the second time.
        workload = load_workload(entry, "")
        originals = account(workload, sites)[0] | account(workload, sites)[0]
        for card in answer["cards"]:
            if card["variants"]:
                assert replay(card, originals, str(folder / "blobs"))[1] == []
    finally:
        sys.modules.pop(path.stem, None)
        linecache.clearcache()
