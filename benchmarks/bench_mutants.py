"""Thousands of small faults in honest kernels: does the judge see every one that can be seen?

    python benchmarks/bench_mutants.py [--count N] [--seed S] [--kernel PART] [--json FILE]

Mutants of the kernels in `mutants/kernels.py` go through the judge's trials and timed calls. What it accepts is held
against inputs of a generator that the judge does not have (`mutants/heldout.py`): a mutant that differs there beyond
twice the same tolerance, where the honest kernel does not, has got through, and the exit status is 1. Those that no
input tells apart are equivalent for all that is known; they are counted by fault, and `--json` keeps them with their
text.
Needs the model interpreter (KFORGE_PYTHON, or .venv-model) and g++.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from mutants.kernels import KERNELS, Honest
from mutants.mutate import mutants
from operators import REPOSITORY

from kforge_mcp.candidate.plan import Plan, parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.candidate.signature import groups
from kforge_mcp.compile.outcome import Binary
from kforge_mcp.compile.preamble import preamble
from kforge_mcp.compile.toolchain import baseline
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.request import Subject, request
from kforge_mcp.records.card import OperatorCard

_PER_UNIT = 100
_FLAGS = (
    "-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math",
    "-ffp-contract=fast", "-w", "-fmax-errors=0", "-fmessage-length=0",
)  # fmt: skip
_LOW = """
struct low {  // a float that keeps eight bits of mantissa
  float v;
  low(float x) : v(bf16_to_float(float_to_bf16(x))) {}
  operator float() const { return v; }
  low& operator+=(float x) { return *this = low(v + x); }
  low& operator-=(float x) { return *this = low(v - x); }
  low& operator*=(float x) { return *this = low(v * x); }
  low& operator/=(float x) { return *this = low(v / x); }
};
"""


def plan_of(honest: Honest, folder: Path) -> tuple[OperatorCard, Plan]:
    """The card of a kernel's operator, and the kernel as a candidate for it."""
    card = cards.card(folder, [honest.make])
    plan = parse_plan(kernels.file(honest.args, exported(honest.code, "kernel")), card, "cpu")
    assert not isinstance(plan, Rejected), (honest.name, plan.message)
    return card, plan


def exported(code: str, name: str) -> str:
    """The kernel under this name, visible from outside."""
    return code.replace("void kernel(", f'extern "C" __attribute__((visibility("default"))) void {name}(', 1)


