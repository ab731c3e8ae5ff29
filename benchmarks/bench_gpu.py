"""The judge on a GPU, measured: from source to verdict, eager against itself, faulty candidates, the adversaries.

    python benchmarks/bench_gpu.py PART [--count N] [--limit-s S] [--out FILE]

PART: `softmax` and `group_norm` (distinct candidates from source to verdict, stage by stage), `usual` (three of the
softmax candidates by load_inline, allclose and events), `engine` (softmax candidates as jobs of an engine), `null`
(eager in the candidate's place over seven operators), `faulty` (candidates in a row, one in ten of them faulty),
`cheats` (the adversaries of tests/cheats). A part ends at its limit of seconds and says how far it came. Needs a GPU,
and a model interpreter with CUDA (KFORGE_PYTHON).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from benchmarks import gpu_cards as gpu  # noqa: E402
from benchmarks.gpu_faults import FAULTS  # noqa: E402
from benchmarks.gpu_usual import usual  # noqa: E402
from kforge_mcp.candidate.plan import configurations, parse_plan  # noqa: E402
from kforge_mcp.candidate.rejection import Rejected  # noqa: E402
from kforge_mcp.compile.compiler import compile_candidate  # noqa: E402
from kforge_mcp.compile.outcome import Compiled  # noqa: E402
from kforge_mcp.engine import jobs  # noqa: E402
from kforge_mcp.engine.context import JobContext  # noqa: E402
from kforge_mcp.judge.adversaries import cards as made  # noqa: E402
from kforge_mcp.judge.evaluate import Judgement, evaluate, null_judgement  # noqa: E402
from kforge_mcp.judge.session import Evaluators  # noqa: E402
from kforge_mcp.records.card import OperatorCard  # noqa: E402
from kforge_mcp.records.project import Project  # noqa: E402
from kforge_mcp.search.submission import create_candidate  # noqa: E402
from kforge_mcp.store import cards, projects  # noqa: E402
from kforge_mcp.store.workspace import Workspace  # noqa: E402
from tests.cheats.cuda_table import CHEATS, HONEST  # noqa: E402


class Bench:
    """One workspace, one project on the device; keeps what the evaluators said last."""

    def __init__(self, ctx: JobContext, python: str, folder: Path, limit_s: float) -> None:
        self.ctx = ctx
        self.folder = folder
        self.facts = gpu.device_facts(ctx, python, folder)
        self.project: Project = gpu.project(python, folder, self.facts)
        self.python = python
        self.until = time.monotonic() + limit_s
        self.answer: dict[str, Any] = {}
        self.skip = 0
        original = Evaluators.evaluate

        def remember(evaluators: Evaluators, *args: Any, **options: Any) -> Any:
            answer = original(evaluators, *args, **options)
            self.answer = answer if isinstance(answer, dict) else {}
            return answer

        Evaluators.evaluate = remember  # type: ignore[method-assign]

    def over(self) -> bool:
        return time.monotonic() > self.until

    def judge(self, card: OperatorCard, source: str, **options: Any) -> tuple[dict[str, float], Judgement | str]:
        """Seconds by stage, and the judgement or why there is none."""
        start = time.perf_counter()
        self.answer = {}
        plan = parse_plan(source, card, "cuda")
        if isinstance(plan, Rejected):
            return {}, plan.message
        read = time.perf_counter()
        interpreter = self.project.interpreter
        compiled = compile_candidate(self.ctx, plan, card, configurations(plan), interpreter=interpreter)
        if not isinstance(compiled, Compiled):
            return {}, compiled.message
        built = time.perf_counter()
        judgement = evaluate(self.ctx, self.project, card, plan, compiled, candidate_id="cand_bench", **options)
        end = time.perf_counter()
        inner = self.answer.get("stages", {})
        stages = {
            "read": read - start,
            "compile": built - read,
            "load": inner.get("load_s", 0.0),
            "validate": inner.get("validate_s", 0.0),
            "wait": inner.get("alone_s", 0.0),
            "time": inner.get("time_s", 0.0),
            "process": self.answer.get("evaluation_s", 0.0) - self.answer.get("device_s", 0.0),
            "lock": self.answer.get("lock_s", 0.0),
            "rest": end - built - self.answer.get("evaluation_s", 0.0) - self.answer.get("lock_s", 0.0),
            "total": end - start,
        }
        return stages, judgement


def verdicts(bench: Bench, card: OperatorCard, count: int) -> dict[str, Any]:
    """Distinct candidates from source to verdict."""
    rows: list[dict[str, float]] = []
    words: Counter[str] = Counter()
    speedups: list[float] = []
    for number, source in enumerate(gpu.candidates(card)):
        if number > count or bench.over():
            break
        stages, judgement = bench.judge(card, source)
        if isinstance(judgement, str):
            words[judgement[:120]] += 1
            continue
        result = judgement.benchmarked or judgement.validated
        words[str(result.verdict or f"{result.reason}: {result.message[:160]}")] += 1
        speedups.append(result.speedup or 0.0)
        if number:
            # The first one starts the processes and admits the card.
            rows.append(stages)
        else:
            print("first:", {name: round(value, 3) for name, value in stages.items()}, bench.answer.get("stages"))
    if not rows:
        return {"card": card.name, "verdicts": 0, "words": dict(words)}
    totals = sorted(row["total"] for row in rows)
    print(f"\n{card.name}: {len(rows)} verdicts, seconds (median, 95th percentile)")
    for name in rows[0]:
        values = sorted(row[name] for row in rows)
        print(f"  {name:10s} {statistics.median(values):7.3f} {_percentile(values, 0.95):7.3f}")
    print(f"  {60 * len(totals) / sum(totals):.0f} verdicts a minute; {dict(words)}; best {max(speedups):.2f}")
    print(f"  the last process: {bench.answer.get('stages')}")
    return {"card": card.name, "rows": rows, "words": dict(words), "speedups": speedups}


def engine(bench: Bench, count: int) -> dict[str, Any]:
    """The same as jobs of an engine, as `submit_candidate` has them: dispatch, storing and waiting included."""
    workspace = bench.ctx.workspace
    card = gpu.softmax_card().model_copy(update={"project_id": bench.project.project_id})
    with workspace.transaction() as session:
        projects.save(session, bench.project)
        cards.save(session, card)
    seconds: list[float] = []
    words: Counter[str] = Counter()
    for source in itertools.islice(gpu.candidates(card), count + 1):
        if bench.over():
            break
        start = time.perf_counter()
        candidate = create_candidate(workspace, card_id=card.card_id, source=source, author="bench").candidate
        job = jobs.submit(
            workspace,
            tool="submit_candidate",
            function="kforge_mcp.search.submission:run_submission",
            arguments={"candidate_id": candidate.candidate_id, "stages": ["compile", "validate", "benchmark"]},
            cwd=str(bench.folder),
        )
        job = jobs.wait(workspace, job.job_id, 60.0)
        seconds.append(time.perf_counter() - start)
        result = job.result or {}
        words[str(result.get("verdict") or result.get("message") or job.error)[:200]] += 1
    rest = sorted(seconds[1:])
    if rest:
        print(
            f"\nas jobs of an engine: {len(rest)} verdicts, median {statistics.median(rest):.2f} s, 95th percentile "
            f"{_percentile(rest, 0.95):.2f} s, the first with the engine's start {seconds[0]:.1f} s; {dict(words)}"
        )
    else:
        print(f"\nas jobs of an engine: {seconds}, {dict(words)}")
    return {"seconds": seconds, "words": dict(words)}


def null(bench: Bench, count: int) -> dict[str, Any]:
    """Eager in the candidate's place."""
    operators = gpu.null_cards()
    words: Counter[str] = Counter()
    table: dict[str, list[Any]] = {}
    done = 0
    while done < count and not bench.over():
        for card in operators:
            # Some in a row of one card: a process is ready for the card that was judged last.
            for _ in range(min(10, -(-count // len(operators)))):
                if bench.over():
                    break
                start = time.perf_counter()
                judgement = null_judgement(bench.ctx, bench.project, card)
                seconds = time.perf_counter() - start
                result = judgement.benchmarked or judgement.validated
                word = str(result.verdict or f"{result.reason}: {result.message[:200]}")
                words[word] += 1
                done += 1
                row = (result.eager_us, result.speedup, result.ci_low, result.ci_high, seconds, word)
                table.setdefault(card.card_id, []).append(row)
    print(f"\neager in the candidate's place: {done} judgements, {dict(words)}")
    for name, rows in table.items():
        good = [row for row in rows if row[0]]
        if good:
            width = statistics.median(row[3] - row[2] for row in good)
            farthest = max((abs(row[1] - 1) for row in good), default=0.0)
            print(
                f"  {name:26s} {statistics.median(row[0] for row in good):8.1f} us, {len(rows)} judgements, interval "
                f"{100 * width:.2f} % wide, farthest {100 * farthest:.2f} %, "
                f"{statistics.median(row[4] for row in good):.2f} s each"
            )
        for row in rows:
            if row[5] != "no_difference_shown":
                print("   ", name, row)
    return {"words": dict(words), "table": table}


def faulty(bench: Bench, count: int) -> dict[str, Any]:
    """Candidates in a row, one in ten of them faulty: none lost, none misjudged, no memory that grows."""
    card = gpu.softmax_card()
    wrong: list[str] = []
    memory: list[tuple[int, int, int]] = []
    seconds: dict[str, list[float]] = {}
    sources = gpu.candidates(card)
    done = 0
    for number in range(count):
        if bench.over():
            break
        fault = FAULTS[number // 10 % len(FAULTS)] if number % 10 == 9 else None
        source = f"{fault.source}\nconstexpr int kforge_fault = {number};\n" if fault else next(sources)
        stages, judgement = bench.judge(card, source, call_timeout_s=1.0)
        done += 1
        if isinstance(judgement, str):
            wrong.append(f"{number}: {judgement[:200]}")
            continue
        result = judgement.benchmarked or judgement.validated
        said = result.reason if result.status != "ok" else "ok"
        if said not in (fault.reasons if fault else ("ok",)):
            wrong.append(f"{number} ({fault.name if fault else 'honest'}): {said}: {result.message[:160]}")
        seconds.setdefault(fault.name if fault else "honest", []).append(stages["total"])
        if number % 20 == 0:
            memory.append((number, _resident(os.getpid()), _used_on_device()))
    print(f"\n{done} candidates in a row, one in ten faulty: {len(wrong)} misjudged")
    for line in wrong[:10]:
        print("  ", line)
    for name, values in seconds.items():
        print(f"  {name:16s} {len(values):4d}, median {statistics.median(values):.2f} s")
    print("  candidate, host RSS of this process and its children (MiB), device memory in use (MiB):")
    print("  ", [(n, rss >> 20, used >> 20) for n, rss, used in memory])
    return {"done": done, "wrong": wrong, "memory": memory, "seconds": seconds}


def cheats(bench: Bench, count: int) -> dict[str, Any]:
    """Every adversary of the suite, and the honest ones."""
    missed: list[str] = []
    done = [0, 0]
    seconds: list[float] = []
    ordered = sorted(
        [(one, True) for one in CHEATS] + [(one, False) for one in HONEST],
        key=lambda entry: (str(entry[0].make), entry[1]),
    )
    for one, is_cheat in ordered[bench.skip :][:count]:
        if bench.over():
            break
        card = made.card(bench.folder, [one.make, *one.also])
        timed = one.timed if isinstance(one, type(CHEATS[0])) else True
        stages = ("validate", "benchmark") if timed else ("validate",)
        start = time.perf_counter()
        try:
            _, judgement = bench.judge(card, one.source, call_timeout_s=2.0, stages=stages)
        except Exception as error:  # noqa: BLE001 - a benchmark reports whatever the judge's own failure was
            missed.append(f"{one.name}: the judge failed: {type(error).__name__}: {str(error)[:200]}")
            continue
        seconds.append(time.perf_counter() - start)
        done[0 if is_cheat else 1] += 1
        if isinstance(judgement, str):
            missed.append(f"{one.name}: not compiled: {judgement[:200]}")
            continue
        result = judgement.benchmarked or judgement.validated
        said = str(result.reason) if result.status != "ok" else "passed"
        expected = one.reasons if isinstance(one, type(CHEATS[0])) else ("passed",)
        if said not in expected:
            row = f"row {one.row} " if isinstance(one, type(CHEATS[0])) else "honest "
            missed.append(f"{row}{one.name}: {said}, not {'/'.join(expected)}: {result.message[:200]}")
    print(
        f"\n{done[0]} of {len(CHEATS)} cheats, {done[1]} of {len(HONEST)} honest: {len(missed)} not as they should be"
    )
    for line in missed:
        print("  ", line)
    if seconds:
        print(f"  {statistics.median(seconds):.2f} s each (median)")
    return {"done": done, "missed": missed}


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _resident(root: int) -> int:
    """Resident bytes of a process and all it started."""
    children: dict[int, list[int]] = {}
    pages: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                pages[int(entry)] = int(Path(f"/proc/{entry}/statm").read_text().split()[1])
            except OSError:
                continue
            children.setdefault(int(stat[1]), []).append(int(entry))
    total, left = 0, [root]
    while left:
        pid = left.pop()
        total += pages.get(pid, 0)
        left += children.get(pid, [])
    return total * os.sysconf("SC_PAGESIZE")


def _used_on_device() -> int:
    command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(run.stdout.split()[0]) << 20 if run.returncode == 0 and run.stdout.split() else 0


PARTS: dict[str, tuple[Callable[[Bench, int], dict[str, Any]], int]] = {
    "softmax": (lambda bench, count: verdicts(bench, gpu.softmax_card(), count), 100),
    "group_norm": (lambda bench, count: verdicts(bench, gpu.group_norm_card(), count), 100),
    "usual": (lambda bench, count: usual(bench.ctx, bench.python, bench.folder, gpu.softmax_card(), count), 3),
    "engine": (engine, 20),
    "null": (null, 630),
    "faulty": (faulty, 500),
    "cheats": (cheats, 1000),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "all"], nargs="?", default="all")
    parser.add_argument("--count", type=int, default=0, help="how many; 0: as many as the target asks for")
    parser.add_argument("--skip", type=int, default=0, help="how many adversaries to leave out, of the first")
    parser.add_argument("--limit-s", type=float, default=1200.0, help="of each part")
    parser.add_argument("--out", default="", help="a file for the raw figures")
    options = parser.parse_args()
    python = os.environ.get("KFORGE_PYTHON", str(REPOSITORY / ".venv-model" / "bin" / "python"))
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        workspace = Workspace.open(Path(name) / "workspace")
        with JobContext.standalone(workspace) as ctx:
            for part in PARTS if options.part == "all" else [options.part]:
                bench = Bench(ctx, python, Path(name), options.limit_s)
                bench.skip = options.skip
                run, usually = PARTS[part]
                found[part] = run(bench, options.count or usually)
                found["device"] = bench.facts
                if options.out:
                    Path(options.out).write_text(json.dumps(found))
        workspace.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
