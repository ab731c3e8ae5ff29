"""The tools, called by the SDK's client in memory."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.records.job import Job
from kforge_mcp.records.result import Diagnostic, StageResult, VariantVerdict
from kforge_mcp.server.results import PAGE_LIMIT, PROPOSALS_LIMIT, VERDICT_LIMIT, reply
from kforge_mcp.server.stage import stage_versions
from kforge_mcp.store.workspace import Workspace
from tests.search.building import failed, make_card, make_project, make_variant, measured, source, store_card
from tests.search.judging import FakeJudge
from tests.search.test_submission import CUDA
from tests.server.conftest import Connect, text_of

pytestmark = pytest.mark.anyio


def within(result: Any, limit: int) -> None:
    assert len(text_of(result)) <= limit
    assert len(json.dumps(result.structured_content, ensure_ascii=False)) <= limit


async def test_the_loop_from_proposal_to_status(
    connect: Connect,
    workspace: Workspace,
    judge: FakeJudge,
    in_place: list[Job],
) -> None:
    _, card = store_card(workspace)
    async with connect() as client:
        listed = await client.call_tool("list_operator_cards", {})
        assert listed.structured_content["cards"][0]["card_id"] == card.card_id
        within(listed, PAGE_LIMIT)

        proposed = await client.call_tool("next_proposal", {})
        proposal = proposed.structured_content["proposals"][0]
        assert proposal["seed_source"] in text_of(proposed)
        within(proposed, PROPOSALS_LIMIT)

        read = await client.call_tool("get_operator_card", {"card_id": card.card_id})
        assert 'extern "C" void' in read.structured_content["c_signature"]
        names = [(row["name"], row["c_type"]) for row in read.structured_content["arguments"]]
        assert names == [("hidden_states", "const float*"), ("weight", "const float*"), ("eps", "float")]
        within(read, PAGE_LIMIT)

        broken = await client.call_tool(
            "submit_candidate",
            {"card_id": card.card_id, "source": source(body="int x = ;"), "lease_id": proposal["lease_id"]},
        )
        assert not broken.is_error
        assert broken.structured_content["status"] == "failed"
        assert broken.structured_content["reason"] == "syntax_error"
        assert broken.structured_content["diagnostics"][0]["line"] == 7
        assert "line 7" in text_of(broken)
        within(broken, VERDICT_LIMIT)

        won = await client.call_tool(
            "submit_candidate",
            {"card_id": card.card_id, "source": source(), "lease_id": proposal["lease_id"], "note": "one pass"},
            meta={"model": "some-model", "tokens": 1234},
        )
        result = won.structured_content
        assert (result["status"], result["verdict"], result["speedup"]) == ("ok", "faster", 1.5)
        assert "faster, 1.500x" in text_of(won)
        within(won, VERDICT_LIMIT)

        again = await client.call_tool("submit_candidate", {"card_id": card.card_id, "source": source()})
        assert again.structured_content["duplicate_of"] == result["candidate_id"]
        assert again.structured_content["verdict"] == "faster"
        assert len(in_place) == 2

        status = await client.call_tool("search_status", {})
        row = status.structured_content["cards"][0]
        assert (row["best_candidate"], row["measured"], row["failed"]) == (result["candidate_id"], 1, 1)
        assert status.structured_content["budget"]["spent_iterations"] == 2
        assert result["candidate_id"] in text_of(status)
        within(status, PAGE_LIMIT)

        late = await client.call_tool("job_status", {"job_id": result["job_id"], "wait_s": 0})
        assert late.structured_content["status"] == "ok"
        assert late.structured_content["tool"] == "submit_candidate"
        assert late.structured_content["result"]["speedup"] == 1.5
        assert "faster" in text_of(late)


async def test_all_parts_of_a_candidate_can_be_read(
    connect: Connect,
    workspace: Workspace,
    judge: FakeJudge,
    in_place: list[Job],
) -> None:
    _, card = store_card(workspace)
    async with connect() as client:
        first = await client.call_tool("submit_candidate", {"card_id": card.card_id, "source": source()})
        parent = first.structured_content["candidate_id"]
        arguments = {"card_id": card.card_id, "source": source(body="int a;"), "parent_id": parent}
        child = (await client.call_tool("submit_candidate", arguments)).structured_content["candidate_id"]

        async def part(name: str, **more: Any) -> dict[str, Any]:
            result = await client.call_tool("get_candidate", {"candidate_id": child, "part": name, **more})
            assert result.structured_content["text"] in text_of(result)
            return result.structured_content

        assert "faster: 1.5x" in (await part("verdict"))["text"]
        assert (await part("source"))["text"] == source(body="int a;")
        assert "+    int a;" in (await part("diff"))["text"]
        assert "judge's log" in (await part("log"))["text"]
        assert json.loads((await part("samples"))["text"]) == {"pairs": [1.0, 2.0]}
        assert "CPU candidate" in (await part("sass"))["text"]
        page = await part("source", limit=10)
        assert (page["text"], page["next_offset"]) == (source()[:10], 10)
        rest = await part("source", offset=10)
        assert page["text"] + rest["text"] == source(body="int a;")
        assert rest["next_offset"] == -1


async def test_a_file_can_be_submitted_from_inside_the_allowed_folders_only(
    connect: Connect,
    workspace: Workspace,
    project_dir: Path,
    tmp_path: Path,
    judge: FakeJudge,
    in_place: list[Job],
) -> None:
    _, card = store_card(workspace)
    (project_dir / "kernel.cpp").write_text(source())
    (tmp_path / "outside.cpp").write_text(source())
    (project_dir / "link.cpp").symlink_to(tmp_path / "outside.cpp")
    async with connect() as client:

        async def submit(**arguments: str) -> Any:
            return await client.call_tool("submit_candidate", {"card_id": card.card_id, **arguments})

        assert (await submit(source_path="kernel.cpp")).structured_content["status"] == "ok"
        for path in ("../outside.cpp", "link.cpp", str(tmp_path / "outside.cpp"), "/etc/passwd"):
            refused = await submit(source_path=path)
            assert refused.is_error
            assert str(project_dir) in text_of(refused)
        assert "cannot be read" in text_of(await submit(source_path="missing.cpp"))
        assert "either source" in text_of(await submit())
        assert "not both" in text_of(await submit(source="x", source_path="kernel.cpp"))
        outside = await client.call_tool(
            "export_package", {"project_id": card.project_id, "name": "p", "path": "/tmp/p"}
        )
        assert outside.is_error
        assert "lies outside" in text_of(outside)


@pytest.mark.parametrize(
    ("tool", "arguments", "advice"),
    [
        ("get_operator_card", {"card_id": "card_x"}, "list_operator_cards"),
        ("submit_candidate", {"card_id": "card_x", "source": "x"}, "list_operator_cards"),
        ("next_proposal", {"card_id": "card_x"}, "list_operator_cards"),
        ("next_proposal", {"project_id": "proj_x"}, "capture_model"),
        ("list_operator_cards", {"project_id": "proj_x"}, "capture_model"),
        ("get_candidate", {"candidate_id": "cand_x"}, "search_status"),
        ("validate", {"candidate_id": "cand_x"}, "search_status"),
        ("benchmark", {"candidate_id": "cand_x"}, "search_status"),
        ("export_package", {"project_id": "proj_x", "name": "p"}, "capture_model"),
        ("set_budget", {"project_id": "proj_x"}, "capture_model"),
        ("set_budget", {"card_id": "card_x"}, "list_operator_cards"),
        ("set_budget", {}, "exactly one"),
        ("job_status", {"job_id": "job_x"}, "job"),
        ("cancel_job", {"job_id": "job_x"}, "job"),
        ("search_status", {}, "capture_model"),
        ("list_operator_cards", {}, "capture_model"),
    ],
)
async def test_unknown_ids_are_errors_that_say_what_to_call(
    connect: Connect, tool: str, arguments: dict[str, Any], advice: str
) -> None:
    async with connect() as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert advice in text_of(result)
    assert "Error executing tool" not in text_of(result)


async def test_wrong_arguments_are_named(connect: Connect) -> None:
    async with connect() as client:
        result = await client.call_tool("next_proposal", {"count": 99, "colour": "red"})
        assert result.is_error
        assert "there is no argument 'colour'" in text_of(result)
        assert "'count'" in text_of(result)
        missing = await client.call_tool("get_operator_card", {})
        assert "'card_id' is missing" in text_of(missing)


async def test_pages_of_many_cards_keep_their_limit_and_show_every_card_once(
    connect: Connect, workspace: Workspace
) -> None:
    project, first = store_card(workspace)
    cards = {first.card_id}
    for number in range(40):
        reason = "it draws random numbers, so that no two calls give the same result; " * 3
        _, card = store_card(workspace, project, name=f"model.layers.Operator{number}", eligible=False, reason=reason)
        cards.add(card.card_id)
    seen: list[str] = []
    cursor = ""
    async with connect() as client:
        while True:
            page = await client.call_tool("list_operator_cards", {"cursor": cursor, "limit": 50})
            within(page, PAGE_LIMIT)
            seen += [row["card_id"] for row in page.structured_content["cards"]]
            cursor = page.structured_content["next_cursor"]
            if not cursor:
                break
        wrong = await client.call_tool("list_operator_cards", {"cursor": "x7"})
        assert wrong.is_error
    assert sorted(seen) == sorted(cards)


async def test_a_huge_card_keeps_the_limit_and_its_source_can_be_read_on(
    connect: Connect, workspace: Workspace
) -> None:
    reference = "".join(f"    value_{number} = 'ü\"' + str({number})\n" for number in range(400))
    variants = [make_variant(rows=number + 1) for number in range(40)]
    _, card = store_card(workspace, reference_source=reference, variants=variants)
    read, offset = "", 0
    async with connect() as client:
        while offset >= 0:
            page = await client.call_tool("get_operator_card", {"card_id": card.card_id, "source_offset": offset})
            within(page, PAGE_LIMIT)
            read += page.structured_content["reference_source"]
            assert offset != page.structured_content["reference_next_offset"]
            offset = page.structured_content["reference_next_offset"]
        whole = await client.read_resource(f"kforge://cards/{card.card_id}")
    assert read == reference
    assert reference in whole.contents[0].text  # pyright: ignore[reportAttributeAccessIssue]


async def test_eight_proposals_with_long_sources_keep_the_limit(
    connect: Connect,
    workspace: Workspace,
    judge: FakeJudge,
    in_place: list[Job],
) -> None:
    _, card = store_card(workspace)
    outcomes = iter([1.3, failed("", message="wrong " * 300), 1.2, failed("", message="no " * 300)])
    judge.verdict = lambda _id: next(outcomes)
    parent = ""
    async with connect() as client:
        for number in range(4):
            body = f"int a{number};" + '\n// "quoted" and ünusual\n' * 150
            arguments = {
                "card_id": card.card_id,
                "source": source(body=body),
                "parent_id": parent,
                "note": "idea " * 90,
            }
            result = (await client.call_tool("submit_candidate", arguments)).structured_content
            parent = parent or result["candidate_id"]
        for count in (1, 8):
            proposals = await client.call_tool("next_proposal", {"count": count})
            within(proposals, PROPOSALS_LIMIT)
            assert len(proposals.structured_content["proposals"]) == count
            for row in proposals.structured_content["proposals"]:
                assert row["lease_id"] in text_of(proposals)
                assert row["directions"]
        status = await client.call_tool("search_status", {})
        within(status, PAGE_LIMIT)


async def test_budgets_are_set_and_stop_the_search(connect: Connect, workspace: Workspace) -> None:
    project, card = store_card(workspace)
    async with connect() as client:
        result = await client.call_tool("set_budget", {"project_id": project.project_id, "iterations": 1})
        assert result.structured_content["budget"]["iterations"] == 1
        assert (await client.call_tool("next_proposal", {})).structured_content["stop_reason"] == ""
        stopped = await client.call_tool("next_proposal", {})
        assert not stopped.is_error
        assert stopped.structured_content["stop_reason"] == "budget"
        assert stopped.structured_content["proposals"] == []
        assert "set_budget" in text_of(stopped)
        both = await client.call_tool("set_budget", {"project_id": project.project_id, "card_id": card.card_id})
        assert both.is_error


async def test_a_read_only_server_offers_nothing_that_changes_anything(connect: Connect) -> None:
    async with connect(read_only=True) as client:
        tools = (await client.list_tools()).tools
    assert {tool.name for tool in tools} == {
        "list_operator_cards", "get_operator_card", "get_candidate", "search_status", "job_status",
    }  # fmt: skip
    async with connect(toolsets=frozenset({"search"})) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert "submit_candidate" in names
    assert "capture_model" not in names
    assert "job_status" in names


async def test_guides_prompts_and_instructions_carry_a_client_through_the_loop(connect: Connect) -> None:
    async with connect(mode="legacy") as client:
        for name in ("capture_model", "next_proposal", "submit_candidate", "export_package", "job_status"):
            assert name in (client.instructions or "")
        assert len((client.instructions or "").splitlines()) <= 12
        for topic in ("loop", "candidate", "verdict", "export"):
            guide = await client.read_resource(f"kforge://guide/{topic}")
            assert guide.contents[0].text.startswith("#")  # pyright: ignore[reportAttributeAccessIssue]
        prompts = {prompt.name for prompt in (await client.list_prompts()).prompts}
        assert prompts == {"optimize_model", "optimize_operator"}
        prompt = await client.get_prompt("optimize_model", {"entry": "model.py:build"})
        assert "model.py:build" in prompt.messages[0].content.text  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_report_and_unknown_resources(connect: Connect, workspace: Workspace) -> None:
    project, card = store_card(workspace)
    async with connect() as client:
        report = await client.read_resource(f"kforge://projects/{project.project_id}/report")
        assert card.name in report.contents[0].text  # pyright: ignore[reportAttributeAccessIssue]
        for uri in ("kforge://guide/nothing", "kforge://cards/card_x", "kforge://candidates/cand_x/verdict"):
            with pytest.raises(Exception, match="there is no"):
                await client.read_resource(uri)


@pytest.mark.parametrize("word", ["a", '"', "\n", "ü", "\\"])
def test_a_verdict_keeps_its_limit_whatever_it_says(word: str) -> None:
    text = word * 5000
    result = StageResult(
        candidate_id="cand_0123456789",
        stage="benchmark",
        status="failed",
        reason="wrong_result",
        message=text,
        diagnostics=[Diagnostic(severity="error", message=text, line=1, column=2, source_line=text, hint=text)] * 30,
        variants=[VariantVerdict(variant_id=f"var_{number:010d}", message=text) for number in range(30)],
        notes=[text] * 10,
        config={f"NAME_{number}": number for number in range(5)},
    )
    shown, output = stage_versions(result, job_id="job_0123456789", remarks=(text,))
    assert len(shown) <= VERDICT_LIMIT
    assert len(json.dumps(output.model_dump(mode="json"), ensure_ascii=False)) <= VERDICT_LIMIT
    assert "wrong_result" in shown


def test_figures_that_are_no_numbers_become_null() -> None:
    card = make_card(make_project())
    result = measured(card, "cand_0123456789", 1.5).model_copy(
        update={"ci_high": float("inf"), "eager_us": float("nan")}
    )
    wire = reply(*stage_versions(result)).structured_content
    json.dumps(wire, allow_nan=False)
    assert wire is not None
    assert wire["ci_high"] is None


@pytest.mark.skipif(importlib.util.find_spec("cuda") is None, reason="no NVRTC: pip install 'kforge-mcp[cu13]'")
async def test_a_cuda_candidate_is_compiled_and_read_through_a_client(
    connect: Connect, workspace: Workspace, in_place: list[Job]
) -> None:
    _, card = store_card(workspace)
    async with connect() as client:
        arguments = {"card_id": card.card_id, "source": CUDA}
        result = await client.call_tool("compile_candidate", arguments)
        compiled = result.structured_content
        assert (compiled["status"], compiled["passed"]) == ("ok", True)
        assert "registers, no spills" in text_of(result)
        benchmarked = (await client.call_tool("submit_candidate", arguments)).structured_content
        assert benchmarked["reason"] == "target_unavailable"

        async def part(name: str) -> str:
            page = await client.call_tool("get_candidate", {"candidate_id": compiled["candidate_id"], "part": name})
            return page.structured_content["text"]

        assert "Compiling entry function" in await part("log")
        assert "// line 9: " in await part("sass")
