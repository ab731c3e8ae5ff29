"""Damaged code behind a valid block: the compiler's complaint arrives with the author's line, on both targets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from kforge_mcp.candidate.plan import Plan, configurations, parse_plan
from kforge_mcp.compile.compiler import CompileFailed, compile_candidate
from kforge_mcp.engine.context import JobContext
from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.project import Target
from tests.candidate.cards import candidate_text, make_card, rms_norm

CARD: OperatorCard = make_card(rms_norm(4, 64))
CPU = """extern "C" void rms(const hidden_states_t* x, const weight_t* w, float eps, int64_t rows, int64_t n,
                    out_t* y) {
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0.0f;
        for (int64_t i = 0; i < n; ++i)
            sum += x[row * n + i] * x[row * n + i];
        const float scale = 1.0f / std::sqrt(sum / n + eps);
        for (int64_t i = 0; i < n; ++i)
            y[row * n + i] = x[row * n + i] * scale * w[i];
    }
}
"""
CPU_BLOCK = """entry = "rms"
args = ["hidden_states", "weight", "variance_epsilon", "4", "64", "out"]"""
CUDA = """template <int B>
__global__ void rows(const hidden_states_t* x, const weight_t* w, float eps, long long n, out_t* y) {
    __shared__ float partial[B];
    const long long row = blockIdx.x;
    float sum = 0.0f;
    for (long long i = threadIdx.x; i < n; i += B)
        sum += x[row * n + i] * x[row * n + i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int half = B / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    const float scale = rsqrtf(partial[0] / n + eps);
    for (long long i = threadIdx.x; i < n; i += B)
        y[row * n + i] = x[row * n + i] * scale * w[i];
}
"""
CUDA_BLOCK = """[[step]]
kernel = "rows<64>"
grid = ["4"]
block = ["64"]
args = ["hidden_states", "weight", "variance_epsilon", "64", "out"]"""
FILES: dict[Target, tuple[str, str]] = {"cpu": (CPU_BLOCK, CPU), "cuda": (CUDA_BLOCK, CUDA)}


NAMES = re.compile(r"\b(?:sum|scale|row|partial|eps|half|threadIdx|__syncthreads)\b(?!\s*=|\[B)")


@dataclass(frozen=True)
class Damage:
    target: Target
    source: str
    lines: tuple[int, ...]
    """Where the compiler may see it: a lost semicolon shows at the next token."""
    part: str
    label: str


def damages() -> Iterator[Damage]:
    """Every line's last name misspelt, and every line's last semicolon or bracket lost."""
    for target, (block, code) in FILES.items():
        lines = code.splitlines()
        first = candidate_text(block).count("\n") + 1
        for number, line in enumerate(lines):
            if not line.startswith("    ") or "y) {" in line:
                continue
            names = list(NAMES.finditer(line))
            if names:
                at = names[-1].end()
                changed = [*lines[:number], f"{line[:at]}qq{line[at:]}", *lines[number + 1 :]]
                yield _damage(target, block, changed, (first + number,), f"{names[-1][0]}qq", f"name{number}")
            for character in (";", ")"):
                at = line.rfind(character)
                if at < 0:
                    continue
                changed = [*lines[:number], line[:at] + line[at + 1 :], *lines[number + 1 :]]
                place = (first + number, first + number + 1)
                yield _damage(target, block, changed, place, "expected", f"lost{character}{number}")


def _damage(target: Target, block: str, lines: list[str], place: tuple[int, ...], part: str, label: str) -> Damage:
    return Damage(target, candidate_text(block, "\n".join(lines) + "\n"), place, part, f"{target}-{label}")


def compiled(ctx: JobContext, source: str, target: Target) -> object:
    plan = parse_plan(source, CARD, target)
    assert isinstance(plan, Plan), plan.message
    return compile_candidate(ctx, plan, CARD, configurations(plan))


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_code_compiles_before_it_is_damaged(ctx: JobContext, target: Target) -> None:
    outcome = compiled(ctx, candidate_text(*FILES[target]), target)
    assert not isinstance(outcome, CompileFailed), outcome.message


@pytest.mark.parametrize("damage", list(damages()), ids=lambda damage: damage.label)
def test_damaged_code_is_refused_at_the_author_s_line(ctx: JobContext, damage: Damage) -> None:
    outcome = compiled(ctx, damage.source, damage.target)
    assert isinstance(outcome, CompileFailed)
    first = outcome.diagnostics[0]
    assert (outcome.reason, first.severity) == ("syntax_error", "error")
    assert first.line in damage.lines, outcome.message
    assert first.source_line == damage.source.splitlines()[first.line - 1]
    assert damage.part in outcome.message
    assert len(outcome.message) <= 1500
