"""Counters are read from Nsight Compute's raw page; the text is that of version 2025.3 on an H200, fewer columns."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.counters import longest, parse_counters, read_counters
from kforge_mcp.store.workspace import Workspace
from tests.search.building import make_project

KERNELS = {"_Z4rowsILi128EEvPKfPf": "rows<BLOCK>", "_Z1kPKfPf": "k"}
OUTPUT = """\
==PROF== Connected to process 689 (/usr/bin/python3.12)
{"finding": null, "memory": []}
==PROF== Disconnected from process 689
"ID","Process ID","Kernel Name","Block","dram__bytes_read.sum","gpu__time_duration.sum","lts__t_sector_hit_rate.pct"
"","","","","byte","ns","%"
"0","689","k(const float *, float *)","(256, 1, 1)","6,912","2,016","200.80"
"1","689","void rows<128>(const float *, float *)","(128, 1, 1)","1,006,912","9,016","n/a"
"2","689","k(const float *, float *)","(256, 1, 1)","1","1","1"
"""


def test_the_first_launch_of_each_kernel_is_read_with_its_units() -> None:
    found = parse_counters(OUTPUT, KERNELS)
    assert [(one.kernel, one.name, one.value, one.unit) for one in found] == [
        ("k", "time", 2016.0, "ns"),
        ("k", "dram read", 6912.0, "byte"),
        ("k", "l2 hit rate", 200.8, "%"),
        ("rows<BLOCK>", "time", 9016.0, "ns"),
        ("rows<BLOCK>", "dram read", 1006912.0, "byte"),
    ]
    assert found[0].metric == "gpu__time_duration.sum"
    assert longest(found) == {"time": 9016.0, "dram read": 1006912.0}


def test_no_counters_are_none() -> None:
    assert parse_counters("==PROF== nothing", KERNELS) == []
    assert longest([]) == {}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (
            'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access counters"',
            "ERR_NVGPUCTRPERM",
        ),
        ('echo "==ERROR== Failed to initialize the profiler: LibraryNotLoaded"; exit 1', "LibraryNotLoaded"),
        ("true", "it read none"),
    ],
)
def test_why_counters_cannot_be_read_is_said(workspace: Workspace, tmp_path: Path, script: str, said: str) -> None:
    tool = tmp_path / "ncu"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    with JobContext.standalone(workspace, environment={"PATH": f"{tmp_path}:/usr/bin:/bin"}, cwd=tmp_path) as ctx:
        found, note = read_counters(ctx, make_project(project_dir=""), tmp_path / "jobs.json", KERNELS)
    assert found == []
    assert note.startswith("no counters: Nsight Compute cannot read them here")
    assert said in note
