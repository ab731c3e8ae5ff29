"""Capture the workloads of `examples/workloads` on a GPU, and write `docs/results/capture-cuda.md`.

`python benchmarks/bench_capture_gpu.py [NAME ...]` captures the named workloads (default: all) in the model interpreter
of KFORGE_PYTHON, which needs torch with CUDA, torchvision, transformers and diffusers. `--rows FOLDER` keeps what was
measured there, and goes on from what it finds; with names the table is printed and nothing is written.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from kforge_mcp.capture.job import MAX_SAMPLE_BYTES, capture  # noqa: E402
from kforge_mcp.capture.listing import sort_cards  # noqa: E402
from kforge_mcp.engine.context import JobContext  # noqa: E402
from kforge_mcp.engine.processes import RuntimeProcess  # noqa: E402
from kforge_mcp.records.project import Interpreter  # noqa: E402
from kforge_mcp.store import cards as card_store  # noqa: E402
from kforge_mcp.store import projects as project_store  # noqa: E402
from kforge_mcp.store.workspace import Workspace  # noqa: E402
from tests.capture.workload_checks import inconsistent_times  # noqa: E402

RESULTS = REPOSITORY / "docs" / "results" / "capture-cuda.md"
WORKLOADS = {
    "resnet50": ("ResNet-50, batch 32, fp32", "torchvision:resnet50 batch=32"),
    "sd35_transformer": ("SD 3.5 Medium transformer, 2 x 4096 + 333 tokens, bf16", "sd35_transformer.py:build"),
    "sd35_vae_decode": ("SD 3.5 VAE decode, 1024 x 1024, bf16", "sd35_vae_decode.py:build"),
    "gemma4_e2b": ("Gemma 4 E2B text, prefill 512, eager attention, bf16", "gemma4_e2b.py:build"),
    "qwen35_35b_a3b": ("Qwen 3.5 35B-A3B text, prefill 512, bf16", "qwen35_35b_a3b.py:build"),
}
LIMIT_S = 180.0
MEMORY_SLACK = 1 << 30
SHOWN = 10


class Watching(JobContext):
    """Keeps what the sampling pass says of its memory, and how long others had the GPU."""

    memory: Mapping[str, int] = {}
    waited_s = 0.0

    @contextmanager
    def device_lock(self, key: str = "cpu") -> Iterator[None]:
        start = time.monotonic()
        with super().device_lock(key):
            self.waited_s += time.monotonic() - start
            yield

    def runtime(self, interpreter: Interpreter, **options: Any) -> RuntimeProcess:
        process = super().runtime(interpreter, **options)
        call = process.call

        def watched(operation: str, payload: dict[str, Any], **how: Any) -> dict[str, Any]:
            answer = call(operation, payload, **how)
            if payload.get("pass") == "sampling":
                self.memory = answer["memory"]
            return answer

        process.call = watched  # type: ignore[method-assign]
        return process


def measure(name: str, workspace: Workspace, python: str) -> dict[str, Any]:
    """Everything about one workload."""
    title, entry = WORKLOADS[name]
    start = time.monotonic()

    def report(message: str, fraction: float) -> None:
        print(f"{time.monotonic() - start:6.1f} s {name} {fraction:4.0%} {message}", file=sys.stderr, flush=True)

    with Watching.standalone(workspace, "capture_model", report=report) as ctx:
        result = capture(
            ctx,
            entry=entry,
            name=name,
            target="cuda",
            python=python,
            project_dir=str(REPOSITORY / "examples" / "workloads"),
            timeout_s=2 * LIMIT_S,
        )
    seconds = time.monotonic() - start - ctx.waited_s
    with workspace.reading() as session:
        project = project_store.get(session, result["project_id"])
        cards = list(card_store.of_project(session, result["project_id"]))
    faults = inconsistent_times(cards)
    if seconds > LIMIT_S:
        faults.append(f"capture took {seconds:.0f} s")
    if ctx.memory["host_bytes"] > MAX_SAMPLE_BYTES + MEMORY_SLACK:
        faults.append(f"capture needed {ctx.memory['host_bytes'] >> 20} MiB of the host more than the workload")
    return {
        "name": name,
        "title": title,
        "device": project.device.model_dump(mode="json"),
        "torch": project.interpreter.torch_version,
        "cards": len(cards),
        "eligible": sum(card.eligible for card in cards),
        "variants": sum(len(card.variants) for card in cards),
        "wall_ms": project.workload_us / 1e3,
        "idle_share": project.idle_share,
        "capture_s": seconds,
        **ctx.memory,
        "notes": result["notes"],
        "faults": faults,
        "listed": [
            {
                "name": card.name,
                "level": card.level,
                "eligible": card.eligible,
                "reason": card.reason,
                "calls": card.calls,
                "share": card.share,
                "own_share": card.own_share,
                "eager_us": card.eager_us,
                "gain_ceiling": card.gain_ceiling,
                "headroom": card.headroom,
            }
            for card in sort_cards(cards)
        ],
    }


def write(rows: list[dict[str, Any]], packages: str) -> str:
    """The results as Markdown."""
    device, torch_version = rows[0]["device"], rows[0]["torch"]
    ceilings = device["ceilings"]
    rates = ", ".join(f"{name} {rate / 1e3:.0f}" for name, rate in ceilings["gflops"].items())
    copies = ceilings["bandwidth_gbs"]
    largest = max(copies, key=int)
    lines = [
        "# Capture on a GPU: results",
        "",
        f"{datetime.date.today().isoformat()}, {device['name']} ({device['arch']}, {device['sm_count']} "
        f"multiprocessors, {device['l2_bytes'] / 2**20:.0f} MiB L2), driver {device['driver']}, torch {torch_version}, "
        f"{packages}. `python benchmarks/bench_capture_gpu.py`; the workloads are in `examples/workloads/`: the real "
        "sizes, random weights, built on the device.",
        "",
        f"Ceilings measured there: copies {copies[largest] / 1e3:.2f} TB/s at {int(largest) / 2**30:.0f} GiB and "
        f"{max(copies.values()) / 1e3:.2f} TB/s at best, in the L2 cache; matrix products, TFLOP/s: {rates}.",
        "",
        f"Each capture ends within {LIMIT_S:.0f} s from the tool call to the cards, imports of the libraries included, "
        f"and takes at most {(MAX_SAMPLE_BYTES + MEMORY_SLACK) >> 30} GiB of host memory more than the workload, or "
        "its row says what does not hold. Wall times are medians of runs without a profiler; the idle share is the "
        "part of them in which the GPU does nothing. Extra memory is what the sampling pass needed beyond the "
        "workload's own peak in the same process.",
        "",
        "| workload | cards (eligible) | variants | one run | GPU idle | capture | extra host memory "
        "| extra device memory | faults |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['title']} | {row['cards']} ({row['eligible']}) | {row['variants']} | {row['wall_ms']:.1f} ms "
        f"| {row['idle_share']:.0%} | {row['capture_s']:.0f} s | {row['host_bytes'] / 2**20:.0f} MiB "
        f"| {row['device_bytes'] / 2**20:.0f} MiB | {'; '.join(row['faults']) or 'none'} |"
        for row in rows
    ]
    lines += [
        "",
        "The ten cards listed first, by headroom (`docs/design/ranking-cards.md`): headroom, gain ceiling, calls, "
        "device time in a run and its share of the workload's device time.",
        "",
        "| workload | cards |",
        "|---|---|",
    ]
    for row in rows:
        top = ", ".join(
            f"`{card['name']}` {card['headroom'] or 0:.1%}, {card['gain_ceiling']:.2f}x ({card['calls']} calls, "
            f"{card['eager_us'] / 1e3:.2f} ms, {card['share']:.0%})"
            for card in row["listed"][:SHOWN]
        )
        lines.append(f"| {row['title']} | {top} |")
    return "\n".join(lines) + "\n"


def packages_of(python: str) -> str:
    """The versions of the libraries whose classes are captured."""
    code = (
        "from importlib.metadata import version;"
        "print(', '.join(f'{name} {version(name)}' for name in ('torchvision', 'transformers', 'diffusers')))"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *WORKLOADS], metavar="NAME")
    parser.add_argument("--rows", type=Path, default=None, help="folder that keeps each workload's measurements")
    options = parser.parse_args()
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        kept = options.rows or Path(folder, "rows")
        kept.mkdir(parents=True, exist_ok=True)
        packages = kept / "packages.txt"
        if not packages.exists():
            packages.write_text(packages_of(python))
        for name in options.names or WORKLOADS:
            path = kept / f"{name}.json"
            if not path.exists():
                path.write_text(json.dumps(measure(name, Workspace.open(kept / "workspace"), python)))
            rows.append(json.loads(path.read_text()))
            print(f"{name}: {rows[-1]['capture_s']:.0f} s, {'; '.join(rows[-1]['faults']) or 'fine'}", flush=True)
        text = write(rows, packages.read_text())
    if options.names:
        print(text)
    else:
        RESULTS.write_text(text)
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
