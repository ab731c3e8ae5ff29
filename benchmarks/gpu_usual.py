"""The usual way, beside: a kernel by `load_inline` with torch's headers, checked by allclose, timed by events."""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu_cards import candidates
from kforge_mcp.candidate.plan import configurations, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.signature import groups
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.compile.cuda.source import cuda_program
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard

_SCRIPT = """
import json, pathlib, sys, time
start = time.perf_counter()
import torch
from torch.utils.cpp_extension import load_inline
folder = pathlib.Path(sys.argv[1])
module = load_inline("usual_ext", cpp_sources="void run(torch::Tensor x, torch::Tensor out);",
                     cuda_sources=(folder / "kernel.cu").read_text(), functions=["run"],
                     extra_cuda_cflags=["-arch=" + sys.argv[2], "-O3"], build_directory=str(folder))
built = time.perf_counter()
x = torch.randn(1, 8, 512, 512, device="cuda")
out = torch.empty_like(x)
module.run(x, out)
right = torch.allclose(out, torch.softmax(x, -1), atol=1e-4)
def timed(call):
    for _ in range(10):
        call()
    events = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(100)]
    for begin, end in events:
        begin.record(); call(); end.record()
    torch.cuda.synchronize()
    return sorted(begin.elapsed_time(end) * 1e3 for begin, end in events)[50]
ours, eager = timed(lambda: module.run(x, out)), timed(lambda: torch.softmax(x, -1))
print(json.dumps({"build_s": built - start, "total_s": time.perf_counter() - start, "allclose": right,
                  "us": ours, "eager_us": eager}))
"""


def usual(ctx: JobContext, python: str, folder: Path, card: OperatorCard, count: int) -> dict[str, Any]:
    """The first candidates of the softmax card, each in a process of its own, all at once."""
    del ctx
    arch = "sm_90a"
    running: list[tuple[float, subprocess.Popen[str]]] = []
    for number, source in enumerate(itertools.islice(candidates(card), count)):
        plan = parse_plan(source, card, "cuda")
        assert not isinstance(plan, Rejected)
        (config,) = configurations(plan)
        (group,) = groups(plan, card, config)
        bound = bind_steps(plan, card.variants[0], config)
        assert not isinstance(bound, Rejected)
        launch = bound.steps[0].model_dump()
        place = folder / f"usual-{number}"
        place.mkdir()
        x = card.variants[0].tensors[0]
        arguments = f"x.data_ptr<float>(), {x.numel // x.shape[-1]}LL, {x.shape[-1]}LL, out.data_ptr<float>()"
        host = (
            f"\nvoid run(torch::Tensor x, torch::Tensor out) {{\n    {launch['kernel_name_expression']}<<<"
            f"{launch['grid'][0]}, {launch['block'][0]}>>>({arguments});\n}}\n"
        )
        (place / "kernel.cu").write_text(cuda_program(plan, card, group, config).whole + host)
        command = [python, "-c", _SCRIPT, str(place), arch]
        running.append(
            (time.perf_counter(), subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        )
    rows: list[dict[str, Any]] = []
    for start, process in running:
        out, err = process.communicate()
        if process.returncode:
            print("load_inline failed:", err[-600:])
            continue
        rows.append({**json.loads(out.splitlines()[-1]), "wall_s": time.perf_counter() - start})
    print(f"\nthe usual way, {len(rows)} candidates at once:")
    for row in rows:
        print("  ", {name: round(value, 2) if isinstance(value, float) else value for name, value in row.items()})
    return {"rows": rows}
