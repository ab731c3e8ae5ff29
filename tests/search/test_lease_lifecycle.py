"""Leases, submissions, verdicts and expiry in any order: no lease twice, no visit lost, the tree as its records say."""

from __future__ import annotations

import tempfile
from datetime import timedelta

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kforge_mcp.records.base import now
from kforge_mcp.records.result import StageResult
from kforge_mcp.search import completion
from kforge_mcp.search.leases import DURATION
from kforge_mcp.search.proposals import next_proposal
from kforge_mcp.search.submission import create_candidate
from kforge_mcp.search.tree import Node, Tree
from kforge_mcp.store import budgets, candidates, leases
from kforge_mcp.store.workspace import Workspace
from tests.search.building import failed, measured, source, store_card


class Lifecycle(RuleBasedStateMachine):
    """Several clients on one card of a real workspace."""

    @initialize()
    def start(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.workspace = Workspace.open(self.folder.name)
        self.project, self.card = store_card(self.workspace)
        self.moment = now()
        self.handed: list[str] = []
        """Leases, in the order in which they were handed out."""
        self.submitted = 0
        self.open: list[str] = []
        self.judged: dict[str, int] = {}
        """Completed visits by candidate."""

    def teardown(self) -> None:
        if hasattr(self, "workspace"):
            self.workspace.close()
            self.folder.cleanup()

    @rule(count=st.integers(1, 3))
    def propose(self, count: int) -> None:
        made = next_proposal(self.workspace, card_id=self.card.card_id, count=count, moment=self.moment)
        if made.stop is not None:
            assert made.stop.reason in ("stagnation", "speed_of_light")
            return
        names = [proposal.lease_id for proposal in made.proposals]
        assert len(names) == count
        assert not set(names) & set(self.handed)
        self.handed += names

    @precondition(lambda self: self.handed)
    @rule(data=st.data())
    def submit(self, data: st.DataObject) -> None:
        lease_id = data.draw(st.sampled_from(self.handed))
        self._submit(lease_id=lease_id)

    @rule()
    def submit_by_hand(self) -> None:
        self._submit()

    def _submit(self, **arguments: str) -> None:
        self.submitted += 1
        text = source(body=f"int a{self.submitted};")
        made = create_candidate(self.workspace, card_id=self.card.card_id, source=text, **arguments)
        assert not made.duplicate
        self.open.append(made.candidate.candidate_id)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), speedup=st.none() | st.sampled_from([0.5, 0.9, 1.2, 1.7, 3.0]))
    def judge(self, data: st.DataObject, speedup: float | None) -> None:
        name = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self._record(name, failed(name) if speedup is None else measured(self.card, name, speedup))
        self.judged[name] = 1

    @precondition(lambda self: self.judged)
    @rule(data=st.data(), speedup=st.none() | st.sampled_from([0.7, 1.4, 2.5]))
    def judge_again(self, data: st.DataObject, speedup: float | None) -> None:
        name = data.draw(st.sampled_from(sorted(self.judged)))
        self._record(name, failed(name) if speedup is None else measured(self.card, name, speedup))

    @precondition(lambda self: self.open)
    @rule()
    def say_nothing_of_the_candidate(self) -> None:
        name = self.open[0]
        self._record(name, failed(name, "device_busy", "other processes use the device"))

    def _record(self, name: str, result: StageResult) -> None:
        with self.workspace.transaction() as session:
            completion.record(session, self.card, name, [result])

    @rule()
    def wait(self) -> None:
        self.moment += DURATION / 2 + timedelta(seconds=1)

    @invariant()
    def no_visit_is_lost_and_none_counts_twice(self) -> None:
        with self.workspace.reading() as session:
            rows = candidates.of_card(session, self.card.card_id)
            spent = budgets.get_or_default(session, self.card.card_id).spent_iterations
            owned = budgets.get_or_default(session, self.project.project_id).spent_iterations
        tree = Tree(Node(row.candidate_id, row.parent_id, row.gain, row.visits) for row in rows)
        assert len(rows) == self.submitted
        assert tree.completed("") == spent == owned == len(self.judged)
        for row in rows:
            below = tree.children(row.candidate_id)
            assert row.visits == self.judged.get(row.candidate_id, 0) + sum(child.visits for child in below)
            assert row.best == tree.nodes[row.candidate_id].best
            assert (row.gain is None) == (row.state != "measured")

    @invariant()
    def a_lease_ends_with_a_measurement_or_its_last_try(self) -> None:
        with self.workspace.reading() as session:
            for lease in leases.of_card(session, self.card.card_id):
                made = candidates.of_lease(session, lease.lease_id)
                assert len(made) == 3 - lease.tries_left
                if lease.state == "used":
                    assert lease.tries_left == 0 or any(one.candidate_id in self.judged for one in made)


TestLifecycle = Lifecycle.TestCase
TestLifecycle.settings = settings(
    max_examples=12, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
