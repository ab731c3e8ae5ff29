"""A sanitized build finds what the trials cannot see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kforge_mcp.candidate.plan import parse_plan
from kforge_mcp.candidate.rejection import Rejected
from kforge_mcp.compile import toolchain
from kforge_mcp.compile.compiler import compile_candidate
from kforge_mcp.compile.outcome import Compiled
from kforge_mcp.engine.context import JobContext
from kforge_mcp.errors import ToolchainError
from kforge_mcp.judge import sanitizers
from kforge_mcp.judge.adversaries import cards, kernels
from kforge_mcp.judge.holdout import Claim
from kforge_mcp.judge.sanitizers import Sanitized, sanitize
from kforge_mcp.store.workspace import Workspace

Check = Callable[[str], Sanitized]


@pytest.fixture
def check(workspace: Workspace, model_python: str, tmp_path: Path) -> Iterator[Check]:
    """What the sanitizers say of an RMS norm with this body."""
    with JobContext.standalone(workspace) as ctx:

        def run(body: str) -> Sanitized:
            card = cards.card(tmp_path, [cards.RMS_NORM])
            plan = parse_plan(kernels.rms_norm(body), card, "cpu")
            assert not isinstance(plan, Rejected)
            compiled = compile_candidate(ctx, plan, card, [{}])
            assert isinstance(compiled, Compiled)
            return sanitize(ctx, cards.project(model_python, tmp_path), Claim(card, plan, compiled, {}, "cand_1"))

        yield run


def line_of(body: str, part: str) -> int:
    lines = kernels.rms_norm(body).splitlines()
    return next(number for number, line in enumerate(lines, 1) if part in line)


def test_an_honest_kernel_is_clean(check: Check) -> None:
    said = check(kernels.RMS_ROWS)
    assert (said.status, said.message) == ("clean", "5 calls on 1 variants")


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("volatile float beyond = x[rows * n]; (void)beyond;", "reads 4 bytes out of bounds"),
        ("volatile int big = 2147483647; volatile int more = big + 1; (void)more;", "signed integer overflow"),
        ("volatile int by = 40; volatile int shifted = 1 << by; (void)shifted;", "shift exponent 40 is too large"),
    ],
)  # fmt: skip
def test_a_fault_without_effect_is_found_with_its_line(check: Check, statement: str, what: str) -> None:
    body = f"{kernels.RMS_ROWS}\n  {statement}\n"
    said = check(body)
    assert said.status == "finding", said
    assert what in said.message
    assert said.line == line_of(body, statement)
    assert statement.split(";")[0] in said.message


def test_a_compiler_without_sanitizers_is_said(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(ctx: JobContext, found: toolchain.Toolchain) -> list[str]:
        raise ToolchainError("g++ has no libasan.so; install its sanitizer libraries")

    monkeypatch.setattr(sanitizers, "sanitizer_libraries", lacking)
    said = check(kernels.RMS_ROWS)
    assert (said.status, said.message) == ("unavailable", "g++ has no libasan.so; install its sanitizer libraries")
