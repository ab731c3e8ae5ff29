"""Malformed candidates, each with the reason and the place it must be refused with.

The mark `§` in a text stands where the fault is; it is taken out before the text is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kforge_mcp.records.project import Target
from kforge_mcp.records.result import Reason
from tests.candidate.cards import candidate_text

MARK = "§"
CPU_BASE = """where = "hidden_states.ndim >= 2 and weight.ndim == 1"
options = ["-ffast-math", "-O2"]
entry = "rms"
args = ["hidden_states", "weight", "variance_epsilon", "hidden_states.numel // hidden_states.shape[-1]",
    "hidden_states.shape[-1]", "scratch", "out"]
[tunables]
GRAIN = [8, 32]
FAST = [true, false]
[workspace]
scratch = { dtype = "fp32", shape = ["hidden_states.shape[-1]", "GRAIN"], init = "zero" }"""
CPU_CODE = """extern "C" void rms(const hidden_states_t* x, const weight_t* w, float eps, int64_t rows, int64_t n,
                    float* scratch, out_t* y) {
    for (int64_t row = 0; row < rows; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += x[row * n + i] * x[row * n + i];
        float scale = 1 / std::sqrt(sum / n + eps);
        for (int64_t i = 0; i < n; ++i) y[row * n + i] = x[row * n + i] * scale * w[i];
    }
}
"""
CUDA_BASE = """where = "hidden_states.ndim >= 2 and BLOCK <= 1024"
options = ["--use_fast_math", "-maxrregcount=64"]
[[step]]
call = "aten::sort"
args = ["hidden_states", "-1"]
out = ["sorted", "order"]
[[step]]
kernel = "rows<BLOCK>"
grid = ["hidden_states.numel // hidden_states.shape[-1]", "1"]
block = ["BLOCK"]
shared_bytes = "4 * BLOCK"
args = ["sorted", "order", "weight", "variance_epsilon", "sorted.shape[-1]", "scratch", "map_x"]
[[step]]
kernel = "finish"
grid = ["min(sm_count, ceil_div(out.numel, 256))"]
block = ["256"]
repeat = "2"
cooperative = true
args = ["scratch", "step", "out.numel", "out"]
[workspace]
scratch = { dtype = "fp32", shape = ["hidden_states.numel", "2"], init = "zero" }
[tunables]
BLOCK = [128, 256]
[tensor_maps]
map_x = { tensor = "hidden_states", shape = ["out.numel // 64", "64"], box = ["4", "32"], swizzle = "128B" }"""
CUDA_CODE = """template <int B>
__global__ void rows(const float* x, const long long* order, const float* w, float eps, long long n, float* s,
                     const __grid_constant__ CUtensorMap map) {}
__global__ void __launch_bounds__(256) finish(const float* s, long long step, long long n, float* y) {}
"""


@dataclass(frozen=True)
class Malformed:
    """A file with what must be said of it. `column` 0 leaves the column open; `part` stands in the message."""

    target: Target
    source: str
    reason: Reason
    line: int
    column: int
    part: str

    @property
    def label(self) -> str:
        return f"{self.target}:{self.line}:{self.column}:{self.part[:40]}"


def marked(
    target: Target, text: str, part: str, reason: Reason = "contract_error", *, whole_line: bool = False
) -> Malformed:
    """A file from a text with one mark."""
    before, mark, after = text.partition(MARK)
    assert mark, text
    line = before.count("\n") + 1
    column = 0 if whole_line else len(before) - (before.rfind("\n") + 1) + 1
    return Malformed(target, before + after, reason, line, column, part)


def base(target: Target) -> tuple[str, str]:
    return (CPU_BASE, CPU_CODE) if target == "cpu" else (CUDA_BASE, CUDA_CODE)


def edited(target: Target, old: str, new: str, part: str, reason: Reason = "contract_error") -> Malformed:
    """The target's valid file with the first `old` replaced; `new` has the mark."""
    metadata, code = base(target)
    whole = candidate_text(metadata, code)
    assert old in whole, old
    return marked(target, whole.replace(old, new, 1), part, reason)


