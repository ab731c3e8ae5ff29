"""Real models, captured by the job that `capture_model` runs. All of them: `benchmarks/bench_capture.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from kforge_mcp.errors import UsageError
from kforge_mcp.records.project import Ceilings
from kforge_mcp.store.workspace import Workspace
from tests.capture.workload_checks import Captured, capture_workload, inconsistent_times, replay_elsewhere
from tests.capture.workloads.catalogue import HERE, WORKLOADS, Listed

QUICK = ("gpt2", "vae", "gnn", "unet", "hooked", "functional", "autocast")


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Iterator[Workspace]:
    workspace = Workspace.open(tmp_path_factory.mktemp("workloads") / "workspace")
    yield workspace
    workspace.close()


@pytest.fixture(scope="module")
def captured(shared, model_python) -> Iterator[Callable[[str], Captured]]:
    """The capture of a workload by name; made once."""
    known: dict[str, Captured] = {}
    ceilings = Ceilings(bandwidth_gbs={1 << 18: 50.0, 1 << 26: 20.0}, gflops={"fp32": 50.0})

    def call(name: str) -> Captured:
        if name not in known:
            known[name] = capture_workload(shared, WORKLOADS[name], model_python)
        return known[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kforge_mcp.capture.job.known_or_measured", lambda *arguments: ceilings)
        patch.setattr("kforge_mcp.capture.job._TIMING_S", 0.5)
        yield call


@pytest.mark.parametrize("name", QUICK)
def test_the_times_of_a_workload_are_consistent(captured, name):
    assert inconsistent_times(captured(name).cards) == []


@pytest.mark.parametrize("name", QUICK)
def test_the_cards_that_a_specialist_would_name_are_there(captured, name):
    names = {card.name for card in captured(name).cards}
    assert set(WORKLOADS[name].specialist) <= names


@pytest.mark.parametrize("name", QUICK)
def test_every_variant_replays_and_the_workload_is_left_as_it_was(captured, shared, model_python, tmp_path, name):
    capture = captured(name)
    answer = replay_elsewhere(shared, WORKLOADS[name], capture.cards, model_python, tmp_path)
    assert answer["faults"] == []
    assert answer["replayed"] == sum(len(card.variants) for card in capture.cards)
    assert answer["patched"] == []
    assert answer["unchanged"]
    assert capture.runs_differ == []


def test_a_script_that_trains_is_refused_with_the_reason(shared, model_python):
    script = Listed("training_step", "training_step", ())
    with pytest.raises(UsageError, match="train"):
        capture_workload(shared, script, model_python, entry=f"{HERE / 'training_step.py'} --batch 4")