def build(folder: Path, name: str, head: str, texts: dict[Any, str]) -> tuple[Path | None, list[Any]]:
    """One shared object with all the mutants that compile, and their numbers."""
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    remaining = dict(texts)
    while remaining:
        parts = [head]
        for number, text in remaining.items():
            parts.append(f'namespace m{number} {{\n#line 1 "mutant{number}"\n{exported(text, f"kernel_{number}")}}}')
        source.write_text("\n".join(parts))
        command = ["g++", *_FLAGS, *baseline(), str(source), "-o", str(library)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return library, list(remaining)
        wrong = set(re.findall(r"^mutant(\w+):\d+:\d+: (?:fatal )?error:", run.stderr, re.MULTILINE))
        if not wrong:
            raise RuntimeError(run.stderr[:2000])
        remaining = {number: text for number, text in remaining.items() if str(number) not in wrong}
    return None, []


def prepare(honest: Honest, count: int, seed: int, folder: Path) -> tuple[dict[str, Any], dict[int, tuple[str, str]]]:
    """The job for the model interpreter, and every mutant's text and faults by number."""
    folder.mkdir()
    card, plan = plan_of(honest, folder)
    (group,) = groups(plan, card, {})
    head = preamble(plan, group, {}) + _LOW
    library, _ = build(folder, "honest", head, {"honest": honest.code})
    binary = Binary(path=str(library), digest="", config={}, variants=["v1"], entry="kernel_honest")
    project = cards.project(sys.executable, folder)
    asked = request(
        project, Subject(card, card.variants, [binary], plan, {}), mode="judge", blob_root=folder, scratch=folder,
        schedule=None,
    )  # fmt: skip
    assert not isinstance(asked, Rejected)
    made = mutants(honest.code, 3 * count + 20, random.Random(f"{seed} {honest.name}"))
    known: dict[int, tuple[str, str]] = {}
    units: list[dict[str, Any]] = []
    number = 0
    while len(known) < count:
        texts: dict[int, tuple[str, str]] = {}
        for text in made:
            texts[number := number + 1] = text
            if len(texts) >= min(_PER_UNIT, count - len(known) + 10):
                break
        if not texts:
            break
        path, numbers = build(folder, f"unit{number}", head, {n: text for n, (text, _) in texts.items()})
        numbers = numbers[: count - len(known)]
        known |= {n: texts[n] for n in numbers}
        if path:
            units.append({"path": str(path), "numbers": numbers})
    job = {
        "variant": asked["variants"][0],
        "reference": asked["reference"],
        "honest": str(library),
        "units": units,
        "seed": seed,
    }
    return job, known


def judge(python: str, job: dict[str, Any], path: Path) -> list[dict[str, Any]]:
    """What became of every mutant of a job, the honest kernel first as number 0. Raises `RuntimeError`."""
    path.write_text(json.dumps(job))
    script = Path(__file__).with_name("mutants") / "judged.py"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    run = subprocess.run([python, str(script), str(path)], capture_output=True, text=True, env=environment, check=False)
    results = [json.loads(line) for line in run.stdout.splitlines() if line.startswith('{"number"')]
    failed = next((result["error"] for result in results if "error" in result), run.stderr if run.returncode else "")
    if failed:
        raise RuntimeError(failed[-3000:])
    return results


def examine(python: str, honest: Honest, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """The figures of one kernel's mutants: how many were rejected, by reason, and those that were not."""
    start = time.perf_counter()
    job, known = prepare(honest, count, seed, folder)
    own, *results = judge(python, job, folder / "job.json")
    if own["rejected"] or own["told"]:
        raise RuntimeError(f"{honest.name}, as it should be, is rejected: {own}")
    survivors: list[dict[str, str]] = []
    for result in results:
        if not result["rejected"]:
            text, faults = known[result["number"]]
            survivors.append({"kernel": honest.name, "faults": faults, "told": result["told"], "text": text})
    reasons = Counter(result["rejected"] for result in results if result["rejected"])
    through = sum(bool(survivor["told"]) for survivor in survivors)
    print(
        f"{honest.name}: {len(results)} mutants, {reasons.total()} rejected, {len(survivors) - through} equivalent on "
        f"every input, {through} got through ({time.perf_counter() - start:.0f} s)",
        flush=True,
    )
    return {"kernel": honest.name, "mutants": len(results), "rejected": dict(reasons), "survivors": survivors}


def report(found: list[dict[str, Any]]) -> int:
    """Print the sums and what got through; how many did."""
    survivors = [survivor for each in found for survivor in each["survivors"]]
    through = [survivor for survivor in survivors if survivor["told"]]
    reasons: Counter[str] = Counter()
    for each in found:
        reasons.update(each["rejected"])
    faults = Counter(fault for one in survivors if not one["told"] for fault in one["faults"].split(", "))
    print(f"rejected as: {', '.join(f'{reason} {n}' for reason, n in reasons.most_common())}")
    print(f"equivalent, by fault: {', '.join(f'{fault} {n}' for fault, n in faults.most_common(12))}")
    for survivor in through[:20]:
        print(f"\ngot through: {survivor['kernel']}, {survivor['faults']}; {survivor['told']}\n{survivor['text']}")
    total = sum(each["mutants"] for each in found)
    equivalent = len(survivors) - len(through)
    print(f"{total} mutants: {reasons.total()} rejected, {equivalent} equivalent, {len(through)} got through")
    return len(through)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=2000, help="mutants, over all kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kernel", default="", help="only kernels whose name contains this")
    parser.add_argument("--jobs", type=int, default=2, help="kernels examined at the same time")
    parser.add_argument("--json", type=Path, help="a file for the figures and survivors, one kernel a line")
    options = parser.parse_args()
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    chosen = [honest for honest in KERNELS if options.kernel in honest.name]
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(options.jobs) as pool:
        pending = []
        for index, honest in enumerate(chosen):
            share = options.count * (index + 1) // len(chosen) - options.count * index // len(chosen)
            pending.append(pool.submit(examine, python, honest, share, options.seed, Path(name) / str(index)))
        found: list[dict[str, Any]] = []
        for one in pending:
            found.append(one.result())
            if options.json:
                with options.json.open("a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    return int(bool(report(found)))


if __name__ == "__main__":
    sys.exit(main())
