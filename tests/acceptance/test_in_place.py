"""An operator that overwrites its argument, judged through a client: candidates that do as it does, and others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.conftest import Agent, Answer, User

LOOP = """    for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < n; ++i)
            TARGET[r * n + i] = x[r * n + i] * factor[i] + 1.0f;
"""
IN_PLACE = """// /// kforge
// inplace = true
// entry = "scale"
// args = ["x", "factor", "x.shape[0]", "x.shape[1]"]
// ///
extern "C" void scale(x_t* x, const factor_t* factor, int64_t rows, int64_t n) {
BODY}
"""
INTO_OUT = """// /// kforge
// entry = "scale"
// args = ["x", "factor", "x.shape[0]", "x.shape[1]", "out"]
// ///
extern "C" void scale(const x_t* x, const factor_t* factor, int64_t rows, int64_t n, out_t* out) {
BODY}
"""


def written(template: str, target: str, more: str = "") -> str:
    return template.replace("BODY", LOOP.replace("TARGET", target) + more)


@pytest.fixture
async def card(user: User) -> dict[str, Any]:
    async with user.server() as agent:
        captured = await agent.call("capture_model", entry="small.py:in_place")
        assert not captured.is_error, captured.text
        listed = await agent.once("list_operator_cards", project_id=captured.structured["project_id"])
    return next(card for card in listed.structured["cards"] if card["name"] == "scale_rows_")


async def judged(agent: Agent, card: dict[str, Any], source: str) -> Answer:
    made = await agent.call("compile_candidate", card_id=card["card_id"], source=source)
    assert made.structured["passed"], made.text
    return await agent.call("validate", candidate_id=made.structured["candidate_id"])


@pytest.mark.anyio
async def test_a_candidate_overwrites_what_eager_overwrites_and_nothing_else(user: User, card: dict[str, Any]) -> None:
    assert card["eligible"], card["reason"]
    async with user.server() as agent:
        shown = await agent.once("get_operator_card", card_id=card["card_id"])
        assert "inplace" in shown.text
        for source in (written(IN_PLACE, "x"), written(INTO_OUT, "out")):
            answer = await judged(agent, card, source)
            assert answer.structured["passed"], answer.text
        reckless = written(IN_PLACE, "x", "    const_cast<factor_t*>(factor)[0] = 0;\n")
        answer = await judged(agent, card, reckless)
        assert (answer.structured["passed"], answer.structured["reason"]) == (False, "input_mutated")
        assert "`factor`" in answer.structured["message"]
        half = written(IN_PLACE, "x").replace("r < rows;", "r < rows / 2;")
        answer = await judged(agent, card, half)
        assert (answer.structured["passed"], answer.structured["reason"]) == (False, "wrong_result")
