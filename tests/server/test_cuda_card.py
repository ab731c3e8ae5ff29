"""What the page of a card says where the project's target is CUDA."""

from __future__ import annotations

import re

from kforge_mcp.candidate.plan import Rejected, configurations, parse_plan
from kforge_mcp.records.project import DeviceInfo
from kforge_mcp.records.result import StageResult
from kforge_mcp.records.variant import Argument
from kforge_mcp.server.card_page import card_page
from kforge_mcp.server.resources import guide
from kforge_mcp.server.stage import stage_versions
from kforge_mcp.store import projects
from kforge_mcp.store.workspace import Workspace
from tests.search.building import make_card, make_project, make_variant, store_card


def test_a_card_of_a_cuda_project_shows_the_cuda_contract(workspace: Workspace) -> None:
    project = make_project(target="cuda", device=DeviceInfo(target="cuda", name="Test GPU"))
    with workspace.transaction() as session:
        projects.save(session, project)
    _, card = store_card(workspace, project)
    text, output = card_page(workspace, card.card_id).version(0, 2000, 4, 20_000)
    assert output.c_signature.startswith("__global__ void kernel(const hidden_states_t* hidden_states, ")
    assert "size expressions are long long" in output.c_signature
    assert any("[[step]]" in line for line in output.contract)
    assert not any("OpenMP" in line for line in output.contract)
    assert output.seed_source in text
    plan = parse_plan(output.seed_source, card, "cuda")
    assert not isinstance(plan, Rejected), plan.message


def test_the_cuda_candidate_of_the_guide_is_read_without_complaint() -> None:
    variant = make_variant()
    *others, _ = variant.arguments
    epsilon = Argument(name="variance_epsilon", kind="constant", role="constant", value=1e-6)
    card = make_card(make_project(), variants=[variant.model_copy(update={"arguments": [*others, epsilon]})])
    (block,) = re.findall(r"```cuda\n(.*?)```", guide("candidate"), re.DOTALL)
    plan = parse_plan(block, card, "cuda")
    assert not isinstance(plan, Rejected), plan.message
    assert [config["BLOCK"] for config in configurations(plan)] == [128, 256, 512]


def test_what_compiled_for_another_target_is_not_sent_to_the_benchmark() -> None:
    compiled = StageResult(candidate_id="cand_1", stage="compile", status="ok", passed=True)
    assert "Call benchmark" in stage_versions(compiled)[0]
    only = compiled.model_copy(update={"message": "compiled only: the project was captured on a CPU"})
    text, output = stage_versions(only)
    assert "Call benchmark" not in text
    assert "capture on that target" in output.next_step
