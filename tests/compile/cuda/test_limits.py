from __future__ import annotations

import pytest

from kforge_mcp.compile.build import Limits
from tests.compile.cuda.conftest import CompileCuda, failed, ok
from tests.compile.cuda.programs import OPENING, PLAIN, candidate

_TREE = """template <int N, int M> struct F {
    static constexpr long v = F<N - 1, 2 * M>::v + F<N - 1, 2 * M + 1>::v;
};
template <int M> struct F<0, M> { static constexpr long v = M; };
"""


def bomb(statement: str, before: str = "") -> str:
    return candidate(f"{before}{OPENING}\n    {statement}\n}}")


@pytest.mark.parametrize(
    ("source", "limits", "part"),
    [
        (bomb("out[0] = F<24, 0>::v;", _TREE), Limits(cpu_s=2), "more than 2 s of processor time"),
        (bomb("out[0] = F<24, 0>::v;", _TREE), Limits(memory_bytes=200 << 20), "memory"),
        (
            bomb(
                "out[0] = R<100000>::v;",
                "template <int N> struct R { static constexpr int v = R<N - 1>::v + 1; };\n"
                "template <> struct R<0> { static constexpr int v = 0; };\n",
            ),
            Limits(),
            "nested too deeply",
        ),
        (
            bomb(
                "constexpr long v = sum(100000000000L); out[0] = v;",
                "__device__ constexpr long sum(long n) { long s = 0; while (n) s += n--; return s; }\n",
            ),
            Limits(cpu_s=3),
            "",
        ),
        (
            bomb("out[0] = big[n];", "__device__ const char big[1 << 28] = {1};\n"),
            Limits(memory_bytes=512 << 20),
            "memory",
        ),
        (bomb("out[0] = big[n];", "__device__ const char big[1 << 24] = {1};\n"), Limits(file_bytes=1 << 20), "1 MiB"),
    ],
    ids=["time", "memory", "deep templates", "endless constant", "huge constant", "huge program"],
)
def test_a_compile_bomb_ends_at_a_limit_and_the_next_candidate_compiles(
    cuda: CompileCuda, source: str, limits: Limits, part: str
) -> None:
    outcome = failed(cuda(source, limits=limits))
    assert outcome.reason == "limit_exceeded"
    assert part in outcome.message
    ok(cuda(PLAIN))


def test_a_limit_is_no_verdict_on_the_source(cuda: CompileCuda) -> None:
    source = bomb("out[0] = F<10, 0>::v;", _TREE)
    assert failed(cuda(source, limits=Limits(file_bytes=100))).reason == "limit_exceeded"
    assert ok(cuda(source))
