"""Capture every workload, hold each capture to what must be true of it, and write `docs/results/capture.md`.

`python benchmarks/bench_capture.py [NAME ...]` captures the named workloads (default: all) in the model interpreter
of `make setup` or KFORGE_PYTHON; with names it prints the table instead of writing it. `--rows FOLDER` keeps what was
measured there, and goes on from what it finds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from kforge_mcp.capture.job import MAX_SAMPLE_BYTES  # noqa: E402
from kforge_mcp.store.workspace import Workspace  # noqa: E402
from tests.capture.workload_checks import capture_workload, inconsistent_times, replay_elsewhere  # noqa: E402
from tests.capture.workloads.catalogue import WORKLOADS  # noqa: E402

RESULTS = REPOSITORY / "docs" / "results" / "capture.md"
SHOWN = 10
PLAIN_FACTOR, PLAIN_EXTRA_S = 10, 30.0
MEMORY_SLACK = 1 << 30


def measure(name: str, workspace: Workspace, python: str) -> dict[str, Any]:
    """Everything about one workload, in a process of its own, whose largest child tells the peak memory."""
    workload = WORKLOADS[name]
    captured = capture_workload(workspace, workload, python)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor_s, peak_bytes = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    with tempfile.TemporaryDirectory() as folder:
        plain = replay_elsewhere(workspace, workload, None, python, Path(folder))
        checked = replay_elsewhere(workspace, workload, captured.cards, python, Path(folder))
    ranked = captured.by_gain
    places = {card.name: place for place, card in reversed(list(enumerate(ranked, 1)))}
    extra_bytes = max(0, peak_bytes - plain["peak_bytes"])
    faults = [*checked["faults"], *inconsistent_times(captured.cards), *checked["patched"], *captured.runs_differ]
    if not checked["unchanged"]:
        faults.append("the workload's result changed")
    # On a machine shared with others wall time tells of them: processor time is what capture costs.
    if min(captured.seconds, processor_s) > PLAIN_FACTOR * plain["forward_s"] + PLAIN_EXTRA_S:
        faults.append(f"capture took {captured.seconds:.0f} s, {processor_s:.0f} s of processor time")
    if extra_bytes > MAX_SAMPLE_BYTES + MEMORY_SLACK:
        faults.append(f"capture needed {extra_bytes >> 20} MiB more than the workload")
    return {
        "name": name,
        "device": captured.project.device.model_dump(mode="json"),
        "torch": captured.project.interpreter.torch_version,
        "cards": len(ranked),
        "eligible": sum(card.eligible for card in ranked),
        "variants": sum(len(card.variants) for card in ranked),
        "replayed": checked["replayed"],
        "top": [(card.name, card.level, card.share, card.gain_ceiling, card.headroom) for card in ranked[:SHOWN]],
        "specialist": [(wanted, places.get(wanted, 0)) for wanted in workload.specialist],
        "refused": {card.name: card.reason for card in ranked if not card.eligible},
        "forward_s": plain["forward_s"],
        "capture_s": captured.seconds,
        "processor_s": processor_s,
        "extra_bytes": extra_bytes,
        "load": os.getloadavg()[0],
        "faults": faults,
    }


def run_one(name: str, workspace: Path, python: str) -> dict[str, Any]:
    """`measure` in a process of its own."""
    with tempfile.NamedTemporaryFile(suffix=".json") as answer:
        command = [sys.executable, __file__, "--one", name, "--workspace", str(workspace), "--answer", answer.name]
        run = subprocess.run(command, env={**os.environ, "KFORGE_PYTHON": python}, check=False)
        if run.returncode:
            return {"name": name, "faults": [f"capture failed with exit status {run.returncode}"]}
        return json.loads(Path(answer.name).read_text())


def write(rows: list[dict[str, Any]], packages: str) -> str:
    """The results as Markdown."""
    measured = [row for row in rows if "cards" in row]
    first = measured[0]
    device = first["device"]
    lines = [
        "# Capture: results",
        "",
        f"{datetime.date.today().isoformat()}, {device['name']}, {device['threads']} threads, {platform.system()} "
        f"{platform.release().split('-')[0]}, torch {first['torch']}, {packages}. "
        "`python benchmarks/bench_capture.py`; the workloads are in `tests/capture/workloads/`: small "
        "configurations of the real classes, random weights.",
        "",
        "Of each workload this holds, or its row says what does not: shares without contained cards of the same "
        "level add up to at most 1 on each level; every stored call, rerun in another process, gives the "
        "original's output bit for bit; every variant runs on generated inputs and stays finite; the workload's result "
        "is unchanged and nothing stays patched; capture takes at most ten plain forwards + 30 s of processor time and "
        "2 GiB of memory more than the workload itself. Wall times are without waiting for the device, at a load "
        f"average of {max(row['load'] for row in measured):.0f} on {os.cpu_count()} cores at most; imports of the "
        "libraries, three times, are most of them.",
        "",
        "| workload | cards (eligible) | variants (replayed from samples) | plain forward | capture (processor time) "
        "| extra memory | what a specialist would name: place in the list | faults |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in measured:
        capture_time = f"{row['capture_s']:.0f} s ({row['processor_s']:.0f} s)"
        named = ", ".join(f"`{name}` {place or 'no card'}" for name, place in row["specialist"])
        lines.append(
            f"| {row['name']} | {row['cards']} ({row['eligible']}) | {row['variants']} ({row['replayed']}) "
            f"| {row['forward_s'] * 1e3:.0f} ms | {capture_time} | {row['extra_bytes'] / 2**20:.0f} MiB "
            f"| {named} | {'; '.join(row['faults']) or 'none'} |"
        )
    lines += [
        "",
        _places(measured),
        "",
        "The first ten cards of each workload: headroom, the part of the workload's time that own kernels can be "
        "expected to save beyond the cards inside, by which cards are listed (`docs/design/ranking-cards.md`); in "
        "brackets the ceiling, by how much the whole workload could get faster at most from this card, and its share "
        "of the time.",
        "",
    ]
    lines += ["| workload | cards |", "|---|---|"]
    for row in measured:
        top = ", ".join(
            f"`{name}` {'unknown' if room is None else format(room, '.1%')} ({gain:.2f}x, {share:.0%})"
            for name, _, share, gain, room in row["top"]
        )
        lines.append(f"| {row['name']} | {top} |")
    failed = [f"- {row['name']}: {'; '.join(row['faults'])}" for row in rows if "cards" not in row]
    return "\n".join([*lines, *(["", *failed] if failed else [])]) + "\n"


def _places(measured: list[dict[str, Any]]) -> str:
    """How many of the named cards are among the first that a client sees."""
    named = [(row, name, place) for row in measured for name, place in row["specialist"]]
    low = []
    for row, name, place in named:
        if not 0 < place <= SHOWN:
            why = f"; not eligible: {row['refused'][name]}" if name in row["refused"] else ""
            low.append(f"`{name}` of {row['name']} ({place or 'no card'}{why})")
    text = f"{len(named) - len(low)} of the {len(named)} cards that a specialist would name are among the first {SHOWN}"
    return f"{text}; below stand {', '.join(low)}." if low else f"{text}."


def packages_of(python: str) -> str:
    """The versions of the libraries whose classes are captured."""
    code = (
        "from importlib.metadata import version;"
        "print(', '.join(f'{name} {version(name)}' for name in ('transformers', 'diffusers')))"
    )
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--rows", type=Path, default=None, help="folder that keeps each workload's measurements")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--workspace", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    if options.one:
        options.answer.write_text(json.dumps(measure(options.one, Workspace.open(options.workspace), python)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        kept = options.rows or Path(folder, "rows")
        kept.mkdir(parents=True, exist_ok=True)
        workspace = kept / "workspace"
        if not workspace.exists():
            # The first capture of a workspace measures the device, which is none of the workloads' cost.
            run_one("tied", workspace, python)
        rows = []
        for name in options.names or WORKLOADS:
            path = kept / f"{name}.json"
            if not path.exists():
                path.write_text(json.dumps(run_one(name, workspace, python)))
            rows.append(json.loads(path.read_text()))
            print(f"{name}: {'; '.join(rows[-1]['faults']) or 'fine'}", flush=True)
    text = write(rows, packages_of(python))
    if options.names:
        print(text)
    else:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(text)
    return int(any(row["faults"] for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
