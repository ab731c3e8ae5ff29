"""What a large search costs: `next_proposal` and a completed visit, by size of the tree; size of the database; memory.

    python benchmarks/bench_proposals.py [--sizes 100 10000 100000]

The trees have the number of approaches of the default policy and records as the judge makes them; one process calls,
with the project's other cards untouched.
"""

from __future__ import annotations

import argparse
import bisect
import random
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

from kforge_mcp.records.base import new_id, now  # noqa: E402
from kforge_mcp.records.candidate import Candidate  # noqa: E402
from kforge_mcp.records.card import OperatorCard  # noqa: E402
from kforge_mcp.search import completion  # noqa: E402
from kforge_mcp.search.policy import APPROACHES, WIDENING  # noqa: E402
from kforge_mcp.search.proposals import next_proposal  # noqa: E402
from kforge_mcp.search.submission import create_candidate  # noqa: E402
from kforge_mcp.search.tree import ROOT, Node, Tree  # noqa: E402
from kforge_mcp.search.value import candidate_gain, candidate_value  # noqa: E402
from kforge_mcp.store import schema  # noqa: E402
from kforge_mcp.store.workspace import Workspace  # noqa: E402
from tests.search.building import failed, make_variant, measured, source, store_card  # noqa: E402

OTHER_CARDS = 20
VARIANTS = 4
CALLS = 30


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=[100, 10_000, 100_000])
    options = parser.parse_args()
    print(f"one card of the given size and {OTHER_CARDS} others; medians of {CALLS} calls, ms: wall (processor)")
    print("candidates  next_proposal        submit and complete  database MB  peak memory MB")
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder, Workspace.open(folder) as workspace:
            card = fill(workspace, size)
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            proposed = timed(lambda workspace=workspace: next_proposal(workspace, client="bench"))
            numbers = iter(range(CALLS + 1))
            completed = timed(lambda workspace=workspace, card=card, n=numbers: complete(workspace, card, next(n)))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            stored = sum(file.stat().st_size for file in Path(folder).glob("kforge.db*")) / 1e6
            print(
                f"{size:10d}  {proposed:19s}  {completed:19s}  {stored:11.1f}  {before / 1e3:.0f} to {peak / 1e3:.0f}"
            )
    return 0


def timed(call: Callable[[], object]) -> str:
    """Median wall and processor time of a call in milliseconds, after one that is not counted."""
    call()
    wall: list[float] = []
    cpu: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter(), time.process_time()
        call()
        wall.append(1e3 * (time.perf_counter() - start[0]))
        cpu.append(1e3 * (time.process_time() - start[1]))
    return f"{statistics.median(wall):.1f} ({statistics.median(cpu):.1f})"


def complete(workspace: Workspace, card: OperatorCard, number: int) -> None:
    """A submission with a lease, and its result."""
    lease = next_proposal(workspace, card_id=card.card_id).proposals[0].lease_id
    text = source(body=f"int bench{number};")
    made = create_candidate(workspace, card_id=card.card_id, source=text, lease_id=lease).candidate
    with workspace.transaction() as session:
        completion.record(session, card, made.candidate_id, [measured(card, made.candidate_id, 5.1 + 0.01 * number)])


def fill(workspace: Workspace, size: int) -> OperatorCard:
    """A card with a tree of this size, the largest of a project."""
    project, card = store_card(workspace, variants=[make_variant() for _ in range(VARIANTS)])
    for number in range(OTHER_CARDS):
        store_card(workspace, project, name=f"Other{number}", eager_us=10.0)
    moment, rows, text = now(), [], workspace.blobs.put(source().encode())
    for node in grown(size):
        result = failed(node.candidate_id) if node.value is None else measured(card, node.candidate_id, node.value)
        candidate = Candidate(
            candidate_id=node.candidate_id,
            card_id=card.card_id,
            project_id=project.project_id,
            parent_id=node.parent_id,
            target="cpu",
            source=text,
            source_key=new_id("key"),
            note="vectorised loads of 16 bytes, two rows a block",
            author="agent",
            created_at=moment,
            state="failed" if node.value is None else "measured",
            validated=result if node.value is None else None,
            benchmarked=None if node.value is None else result,
            value=None if node.value is None else candidate_value(card, result),
            gain=None if node.value is None else candidate_gain(card, result),
            visits=node.visits,
            best=node.best,
            pace=node.pace,
        )
        rows.append(row(candidate))
    with workspace.transaction() as session:
        for start in range(0, len(rows), 1000):
            session.connection().execute(schema.candidates.insert(), rows[start : start + 1000])
    return card


def row(candidate: Candidate) -> dict[str, object]:
    """A candidate as the table's columns."""
    record = candidate.model_dump(mode="json")
    return {
        name: record if name == "record" else record[name]
        for name in [column.name for column in schema.candidates.columns]
    }


def grown(size: int) -> list[Node]:
    """Nodes as a long search leaves them, the best last, so that it has not stagnated. Values are speed-ups."""
    dice = random.Random(size)
    approaches = max(1, int(APPROACHES * size**WIDENING))
    names = [new_id("cand") for _ in range(size)]
    parents = [ROOT] * size
    values: list[float | None] = [None if dice.random() < 0.25 else dice.uniform(0.5, 4.0) for _ in range(size)]
    values[0], values[-1] = 1.0, 5.0
    able = [place for place in range(size) if values[place] is not None]
    for place in range(approaches, size):
        before = bisect.bisect_left(able, place)
        near = dice.random() < 0.7
        parents[place] = names[able[dice.randrange(max(0, before - 40), before) if near else dice.randrange(before)]]
    place_of = {name: place for place, name in enumerate(names)}
    visits = [1] * size
    for place in reversed(range(size)):
        if parents[place]:
            visits[place_of[parents[place]]] += visits[place]
    tree = Tree(Node(*known, pace=0.01) for known in zip(names, parents, values, visits, strict=True))
    return list(tree.nodes.values())


if __name__ == "__main__":
    sys.exit(main())
