"""The whole export, with the judge's holdout replaced by given figures: compiled, built, accepted, written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.engine.context import JobContext
from kforge_mcp.engine.interpreter import find_interpreter
from kforge_mcp.errors import NotFoundError, UsageError
from kforge_mcp.export import evidence, job
from kforge_mcp.judge.evaluate import HoldoutResult
from kforge_mcp.judge.sanitizers import Sanitized
from kforge_mcp.records.admission import Admission
from kforge_mcp.records.base import now
from kforge_mcp.records.candidate import Candidate
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import DeviceInfo, Project
from kforge_mcp.records.result import StageResult, VariantVerdict
from kforge_mcp.records.tensor import InputRecipe
from kforge_mcp.store import candidates, cards, packages, projects
from kforge_mcp.store.workspace import Workspace


@dataclass
class Shop:
    """A workspace with the captured sample model and a benchmarked candidate for each card."""

    workspace: Workspace
    project: Project
    ctx: JobContext

    def export(self, **arguments: Any) -> dict[str, Any]:
        return job.export(self.ctx, project_id=self.project.project_id, **{"name": "tinykernels", **arguments})

    def put(self, card: OperatorCard, source: str, verdict: Any = "faster") -> None:
        name = f"cand_{card.card_id}"
        result = StageResult(
            candidate_id=name,
            stage="benchmark",
            status="ok",
            passed=True,
            verdict=verdict,
            speedup=7.777,
            ci_low=7.666,
            ci_high=7.888,
        )
        made = Candidate(
            candidate_id=name,
            card_id=card.card_id,
            project_id=self.project.project_id,
            target="cpu",
            source=self.workspace.blobs.put(source.encode()),
            source_key=name,
            created_at=now(),
            benchmarked=result,
        )
        with self.workspace.transaction() as session:
            cards.save(session, card)
            candidates.save(session, made)


@pytest.fixture
def shop(workspace: Workspace, toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    folder = tmp_path / "user"
    folder.mkdir()
    shutil.copy(toolbox.folder / "tiny_model.py", folder)
    project = Project(
        project_id="project_sample",
        name="sample",
        entry="tiny_model.py:make",
        entry_path=str(folder / "tiny_model.py"),
        project_dir=str(folder),
        target="cpu",
        interpreter=find_interpreter(toolbox.model_python, None),
        device=DeviceInfo(target="cpu", name="a processor", threads=1),
        workload_us=1000.0,
        created_at=now(),
    )
    with workspace.transaction() as session:
        projects.save(session, project)
    monkeypatch.setattr(job, "_BUDGET_S", 0.5)
    with JobContext.standalone(workspace, tool="export_package", cwd=folder) as ctx:
        yield Shop(workspace, project, ctx)


@pytest.fixture
def card_of(shop: Shop) -> Callable[[OperatorCard], OperatorCard]:
    """A sample card with the reference that capture would have written for the user's file."""

    def of(card: OperatorCard) -> OperatorCard:
        imports = [{"name": "tiny_model", "path": shop.project.entry_path}]
        reference = {**card.reference, "imports": imports, "sys_path": [shop.project.project_dir]}
        recipe = InputRecipe(kind="quantiles", quantiles=[-3.0, -1.0, 0.0, 1.0, 3.0])
        variants = [
            variant.model_copy(
                update={"tensors": [spec.model_copy(update={"recipe": recipe}) for spec in variant.tensors]}
            )
            for variant in card.variants
        ]
        return card.model_copy(update={"reference": reference, "variants": variants})

    return of


