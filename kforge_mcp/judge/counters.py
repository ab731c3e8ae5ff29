"""Chosen hardware counters of a CUDA candidate's kernels, read by Nsight Compute where the machine allows it."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from kforge_mcp.compile.cuda.tools import PROFILER, find_tool, missing
from kforge_mcp.engine.context import JobContext
from kforge_mcp.judge.samples import SAMPLE_PROGRAM
from kforge_mcp.records.profile import Counter
from kforge_mcp.records.project import Project

TIMEOUT_S = 120.0
_LAUNCHES = 8
_STALL = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
CHOSEN = {
    "time": "gpu__time_duration.sum",
    "dram read": "dram__bytes_read.sum",
    "dram written": "dram__bytes_write.sum",
    "dram throughput": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "tensor pipe active": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "l1 hit rate": "l1tex__t_sector_hit_rate.pct",
    "l2 hit rate": "lts__t_sector_hit_rate.pct",
    "achieved occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "issue slots used": "smsp__issue_active.avg.pct_of_peak_sustained_active",
    "bytes used of loaded sectors": "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "bytes used of stored sectors": "smsp__sass_average_data_bytes_per_sector_mem_global_op_st.pct",
    "shared bank conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
    "local loads": "smsp__inst_executed_op_local_ld.sum",
    "local stores": "smsp__inst_executed_op_local_st.sum",
    "waits for memory": _STALL.format("long_scoreboard"),
    "waits for shared memory": _STALL.format("short_scoreboard"),
    "waits for a barrier": _STALL.format("barrier"),
    "waits for the arithmetic pipe": _STALL.format("math_pipe_throttle"),
    "waits for the load queue": _STALL.format("lg_throttle"),
}
"""Names for readers and NVIDIA's metrics. Waits are warps that stall for the reason for each instruction issued."""
_BLOCKED = ("ERR_NVGPUCTRPERM", "LibraryNotLoaded", "not supported", "Failed to", "No kernels were profiled")


def read_counters(
    ctx: JobContext, project: Project, jobs: Path, kernels: Mapping[str, str]
) -> tuple[list[Counter], str]:
    """Counters of the first launches of the kernels (symbol to name), and why there are none.

    `jobs` is a file for `cuda/sample.py`. Clocks stay as they are.
    """
    profiler = find_tool(ctx, PROFILER, project.interpreter)
    if not profiler:
        return [], f"no counters: {missing(PROFILER)}"
    wanted = "|".join(re.escape(symbol) for symbol in kernels)
    command = [
        profiler, "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none",
        "--kernel-name-base", "mangled", "--kernel-name", f"regex:^({wanted})$", "--launch-count", str(_LAUNCHES),
        "--metrics", ",".join(CHOSEN.values()),
        project.interpreter.executable, str(SAMPLE_PROGRAM), str(jobs),
    ]  # fmt: skip
    ctx.progress("reading hardware counters", 0.7)
    run = ctx.run(command, cwd=project.project_dir or None, timeout_s=TIMEOUT_S)
    found = parse_counters(run.stdout, kernels)
    if found:
        return found, ""
    if run.timed_out:
        return [], f"no counters: Nsight Compute did not end in {TIMEOUT_S:g} s"
    said = [line.strip("= ") for line in (run.stdout + "\n" + run.stderr).splitlines()]
    telling = next((line for line in said if any(word in line for word in _BLOCKED)), "it read none")
    return [], f"no counters: Nsight Compute cannot read them here ({telling[:200]})"


def parse_counters(output: str, kernels: Mapping[str, str]) -> list[Counter]:
    """The chosen metrics of each kernel's first launch, from `--csv --page raw`."""
    start = output.find('"ID",')
    rows = list(csv.reader(io.StringIO(output[start:]))) if start >= 0 else []
    if len(rows) < 3:
        return []
    heading, units = rows[0], rows[1]
    found: list[Counter] = []
    seen: set[str] = set()
    for row in rows[2:]:
        if len(row) != len(heading):
            break
        values = dict(zip(heading, row, strict=True))
        kernel = _kernel(values.get("Kernel Name", ""), kernels)
        if kernel in seen:
            continue
        seen.add(kernel)
        for name, metric in CHOSEN.items():
            value = _number(values.get(metric, ""))
            if value is not None:
                unit = units[heading.index(metric)]
                found.append(Counter(kernel=kernel, name=name, value=value, unit=unit, metric=metric))
    return found


def longest(counters: Sequence[Counter]) -> dict[str, float]:
    """The counters of the kernel that takes the most time, by name."""
    times = {one.kernel: one.value for one in counters if one.name == "time"}
    if not times:
        return {}
    kernel = max(times, key=lambda name: times[name])
    return {one.name: one.value for one in counters if one.kernel == kernel}


def _kernel(shown: str, kernels: Mapping[str, str]) -> str:
    """The plan's name of a kernel that the profiler shows mangled, demangled or shortened."""
    if shown in kernels:
        return kernels[shown]
    own = re.sub(r"[<(].*", "", shown).split("::")[-1].split(" ")[-1]
    return next((name for name in kernels.values() if name.split("<")[0].split("::")[-1] == own), shown)


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None