def misspelt_names() -> Iterator[Malformed]:
    """Every name in every expression with a letter too many."""
    for target in ("cpu", "cuda"):
        metadata, code = base(target)
        whole = candidate_text(metadata, code)
        end = whole.index("// ///\n")
        names = "hidden_states|weight|variance_epsilon|scratch|sorted|order|out|sm_count"
        for match in re.finditer(rf"\b({names})\b(?! =)", whole):
            before = whole[: match.start()]
            # A name that a call declares, rather than uses, is another fault.
            if match.start() > end or re.search(r"out = \[[^\]]*$", before):
                continue
            text = f"{before}{MARK}{match[1]}q{whole[match.end() :]}"
            yield marked(target, text, f"unknown name `{match[1]}q`")


def broken_expressions() -> Iterator[Malformed]:
    """Every expression with a character that does not belong, a bracket that is not closed, nothing in it."""
    for target in ("cpu", "cuda"):
        metadata, code = base(target)
        for match in _expressions(metadata):
            start, stop = match.span(1)
            for change, part, reason in (
                (f"{match[1]} {MARK}ñ 2", "does not belong in an expression", "contract_error"),
                (f"({MARK}{match[1]}", "not an expression", "syntax_error"),
                (f"{MARK}", "an empty expression", "syntax_error"),
            ):
                text = candidate_text(metadata[:start] + change + metadata[stop:], code)
                yield marked(target, text, part, reason, whole_line=change.startswith("("))  # pyright: ignore[reportArgumentType]


def _expressions(metadata: str) -> Iterator[re.Match[str]]:
    """Quoted texts of keys that hold expressions."""
    skipped = ("options", "entry", "kernel", "call", "out")
    for match in re.finditer(r'"([^"]*)"', metadata):
        line = metadata[metadata.rfind("\n", 0, match.start()) + 1 : match.start()]
        key = re.findall(r"(\w+) = ", line)
        if key and (key[-1] in (*skipped, "dtype", "init", "swizzle", "tensor")):
            continue
        yield match


def damaged_lines() -> Iterator[Malformed]:
    """Every line of the block without its comment marks, with a quote lost, and with everything after it lost."""
    for target in ("cpu", "cuda"):
        metadata, code = base(target)
        lines = candidate_text(metadata, code).split("\n")
        last = lines.index("// ///")
        for number in range(1, last):
            bare = [*lines[:number], MARK + lines[number].removeprefix("// "), *lines[number + 1 :]]
            yield marked(target, "\n".join(bare), "close the block")
            cut = [MARK + lines[0], *lines[1 : number + 1]]
            yield marked(target, "\n".join(cut), "never closed")
            at = lines[number].rfind('"')
            if at >= 0:
                text = lines[number][:at] + lines[number][at + 1 :]
                torn = [*lines[:number], MARK + text, *lines[number + 1 :]]
                yield marked(target, "\n".join(torn), "not TOML", "syntax_error", whole_line=True)


def misspelt_keys() -> Iterator[Malformed]:
    """Every key with its last letter doubled."""
    for target in ("cpu", "cuda"):
        metadata, code = base(target)
        for match in re.finditer(r"(?:^|(?<=\{ )|(?<=, ))([a-z_]+) = ", metadata, re.MULTILINE):
            key = match[1]
            if key in ("scratch", "map_x", "sorted"):
                continue
            text = f"{metadata[: match.start(1)]}{MARK}{key}{key[-1]} = {metadata[match.end() :]}"
            yield marked(target, candidate_text(text, code), f"unknown key `{key}{key[-1]}`")


def wrong_values() -> Iterator[Malformed]:
    """Every top-level value and every value of a table replaced by one of a kind that none of them has."""
    for target in ("cpu", "cuda"):
        metadata, code = base(target)
        for match in re.finditer(r'^(\w+) = ("[^"]*"|true)$', metadata, re.MULTILINE):
            key = match[1]
            if key == "call":
                continue
            text = f"{metadata[: match.start(2)]}{MARK}1979-05-27{metadata[match.end(2) :]}"
            yield marked(target, candidate_text(text, code), "date")


def fuzzed() -> list[Malformed]:
    """All that is generated from the two valid files."""
    return [
        *misspelt_names(), *broken_expressions(), *damaged_lines(), *misspelt_keys(), *wrong_values(),
    ]  # fmt: skip
