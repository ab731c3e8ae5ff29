"""What the rounds of an in-model acceptance say, and which kernels stay. Pure: raw times in, decisions out."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from kforge_mcp.export.comparison import Pairs, compare
from kforge_mcp.records.package import Comparison, EndToEnd

EAGER, GRAPHS = "eager", "cuda_graph"


@dataclass(frozen=True)
class InModel:
    """Time in one card's calls during a run of the workload, and how many of its calls a kernel served."""

    comparison: Comparison | None
    """None if the card was never called with the package attached."""
    calls: int
    hits: int
    misses: dict[str, int]


@dataclass(frozen=True)
class UnderGraphs:
    """The workload as a CUDA graph, with the package against without, and with each kernel against without it.

    Where it cannot be captured, `reason` says why and there are no figures.
    """

    end_to_end: EndToEnd | None
    kernels: dict[str, Comparison]
    reason: str = ""


@dataclass(frozen=True)
class Acceptance:
    """One acceptance of one staged package. `kernels` is by card name; `raw` is the runtime's answer."""

    end_to_end: EndToEnd
    kernels: dict[str, InModel]
    raw: dict[str, Any]
    graphs: UnderGraphs | None = None
    """None where graphs were not asked for: on the CPU, or if no kernel is for them."""

    @property
    def modes(self) -> list[EndToEnd]:
        """The figures of every mode that was measured."""
        return [self.end_to_end, *([self.graphs.end_to_end] if self.graphs and self.graphs.end_to_end else [])]


def read(raw: dict[str, Any], cards: list[str]) -> Acceptance:
    """Verdicts from the rounds that the runtime answered with."""
    runs = [item["runs"] for item in raw["rounds"]]
    total = compare(_totals(runs, "without", "with"), null=_totals(runs, "without", "without_again"), runs=len(runs))
    outputs = raw["outputs"]
    kernels = {card: _kernel(raw, runs, card) for card in cards}
    end_to_end = EndToEnd(
        mode=EAGER, comparison=total, outputs_equal=outputs["equal"], difference=outputs["difference"]
    )
    graphs = raw.get("graphs")
    return Acceptance(end_to_end, kernels, raw, _under_graphs(graphs, cards) if graphs else None)


def _under_graphs(raw: dict[str, Any], cards: list[str]) -> UnderGraphs:
    if not raw["captured"]:
        return UnderGraphs(None, {}, raw["reason"])
    rounds = raw["rounds"]

    def against(one: str, two: str, null: str) -> Comparison:
        pairs = {"": [(times[one], times[two]) for times in rounds]}
        again = {"": [(times[null], times[f"{null}_again"]) for times in rounds]}
        return compare(pairs, null=again, runs=len(rounds))

    outputs = raw["outputs"]
    total = EndToEnd(
        mode=GRAPHS,
        comparison=against("without", "with", "without"),
        outputs_equal=outputs["equal"],
        difference=outputs["difference"],
    )
    return UnderGraphs(total, {card: against(f"off:{card}", "with", "with") for card in cards})


def _kernel(raw: dict[str, Any], runs: list[dict[str, Any]], card: str) -> InModel:
    served = raw["served"].get(card, {"hits": 0, "misses": {}})
    pairs, null = _calls(runs, f"off:{card}", "with", card), _calls(runs, "with", "with_again", card)
    # A card whose calls all lie inside another packaged card's is never called while that one is on.
    comparison = compare(pairs, null=null, runs=raw["repeats"] * len(runs)) if pairs and null else None
    calls = round(median(run["with"]["cards"][card]["count"] for run in runs) / raw["repeats"])
    return InModel(comparison, calls, served["hits"], served["misses"])


def _totals(runs: list[dict[str, Any]], one: str, two: str) -> Pairs:
    return {"": [(run[one]["total_us"], run[two]["total_us"]) for run in runs]}


def _calls(runs: list[dict[str, Any]], one: str, two: str, card: str) -> Pairs:
    """The card's calls in two arrangements, paired by their place in the run, grouped by their shapes."""
    groups: Pairs = {}
    for run in runs:
        sides = run[one]["cards"][card]["calls"], run[two]["cards"][card]["calls"]
        for (shapes, first), (other, second) in zip(*sides, strict=False):
            if shapes == other and first > 0 and second > 0:
                groups.setdefault(shapes, []).append((first, second))
    return groups


def to_leave_out(found: Acceptance) -> dict[str, str]:
    """Cards that must leave the package, by name, with the evidence; empty if it may be shipped as it is.

    A kernel stays if the time in its card's calls inside the running model is faster; the package stays if the
    outputs hold and the workload is not slower end to end. One cause is acted on at a time, the gravest first,
    since each changes what the others were measured in.
    """
    if not found.end_to_end.outputs_equal:
        return _blame_for_outputs(found)
    idle = {name: kernel for name, kernel in found.kernels.items() if kernel.hits == 0}
    if idle:
        return {name: _idle_reason(kernel) for name, kernel in idle.items()}
    helpless = {
        name: "in the model: " + (describe(comparison) if comparison else "never called")
        for name, kernel in found.kernels.items()
        if (comparison := kernel.comparison) is None or comparison.verdict != "faster"
    }
    if helpless:
        return helpless
    if found.end_to_end.comparison.verdict == "slower":
        runs = [item["runs"] for item in found.raw["rounds"]]
        without = {name: median(run[f"off:{name}"]["total_us"] for run in runs) for name in found.kernels}
        worst = min(without, key=lambda name: without[name])
        return {worst: "the workload was slower with the package: " + describe(found.end_to_end.comparison)}
    return {}


def not_in_graphs(found: Acceptance) -> dict[str, str]:
    """Cards whose kernels must not be recorded into CUDA graphs, by name, with the evidence.

    As for eager mode: a kernel is in if the outputs hold, it makes the workload faster, and the workload with the
    package is not slower.
    """
    graphs = found.graphs
    if graphs is None:
        return {}
    if graphs.end_to_end is None:
        return dict.fromkeys(found.kernels, f"the workload cannot be captured: {graphs.reason}")
    if not graphs.end_to_end.outputs_equal:
        return dict.fromkeys(found.kernels, f"the outputs differ beyond tolerance: {graphs.end_to_end.difference}")
    helpless = {name: describe(one) for name, one in graphs.kernels.items() if one.verdict != "faster"}
    if not helpless and graphs.end_to_end.comparison.verdict == "slower":
        return dict.fromkeys(found.kernels, describe(graphs.end_to_end.comparison))
    return helpless


def _blame_for_outputs(found: Acceptance) -> dict[str, str]:
    reason = f"the model's outputs differ beyond tolerance with it: {found.end_to_end.difference}"
    guilty = found.raw["outputs"].get("equal_without", [])
    return dict.fromkeys(guilty or found.kernels, reason)


def _idle_reason(kernel: InModel) -> str:
    if not kernel.misses:
        return "no call of the workload reached it"
    counted = ", ".join(f"{reason} {count}" for reason, count in sorted(kernel.misses.items()))
    return f"no call of the workload passed its guards (misses: {counted})"


def describe(comparison: Comparison) -> str:
    """A comparison as a person reads it."""
    word = comparison.verdict.replace("_", " ")
    interval = f"{comparison.ci_low:.3f} to {comparison.ci_high:.3f}"
    return f"{word}, {comparison.speedup:.3f} times ({interval}), {comparison.pairs} pairs"
