"""Every tool's contract: the files are fresh, and no schema has a shape that clients stumble over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kforge_mcp.server import contracts
from kforge_mcp.server.app import TOOLS
from tests.conftest import REPOSITORY

ORDER = [
    "capture_model", "list_operator_cards", "get_operator_card", "next_proposal", "submit_candidate", "get_candidate",
    "profile_candidate", "search_status", "set_budget", "export_package", "job_status", "cancel_job",
    "compile_candidate", "validate", "benchmark",
]  # fmt: skip
CONTRACTS = {tool["name"]: tool for tool in contracts.contract()}
each_tool = pytest.mark.parametrize("tool", CONTRACTS.values(), ids=CONTRACTS.keys())


def test_the_files_say_what_the_server_says() -> None:
    assert contracts.check(REPOSITORY / "tools") == []


def test_the_tools_stand_in_the_order_of_the_loop() -> None:
    assert [spec.name for spec in TOOLS] == ORDER


@each_tool
def test_all_annotations_are_set(tool: dict[str, Any]) -> None:
    assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    assert not (tool["annotations"]["readOnlyHint"] and tool["annotations"]["destructiveHint"])


@each_tool
def test_inputs_are_described_flat_scalars_with_non_null_defaults(tool: dict[str, Any]) -> None:
    schema = tool["inputSchema"]
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    assert not {"anyOf", "oneOf", "allOf", "$defs"} & set(schema)
    for name, parameter in schema["properties"].items():
        assert parameter["type"] in ("string", "number", "integer", "boolean"), name
        assert len(parameter["description"]) > 5, name
        assert not {"anyOf", "oneOf", "allOf", "$ref"} & set(parameter), name
        assert (name in schema.get("required", ())) != ("default" in parameter), name
        assert parameter.get("default", "") is not None, name


@each_tool
def test_times_are_named_with_their_unit(tool: dict[str, Any]) -> None:
    for name, parameter in tool["inputSchema"]["properties"].items():
        if name.endswith("_s"):
            assert "econds" in parameter["description"], name


@each_tool
def test_descriptions_and_input_schemas_are_short(tool: dict[str, Any]) -> None:
    assert 30 <= len(tool["description"]) <= 600
    wire = json.dumps([tool["description"], tool["inputSchema"]], separators=(",", ":"))
    assert len(wire) < 600 * 4  # about four characters to a token


@each_tool
def test_outputs_are_typed_objects(tool: dict[str, Any]) -> None:
    schema = tool["outputSchema"]
    assert schema["type"] == "object"
    assert schema["properties"]
    assert "title" not in json.dumps(sorted(schema))


def test_missing_stale_and_surplus_files_are_found(tmp_path: Path) -> None:
    contracts.write(tmp_path)
    assert contracts.check(tmp_path) == []
    (tmp_path / "validate.json").unlink()
    (tmp_path / "extra.json").write_text('{"tool": {}, "examples": []}')
    stale = json.loads((tmp_path / "benchmark.json").read_text())
    stale["tool"]["description"] = "other"
    (tmp_path / "benchmark.json").write_text(json.dumps(stale))
    problems = contracts.check(tmp_path)
    assert [problem.split(" is ")[1].split(":")[0] for problem in problems] == ["stale", "surplus", "missing"]
    contracts.write(tmp_path)
    assert contracts.check(tmp_path) == []


def test_examples_are_normalised_kept_when_renewed_and_checked(tmp_path: Path) -> None:
    contracts.write(tmp_path)
    arguments = {"job_id": "job_0123456789"}
    structured = {
        "job_id": "job_0123456789", "tool": "validate", "status": "ok", "elapsed_s": 3.14159,
        "message": "in /home/x/ws/a", "result": {"candidate_id": "cand_abcdefghjk", "eager_us": 123.456},
    }  # fmt: skip
    text = "job_0123456789 of cand_abcdefghjk at 2026-03-04T05:06:07.123456Z"
    kept = contracts.record_example(tmp_path, "job_status", arguments, text, structured, paths={"/home/x/ws": "/ws"})
    assert kept
    assert not contracts.record_example(tmp_path, "job_status", arguments, text, structured)
    contracts.write(tmp_path)
    example = json.loads((tmp_path / "job_status.json").read_text())["examples"][0]
    assert example["arguments"]["job_id"] == "job_0000000001"
    assert example["text"] == "job_0000000001 of cand_0000000001 at 2026-01-01T00:00:00Z"
    assert example["structured"]["message"] == "in /ws/a"
    assert example["structured"]["elapsed_s"] == 3.1
    assert example["structured"]["result"]["eager_us"] == 120.0
    assert contracts.check(tmp_path) == []
    contracts.record_example(tmp_path, "job_status", {"job": 1}, "", None)
    assert "job_status.json, example 1" in contracts.check(tmp_path)[0]
