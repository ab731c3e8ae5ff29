"""Records for tests of the search and of the server, as a capture would have made them."""

from __future__ import annotations

from typing import Any

from kforge_mcp.records.base import new_id, now
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import DeviceInfo, Interpreter, Project
from kforge_mcp.records.result import StageResult, VariantVerdict
from kforge_mcp.records.tensor import InputRecipe, TensorSpec
from kforge_mcp.records.variant import Argument, Variant
from kforge_mcp.store import cards, projects
from kforge_mcp.store.workspace import Workspace


def make_project(**changes: Any) -> Project:
    facts: dict[str, Any] = {
        "project_id": new_id("proj"),
        "name": "tiny",
        "entry": "model.py:build",
        "entry_path": "/project/model.py",
        "project_dir": "/project",
        "target": "cpu",
        "interpreter": Interpreter(
            executable="/usr/bin/python3", found_by="server", python_version="3.12.1", torch_version="2.13.0"
        ),
        "device": DeviceInfo(target="cpu", name="Test CPU", threads=2),
        "workload_us": 10_000.0,
        "created_at": now(),
    }
    return Project(**facts | changes)


def tensor(*shape: int) -> TensorSpec:
    stride, step = [], 1
    for size in reversed(shape):
        stride.insert(0, step)
        step *= size
    recipe = InputRecipe(kind="quantiles", quantiles=[-1.0, 0.0, 1.0])
    return TensorSpec(dtype="fp32", shape=list(shape), stride=stride, recipe=recipe)


def make_variant(rows: int = 512, width: int = 1024, **changes: Any) -> Variant:
    facts: dict[str, Any] = {
        "variant_id": new_id("var"),
        "tensors": [tensor(rows, width), tensor(width)],
        "arguments": [
            Argument(name="hidden_states", kind="tensor", role="input", tensors=[0], path="args[0]"),
            Argument(name="weight", kind="tensor", role="parameter", tensors=[1], path="self.weight"),
            Argument(name="eps", kind="constant", role="constant", value=1e-6, path="self.eps"),
        ],
        "outputs": [tensor(rows, width)],
        "call": {},
        "calls": 9,
        "eager_us": 400.0,
        "unique_bytes": 8 * rows * width,
        "speed_of_light_us": 40.0,
    }
    return Variant(**facts | changes)


def make_card(project: Project, **changes: Any) -> OperatorCard:
    facts: dict[str, Any] = {
        "card_id": new_id("card"),
        "project_id": project.project_id,
        "level": "module",
        "name": "TinyRMSNorm",
        "qualified_name": "model:TinyRMSNorm",
        "eligible": True,
        "calls": 9,
        "eager_us": 3600.0,
        "share": 0.36,
        "gain_ceiling": 1.48,
        "worth_it": True,
        "variants": [make_variant()],
        "reference_source": "class TinyRMSNorm(nn.Module):\n    def forward(self, hidden_states):\n        ...\n",
    }
    return OperatorCard(**facts | changes)


def store_card(workspace: Workspace, project: Project | None = None, **changes: Any) -> tuple[Project, OperatorCard]:
    """A project with one more card, stored."""
    owner = project or make_project()
    card = make_card(owner, **changes)
    with workspace.transaction() as session:
        if project is None:
            projects.save(session, owner)
        cards.save(session, card)
    return owner, card


def source(name: str = "kernel", body: str = "") -> str:
    """A candidate for the card above that compiles; different bodies are different candidates."""
    return (
        "// /// kforge\n"
        f'// entry = "{name}"\n'
        '// args = ["hidden_states", "weight", "eps", "out", "out.numel"]\n'
        "// ///\n"
        f'extern "C" void {name}(const hidden_states_t* x, const weight_t* w, float eps, out_t* y, int64_t n) {{\n'
        f"    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * w[i % 1024] + eps;\n    {body}\n}}\n"
    )


def measured(card: OperatorCard, candidate_id: str, speedup: float, *, spread: float = 0.02) -> StageResult:
    """A benchmark that came out at this speed-up."""
    low, high = speedup * (1 - spread), speedup * (1 + spread)
    word = "faster" if low > 1.02 else "slower" if high < 0.98 else "no_difference_shown"
    eager = card.variants[0].eager_us
    figures: dict[str, Any] = {
        "verdict": word,
        "speedup": speedup,
        "ci_low": low,
        "ci_high": high,
        "eager_us": eager,
        "candidate_us": eager / speedup,
        "speed_of_light": min(1.0, 40.0 * speedup / eager),
    }
    variants = [VariantVerdict(variant_id=variant.variant_id, pairs=60, **figures) for variant in card.variants]
    return StageResult(
        candidate_id=candidate_id,
        stage="benchmark",
        status="ok",
        passed=True,
        own_kernel_share=1.0,
        variants=variants,
        **figures,
    )


def failed(candidate_id: str, reason: Any = "wrong_result", message: str = "row 3 differs") -> StageResult:
    """A validation that failed."""
    return StageResult(candidate_id=candidate_id, stage="validate", status="failed", reason=reason, message=message)
