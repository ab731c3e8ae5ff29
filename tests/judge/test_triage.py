"""Configurations that cannot win are not timed."""

from __future__ import annotations

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.compile.outcome import Binary, KernelResources
from kforge_mcp.judge.request import Subject
from kforge_mcp.judge.triage import impossible, triage
from kforge_mcp.records.project import DeviceInfo
from tests.candidate.cards import candidate_text
from tests.compile.cuda.programs import card

H100 = DeviceInfo(target="cuda", name="H100", arch="sm_90a", sm_count=132)
SOURCE = candidate_text(
    """
[[step]]
kernel = "k"
grid = ["x.shape[0]"]
block = ["BLOCK"]
shared_bytes = "BLOCK * 128"
args = ["x", "out"]
[tunables]
BLOCK = [128, 512, 1024]
""",
    "__global__ void k(const float* x, float* out) {}\n",
)


def subjects(registers: int = 32, spills: tuple[int, ...] = (0, 0, 0), static: int = 0) -> list[Subject]:
    plan = parse_plan(SOURCE, card(), "cuda")
    assert isinstance(plan, Plan), plan.message
    made = []
    for config, spilled in zip(configurations(plan), spills, strict=True):
        kernel = KernelResources(
            kernel="k", symbol="k", registers=registers, spill_store_bytes=spilled, static_shared_bytes=static
        )
        binary = Binary(path="", digest="", config=config, variants=["v0"], entry="", arch="sm_90a", kernels=[kernel])
        made.append(Subject(card(), card().variants, [binary], plan, config))
    return made


def kept(found: list[Subject]) -> list[object]:
    return [subject.config["BLOCK"] for subject in found if subject.config]


def test_all_that_can_run_is_timed() -> None:
    found = triage(subjects(), H100)
    assert kept(found.kept) == [128, 512, 1024]
    assert (found.left_out, found.notes()) == ([], [])


def test_a_block_with_more_registers_than_there_are_is_left_out() -> None:
    found = triage(subjects(registers=97), H100)
    assert kept(found.kept) == [128, 512]
    assert found.left_out == [
        (
            {"BLOCK": 1024},
            "more registers than a block can have: 1024 threads of `k` with 97 each are 106496, at most 65536 are "
            "there",
        )
    ]
    assert found.notes() == ["not timed, more registers than a block can have: 1 configuration, such as BLOCK=1024"]


@pytest.mark.parametrize(
    ("arch", "blocks"), [("sm_90a", [128, 512, 1024]), ("sm_89", [128, 512]), ("sm_80", [128, 512, 1024])]
)
def test_shared_memory_is_that_of_the_devices_architecture(arch: str, blocks: list[int]) -> None:
    found = triage(subjects(), H100.model_copy(update={"arch": arch}))
    assert kept(found.kept) == blocks


def test_static_shared_memory_counts() -> None:
    last = subjects(static=110 * 1024)[-1]
    assert "more shared memory than a block can have: 243712 bytes" in impossible(last, H100)


def test_what_spills_is_left_out_if_something_else_does_not() -> None:
    found = triage(subjects(spills=(0, 8, 400)), H100)
    assert kept(found.kept) == [128, 512]
    assert found.left_out == [({"BLOCK": 1024}, "registers spill: 400 bytes a thread")]
    assert kept(triage(subjects(spills=(300, 200, 400)), H100).kept) == [128, 512, 1024]


def test_if_nothing_can_be_launched_the_judge_says_why() -> None:
    found = triage(subjects(static=300 * 1024), H100)
    assert kept(found.kept) == [128, 512, 1024]
