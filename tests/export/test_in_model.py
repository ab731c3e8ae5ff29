"""Which kernels stay after an acceptance: pure decisions on raw rounds."""

from __future__ import annotations

from typing import Any

import pytest

from kforge_mcp.export.acceptance import describe, not_in_graphs, read, to_leave_out

CARDS = ["norm", "pair"]


def raw(*, norm: float = 50.0, pair: float = 50.0, total: float = 900.0, rounds: int = 12, **changes: Any) -> Any:
    """Rounds in which eager takes 100 us per card and 1,000 us in all, with 1 % of noise."""

    def run(number: int, total_us: float, **cards: float) -> dict[str, Any]:
        noise = 1 + 0.01 * ((number * 7919) % 11 - 5) / 5
        return {
            "total_us": total_us * noise,
            "cards": {
                card: {"us": us * noise, "calls": [["64x256", us * noise / 3]] * 3, "count": 3}
                for card, us in cards.items()
            },
        }

    made = []
    for number in range(rounds):
        runs = {
            "without": run(number, 1000.0),
            "without_again": run(number + 1, 1000.0),
            "with": run(number + 2, total, norm=norm, pair=pair),
            "with_again": run(number + 3, total, norm=norm, pair=pair),
            "off:norm": run(number + 4, changes.get("off_norm", total + 50), norm=100.0, pair=pair),
            "off:pair": run(number + 5, changes.get("off_pair", total + 50), norm=norm, pair=100.0),
        }
        made.append({"order": list(runs), "runs": runs})
    served = changes.get("served", {card: {"hits": 3, "misses": {}} for card in CARDS})
    outputs = {"equal": True, "difference": "none", **changes.get("outputs", {})}
    return {"rounds": made, "repeats": 1, "served": served, "outputs": outputs}


def test_kernels_that_help_stay() -> None:
    found = read(raw(), CARDS)
    assert to_leave_out(found) == {}
    norm = found.kernels["norm"]
    assert norm.comparison.verdict == "faster" and norm.calls == 3
    assert norm.comparison.speedup == pytest.approx(2.0, rel=0.05)
    assert norm.comparison.ci_low <= norm.comparison.speedup <= norm.comparison.ci_high
    assert found.end_to_end.comparison.verdict == "faster" and found.end_to_end.mode == "eager"
    assert describe(norm.comparison).startswith("faster, ")


def test_a_kernel_without_effect_in_the_model_leaves() -> None:
    leaving = to_leave_out(read(raw(pair=100.0), CARDS))
    assert list(leaving) == ["pair"] and leaving["pair"].startswith("in the model: no difference shown")


def test_a_kernel_that_no_call_reaches_leaves_with_its_misses() -> None:
    served = {"norm": {"hits": 3, "misses": {}}, "pair": {"hits": 0, "misses": {"stride": 2, "grad": 1}}}
    assert to_leave_out(read(raw(pair=100.0, served=served), CARDS)) == {
        "pair": "no call of the workload passed its guards (misses: grad 1, stride 2)"
    }
    served["pair"]["misses"] = {}
    assert to_leave_out(read(raw(served=served), CARDS)) == {"pair": "no call of the workload reached it"}


def test_wrong_outputs_are_blamed_on_the_kernels_whose_absence_mends_them() -> None:
    outputs = {"equal": False, "difference": "output 0: 1 where 2 is allowed", "equal_without": ["pair"]}
    leaving = to_leave_out(read(raw(outputs=outputs), CARDS))
    assert list(leaving) == ["pair"] and "output 0" in leaving["pair"]
    outputs["equal_without"] = []
    assert list(to_leave_out(read(raw(outputs=outputs), CARDS))) == CARDS


def test_a_slower_workload_drops_the_kernel_without_which_it_is_fastest() -> None:
    leaving = to_leave_out(read(raw(total=1200.0, off_norm=1000.0, off_pair=1150.0), CARDS))
    assert list(leaving) == ["norm"] and "the workload was slower" in leaving["norm"]


def under_graphs(*, rounds: int = 12, **us: float) -> dict[str, Any]:
    """Replays in which the workload takes 100 us without the package and 80 with it, with 1 % of noise."""
    arranged = {"without": 100.0, "with": 80.0, "off:norm": 90.0, "off:pair": 90.0, **us}
    arranged |= {"without_again": arranged["without"], "with_again": arranged["with"]}

    def noise(number: int) -> float:
        return 1 + 0.01 * ((number * 7919) % 11 - 5) / 5

    made = [
        {name: value * noise(number + place) for place, (name, value) in enumerate(arranged.items())}
        for number in range(rounds)
    ]
    return {"captured": True, "reason": "", "outputs": {"equal": True, "difference": "none"}, "rounds": made}


def accepted(graphs: dict[str, Any] | None) -> Any:
    return read({**raw(), "graphs": graphs}, CARDS)


def test_kernels_that_help_under_graphs_are_recorded_into_them() -> None:
    found = accepted(under_graphs())
    assert not_in_graphs(found) == {}
    assert [mode.mode for mode in found.modes] == ["eager", "cuda_graph"]
    assert found.modes[1].comparison.speedup == pytest.approx(1.25, rel=0.02)
    assert not_in_graphs(accepted(None)) == {} and [mode.mode for mode in accepted(None).modes] == ["eager"]


def test_a_kernel_that_does_not_help_under_graphs_is_eager_only() -> None:
    left = not_in_graphs(accepted(under_graphs(**{"off:pair": 80.0})))
    assert list(left) == ["pair"] and left["pair"].startswith("no difference shown")
    assert to_leave_out(accepted(under_graphs(**{"off:pair": 80.0}))) == {}


def test_a_workload_that_cannot_be_captured_or_gets_worse_keeps_all_out_of_graphs() -> None:
    left = not_in_graphs(accepted({"captured": False, "reason": "RuntimeError: it reads a value", "rounds": []}))
    assert list(left) == CARDS and "it reads a value" in left["norm"]
    assert list(not_in_graphs(accepted(under_graphs(without=70.0)))) == CARDS
    graphs = under_graphs()
    graphs["outputs"] = {"equal": False, "difference": "output 0: 1 where 2 is allowed"}
    assert list(not_in_graphs(accepted(graphs))) == CARDS