@pytest.fixture
def holdout(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Replaces the judge's holdout; candidates put into the set fail it."""
    failing: set[str] = set()

    def measured(ctx: JobContext, project: Project, claims: list[Any]) -> list[HoldoutResult]:
        return [_result(claim, claim.candidate_id not in failing) for claim in claims]

    monkeypatch.setattr(evidence, "holdout", measured)
    return failing


@pytest.fixture(autouse=True)
def sanitizers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sanitized run takes seconds: tests that are not about it go without."""
    if request.node.get_closest_marker("sanitized") is None:
        monkeypatch.setattr(evidence, "sanitize", lambda *_: Sanitized("unavailable", "not in this test"))


def _result(claim: Any, passed: bool) -> HoldoutResult:
    shown = [
        VariantVerdict(
            variant_id=variant.variant_id,
            verdict="faster" if passed else "no_difference_shown",
            speedup=1.44,
            ci_low=1.33,
            ci_high=1.55,
            eager_us=100.0,
            candidate_us=70.0,
        )
        for variant in claim.card.variants
    ]
    return HoldoutResult(
        candidate_id=claim.candidate_id,
        passed=passed,
        joint=shown[0],
        variants=shown,
        p_value=0.001 if passed else 0.5,
        process_medians=[0.3] * 8,
        reason="" if passed else "no difference shown over 8 processes",
    )


def faster_in_model(found: Any) -> dict[str, str]:
    """Takes the figures as they are, so that a test does not depend on this machine's speed."""
    return {}


@pytest.mark.sanitized
def test_package_is_written_accepted_and_recorded(
    shop, card_of, holdout, sample_cards, sample_source, toolbox, monkeypatch
) -> None:
    monkeypatch.setattr(job.acceptance, "to_leave_out", faster_in_model)
    note = "no float64 oracle (TypeError): eager in its own precision stands in for it"
    card = sample_cards[0].model_copy(update={"admissions": {"v_norm": Admission(key="k", notes=[note])}})
    shop.put(card_of(card), sample_source.replace("// entry", "// nondeterministic = true\n// entry"))
    result = shop.export(path="out/tinykernels")
    folder = Path(result["path"])
    assert folder == Path(shop.project.project_dir) / "out" / "tinykernels"
    assert Path(result["wheel"]).name == "tinykernels-0.1.0-py3-none-linux_x86_64.whl"
    (kernel,) = result["kernels"]
    assert kernel["included"] and kernel["in_model"]["pairs"] >= 10
    assert result["end_to_end"][0]["outputs_equal"], result["end_to_end"]
    text = Path(result["report"]).read_text()
    assert "| holdout, card | faster | 1.440 | 1.330 to 1.550 | 100.0 | 70.0 |" in text
    assert not any(figure in text for figure in ("7.777", "7.666", "7.888")), "a figure of the search was published"
    assert "What was not verified" in text
    assert "It declares itself nondeterministic" in text
    assert f"- Judged with this in mind (v_norm): {note}.\n\n| | verdict" in text
    assert json.loads((folder / "tinykernels" / "manifest.json").read_text())["cards"][0]["nondeterministic"] is True
    assert "AddressSanitizer and UndefinedBehaviorSanitizer found nothing in 5 calls on 1 variants" in text
    samples = json.loads((folder / "samples" / "acceptance.json").read_text())
    assert len(samples[-1]["rounds"]) == result["end_to_end"][0]["comparison"]["pairs"]
    assert json.loads((folder / "samples" / "holdout.json").read_text())[0]["process_medians"] == [0.3] * 8
    with shop.workspace.reading() as session:
        stored = packages.of_project(session, "project_sample")
    assert [package.package_id for package in stored] == [result["package_id"]]
    assert shop.workspace.blobs.get(result["digest"]) == Path(result["wheel"]).read_bytes()
    toolbox.python(
        """
import torch, tiny_model, tinykernels
torch.set_grad_enabled(False)
model, (x,) = tiny_model.make()
tinykernels.attach(model)
model(x)
assert tinykernels.stats()["TinyNorm"]["hits"] == 3
""",
        folder,
    )
    with pytest.raises(UsageError, match="overwrite=true"):
        shop.export(path="out/tinykernels")
    again = shop.export(path="out/tinykernels", overwrite=True)
    assert again["path"] == result["path"] and again["package_id"] != result["package_id"]


@pytest.mark.sanitized
def test_a_read_out_of_bounds_that_changes_nothing_keeps_a_kernel_out(
    shop, card_of, holdout, sample_cards, sample_source
) -> None:
    reading = sample_source.replace("double sum = 0;", "double sum = 0 * w[-1];")
    assert reading != sample_source
    shop.put(card_of(sample_cards[0]), reading)
    result = shop.export()
    (kernel,) = result["kernels"]
    assert result["path"] == "" and not kernel["included"]
    line = next(number for number, text in enumerate(reading.splitlines(), 1) if "w[-1]" in text)
    assert kernel["reason"].startswith(f"sanitizers: line {line}, `double sum = 0 * w[-1];`: reads 4 bytes out of")


def test_what_a_machine_lacks_is_said_in_the_report(
    shop, card_of, holdout, sample_cards, sample_source, monkeypatch
) -> None:
    monkeypatch.setattr(job.acceptance, "to_leave_out", faster_in_model)
    shop.put(card_of(sample_cards[0]), sample_source)
    text = Path(shop.export()["report"]).read_text()
    assert "Sanitizers: not applied (not in this test)." in text


def test_a_kernel_that_spoils_the_model_is_dropped_and_nothing_is_written(
    shop, card_of, holdout, sample_cards, sample_source
) -> None:
    wrong = sample_source.replace("+ scratch[i]", "* 1.5f + scratch[i]")
    assert wrong != sample_source
    shop.put(card_of(sample_cards[0]), wrong)
    result = shop.export()
    assert result["path"] == result["wheel"] == result["package_id"] == ""
    assert not result["kernels"][0]["included"]
    assert "outputs differ beyond tolerance" in result["kernels"][0]["reason"]
    assert not result["end_to_end"][0]["outputs_equal"]
    assert list(shop.workspace.packages_dir.iterdir()) == []
    with shop.workspace.reading() as session:
        assert packages.of_project(session, "project_sample") == []


def test_what_fails_on_holdout_or_lacks_a_verdict_is_named_and_nothing_is_written(
    shop, card_of, holdout, sample_cards, sample_source, pair_source
) -> None:
    shop.put(card_of(sample_cards[0]), sample_source)
    shop.put(card_of(sample_cards[1]), pair_source, verdict="no_difference_shown")
    holdout.add("cand_card_norm")
    result = shop.export()
    reasons = {kernel["card"]: kernel["reason"] for kernel in result["kernels"]}
    assert reasons["TinyNorm"] == "holdout: no difference shown over 8 processes"
    assert reasons["scaled_pair"].startswith("best candidate cand_card_pair: no difference shown")
    assert result["path"] == "" and "no kernel qualifies" in result["notes"][0]


def test_a_project_without_candidates_says_what_to_do(shop) -> None:
    assert "submit_candidate" in shop.export()["notes"][0]


def test_a_kernel_that_crashes_in_the_model_is_left_out(shop, card_of, holdout, sample_cards, sample_source) -> None:
    shop.put(card_of(sample_cards[0]), sample_source.replace("double sum = 0;", "double sum = 0; __builtin_trap();"))
    result = shop.export()
    assert result["path"] == ""
    assert "ended with signal SIGILL" in result["kernels"][0]["reason"]


def test_a_workload_that_is_gone_is_an_unusable_call(shop, card_of, holdout, sample_cards, sample_source) -> None:
    shop.put(card_of(sample_cards[0]), sample_source)
    Path(shop.project.entry_path).unlink()
    with pytest.raises(UsageError, match="cannot be imported again"):
        shop.export()


def test_a_source_that_no_longer_compiles_is_left_out(shop, card_of, holdout, sample_cards, sample_source) -> None:
    shop.put(card_of(sample_cards[0]), sample_source.replace("double sum", "duoble sum"))
    reason = shop.export()["kernels"][0]["reason"]
    assert reason.startswith("it no longer compiles") and "duoble" in reason


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"name": "torch"}, "hide an existing module"), ({"path": "/etc/kernels"}, "is not inside")],
)
def test_unusable_arguments_are_refused_before_any_work(shop, arguments: dict[str, str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        shop.export(**arguments)


def test_an_unknown_project_is_named(shop) -> None:
    with pytest.raises(NotFoundError, match="project_gone"):
        job.export(shop.ctx, project_id="project_gone", name="tinykernels")
