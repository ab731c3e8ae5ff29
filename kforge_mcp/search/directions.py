"""Directions that a proposer may try next: general ones that fit the target and were not tried in the parent."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from kforge_mcp.records.card import OperatorCard
from kforge_mcp.records.result import StageResult

SMALL_CALL_US = 30.0
"""Below this a CPU call is dominated by waking threads and by passes over little data."""


@dataclass(frozen=True)
class Facts:
    """What a rule may look at."""

    card: OperatorCard
    target: str
    source: str
    verdict: StageResult | None

    def has(self, pattern: str) -> bool:
        """Whether the parent's source already does it."""
        return re.search(pattern, self.source) is not None

    @property
    def small(self) -> bool:
        """Whether even the largest call is over before threads pay off."""
        return bool(self.card.variants) and max(variant.eager_us for variant in self.card.variants) < SMALL_CALL_US

    @property
    def memory_bound(self) -> bool:
        """Whether all variants do little arithmetic for the bytes that they move."""
        return all(variant.flops < 16 * max(1, variant.unique_bytes) for variant in self.card.variants)


@dataclass(frozen=True)
class _Direction:
    text: str
    fits: Callable[[Facts], bool]


_CPU = (
    _Direction(
        "Fuse all of the operator's passes into one loop per row, so that every element is read and written once.",
        lambda facts: not facts.source,
    ),
    _Direction(
        "Spread the outer loop over threads: `#pragma omp parallel for` over rows or blocks of rows.",
        lambda facts: not facts.small and not facts.has(r"omp\s+parallel"),
    ),
    _Direction(
        "Go parallel only above a size: `if(...)` on the omp pragma, or a tunable number of rows per thread.",
        lambda facts: facts.has(r"omp\s+parallel") and not facts.has(r"omp\s+parallel[^\n]*\bif\s*\("),
    ),
    _Direction(
        "Vectorise the inner loop: `#pragma omp simd` with a reduction clause, `__restrict__` pointers, no branches.",
        lambda facts: not facts.has(r"omp\s+(parallel\s+for\s+)?simd|_mm(256|512)_|__restrict"),
    ),
    _Direction(
        "Break the dependency of the reduction: several independent accumulators (4 to 8), summed at the end.",
        lambda facts: not facts.has(r"acc\w*\[|sum\w*\[|acc[1-9]|sum[1-9]"),
    ),
    _Direction(
        "Keep a row in cache between its reduction and its use: block rows so that both passes hit L1 or L2.",
        lambda facts: facts.memory_bound and facts.has(r"for\s*\("),
    ),
    _Direction(
        "Write results that are not read again with streaming stores, and see whether bandwidth rises.",
        lambda facts: facts.memory_bound and not facts.small and not facts.has(r"_stream_|nontemporal"),
    ),
    _Direction(
        "Hoist what is the same for all rows (weights, factors, address arithmetic) out of the loop.",
        lambda facts: bool(facts.source),
    ),
    _Direction(
        "Turn block sizes, unroll factors and grain into `[tunables]`: they are swept inside one submission.",
        lambda facts: not facts.has(r"\[tunables\]"),
    ),
    _Direction(
        "Specialise the shapes that matter by `where` and fixed trip counts, and leave the rest to eager.",
        lambda facts: len(facts.card.variants) > 1 and not facts.has(r"//\s*where\s*="),
    ),
)

_CUDA = (
    _Direction(
        "Fuse all of the operator's passes into one kernel, so that every element is read and written once.",
        lambda facts: not facts.source,
    ),
    _Direction(
        "Load and store 16 bytes per thread (float4, or 8 halves), with neighbouring threads on neighbouring data.",
        lambda facts: not facts.has(r"float4|int4|uint4|vector"),
    ),
    _Direction(
        "Reduce with warp shuffles and one exchange through shared memory, instead of atomics or many barriers.",
        lambda facts: not facts.has(r"__shfl"),
    ),
    _Direction(
        "Split long rows over several blocks with a second small kernel: one block a row leaves processors idle.",
        lambda facts: facts.memory_bound,
    ),
    _Direction(
        "Turn block size, rows per block and vector width into `[tunables]`: they are swept inside one submission.",
        lambda facts: not facts.has(r"\[tunables\]"),
    ),
    _Direction(
        "Keep the row in registers between its reduction and its use.",
        lambda facts: facts.memory_bound and bool(facts.source),
    ),
)


def directions(facts: Facts, *, start: int = 0, count: int = 3) -> list[str]:
    """Up to `count` fitting directions, from `start` on in rotation, so that parallel proposers get different ones."""
    fitting = [rule.text for rule in (_CUDA if facts.target == "cuda" else _CPU) if rule.fits(facts)]
    return [fitting[(start + offset) % len(fitting)] for offset in range(min(count, len(fitting)))]
