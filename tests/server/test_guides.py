"""The code in the guides is code that the server takes."""

from __future__ import annotations

import re

from kforge_mcp.candidate.plan import Rejected, configurations, parse_plan
from kforge_mcp.records.variant import Argument
from kforge_mcp.server.resources import TOPICS, guide
from tests.search.building import make_card, make_project, make_variant


def test_the_candidate_of_the_guide_is_read_without_complaint() -> None:
    variant = make_variant()
    *others, _ = variant.arguments
    epsilon = Argument(
        name="variance_epsilon", kind="constant", role="constant", value=1e-6, path="self.variance_epsilon"
    )
    card = make_card(make_project(), variants=[variant.model_copy(update={"arguments": [*others, epsilon]})])
    blocks = re.findall(r"```cpp\n(.*?)```", guide("candidate"), re.DOTALL)
    assert len(blocks) == 1
    plan = parse_plan(blocks[0], card, "cpu")
    assert not isinstance(plan, Rejected), plan.message
    assert [config["GRAIN"] for config in configurations(plan)] == [8, 32]


def test_every_reason_that_a_candidate_can_fail_for_is_explained() -> None:
    from typing import get_args

    from kforge_mcp.records.result import Reason

    text = guide("verdict")
    assert [reason for reason in get_args(Reason) if f"`{reason}`" not in text] == []


def test_guides_name_only_tools_and_arguments_that_there_are() -> None:
    from kforge_mcp.server.contracts import contract

    tools = {tool["name"]: set(tool["inputSchema"]["properties"]) for tool in contract()}
    for topic in TOPICS:
        for name, arguments in re.findall(r"`(\w+)\(([^`]*)\)`", guide(topic)):
            if name in ("attach", "detach", "stats"):
                continue
            assert name in tools, (topic, name)
            used = {part.split("=")[0].strip() for part in arguments.split(",") if "|" not in part}
            assert {word for word in used if word} <= tools[name], (topic, name, used)
