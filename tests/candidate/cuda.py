"""CUDA candidates of tests: blocks with a launch whose kernel is in the code."""

from __future__ import annotations

from kforge_mcp.candidate.bound import BoundProgram
from kforge_mcp.candidate.plan import Plan, Rejected, parse_plan
from kforge_mcp.candidate.step_binding import bind_steps
from kforge_mcp.records.card import OperatorCard
from tests.candidate.cards import candidate_text

CODE = "template <int B> __global__ void tiled() {}\n__global__ void k() {}\n"


def launch(args: str = "", *, grid: str = "1", block: str = "32", kernel: str = "k", more: str = "") -> str:
    """One launch as TOML; `more` are further lines."""
    lines = f'[[step]]\nkernel = "{kernel}"\ngrid = ["{grid}"]\nblock = ["{block}"]\nargs = [{args}]'
    return lines + (f"\n{more}" if more else "")


def read(card: OperatorCard, metadata: str) -> Plan | Rejected:
    return parse_plan(candidate_text(metadata, CODE), card, "cuda")


def plan_for(card: OperatorCard, metadata: str) -> Plan:
    plan = read(card, metadata)
    assert isinstance(plan, Plan), plan.message
    return plan


def bound(card: OperatorCard, metadata: str, config: dict[str, int | float | bool | str] | None = None) -> BoundProgram:
    plan = plan_for(card, metadata)
    program = bind_steps(plan, card.variants[0], config or {})
    assert isinstance(program, BoundProgram), program.message
    return program


def refused(card: OperatorCard, metadata: str) -> Rejected:
    rejected = read(card, metadata)
    assert isinstance(rejected, Rejected)
    return rejected
